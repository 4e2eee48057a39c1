// npm `pusher-js`, unmodified: Weir is restarted, killed, reloaded.
import assert from "node:assert/strict";
import { test } from "node:test";

import { client, codes, next, record, server, subscribed, unique } from "./clients.js";
import { Proxy } from "./proxy.js";
import { app, Weir } from "./weir.js";

const QUICK = '[realtime]\ndrain_window = "100ms"';

/** Where a channel is, and all of its events. */
const history = async (weir, name) => (await server(weir).get({ path: `/channels/${name}/history` })).json();

test("a graceful restart says 4100, and everybody comes back; histories stay", async (context) => {
  const weir = await Weir.start(context, { settings: QUICK });
  const proxy = await Proxy.start(context, weir);
  const [room, name] = [unique("presence"), unique("public")];
  const clients = Array.from({ length: 10 }, (_, index) => client(context, proxy, { app: weir.apps[0], user: `user-${index}` }));
  const channels = await Promise.all(clients.map((pusher) => subscribed(pusher, room)));
  await server(weir).trigger(name, "news", { number: 1 });
  const before = await history(weir, name);

  const back = channels.map((channel) => next(channel, "pusher:subscription_succeeded"));
  await weir.restart();
  await Promise.all(back);
  for (const pusher of clients) assert.deepEqual([...new Set(codes(pusher))], [4100]);
  assert.deepEqual(await history(weir, name), before);
  const events = channels.map((channel) => record(channel, "news"));
  await server(weir).trigger(room, "news", { number: 2 });
  for (const seen of events) assert.deepEqual(await seen.until(1), [["news", { number: 2 }]]);
});

test("a service process that is killed is replaced behind the same port", async (context) => {
  const weir = await Weir.start(context, { settings: QUICK });
  const name = unique("private");
  const channel = await subscribed(client(context, weir), name);
  const back = next(channel, "pusher:subscription_succeeded");
  await weir.killService();
  await back;
  const seen = record(channel, "news");
  await server(weir).trigger(name, "news", {});
  await seen.until(1);
});

test("an unmodified client comes back without what it missed", async (context) => {
  const weir = await Weir.start(context);
  const name = unique("public");
  const pusher = client(context, weir);
  const channel = await subscribed(pusher, name);
  const seen = record(channel, "news");
  pusher.disconnect();
  await server(weir).trigger(name, "news", { number: 1 });
  const back = next(channel, "pusher:subscription_succeeded");
  pusher.connect();
  await back;
  await server(weir).trigger(name, "news", { number: 2 });
  assert.deepEqual(await seen.until(1), [["news", { number: 2 }]]);
});

test("an app that is disabled or taken away loses its clients for good; others stay", async (context) => {
  const weir = await Weir.start(context, { apps: [app("one"), app("two"), app("three")] });
  const [one, two, three] = weir.apps.map((app) => client(context, weir, { app }));
  const channel = await subscribed(three, unique("public"));
  await Promise.all([one, two].map((pusher) => subscribed(pusher, unique("public"))));
  const ended = [one, two].map((pusher) => next(pusher.connection, "disconnected"));
  weir.apps = [app("one", "enabled = false"), app("three", "subscription_counts = true")];
  await weir.reload();
  await Promise.all(ended);
  assert.deepEqual([codes(one).at(-1), codes(two).at(-1)], [4003, 4001]);
  assert.ok(channel.subscribed);
  const refused = await server(weir, app("one")).trigger("news", "news", {}).catch(({ status }) => status);
  assert.equal(refused, 403);
});

test("a client that connects long before it subscribes comes back by itself, and subscribes", async (context) => {
  const weir = await Weir.start(context, { settings: '[realtime.limits]\nsubscribe_timeout = "500ms"' });
  const pusher = client(context, weir);
  await next(pusher.connection, "connected");
  await next(pusher.connection, "connected");
  const name = unique("public");
  const seen = record(await subscribed(pusher, name), "news");
  assert.deepEqual([...new Set(codes(pusher))], [4100]);
  await server(weir).trigger(name, "news", { number: 1 });
  assert.deepEqual(await seen.until(1), [["news", { number: 1 }]]);
});
