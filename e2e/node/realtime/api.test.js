// npm `pusher`: the HTTP API.
import assert from "node:assert/strict";
import { before, test } from "node:test";

import { client, codes, next, record, roundTrip, server, subscribed, unique } from "./clients.js";
import { app, Weir } from "./weir.js";

let weir;
let backend;

before(async (context) => {
  weir = await Weir.start(context, { apps: [app(), app("disabled", "enabled = false")] });
  backend = server(weir);
});

const get = async (path, params) => (await backend.get({ path, params })).json();

test("one event for many channels reaches all of them", async (context) => {
  const names = Array.from({ length: 100 }, () => unique("many"));
  const pusher = client(context, weir);
  const seen = record(pusher.connection, "message");
  await Promise.all(names.map((name) => subscribed(pusher, name)));
  await backend.trigger(names, "news", { to: "all" });
  await roundTrip(pusher);
  const reached = seen.map(([, message]) => message).filter(({ event }) => event === "news");
  assert.deepEqual(reached.map(({ channel }) => channel).sort(), [...names].sort());
  // The library counts for itself: the server is asked with one channel more than it takes.
  const body = { name: "news", data: "{}", channels: [...names, unique("many")] };
  const error = await backend.post({ path: "/events", body }).catch((error) => error);
  assert.equal(error.status, 400);
  assert.match(error.body, /100/);
});

test("who sent it can be left out", async (context) => {
  const name = unique("public");
  const [sender, other] = [client(context, weir), client(context, weir)];
  const own = record(await subscribed(sender, name), "news");
  const others = record(await subscribed(other, name), "news");
  await backend.trigger(name, "news", { count: 1 }, { socket_id: sender.connection.socket_id });
  await backend.trigger(name, "news", { count: 2 });
  await others.until(2);
  assert.deepEqual(await own.until(1), [["news", { count: 2 }]]);
});

test("a batch arrives in its order", async (context) => {
  const name = unique("public");
  const seen = record(await subscribed(client(context, weir), name), "news");
  const batch = Array.from({ length: 10 }, (_, number) => ({ channel: name, name: "news", data: { number } }));
  await backend.triggerBatch(batch);
  await seen.until(10);
  assert.deepEqual(seen.map(([, { number }]) => number), [...batch.keys()]);
});

test("publishing answers what is asked about the channels", async (context) => {
  const [open, presence] = [unique("public"), unique("presence")];
  const ada = client(context, weir, { user: "ada" });
  await subscribed(ada, open);
  await subscribed(ada, presence);
  const answer = await backend.trigger([open, presence], "news", {}, { info: "subscription_count,user_count" });
  assert.deepEqual(await answer.json(), {
    channels: { [open]: { subscription_count: 1 }, [presence]: { subscription_count: 1, user_count: 1 } },
  });
  const event = { name: "news", data: {} };
  const batch = await backend.triggerBatch([{ ...event, channel: open, info: "subscription_count" }, { ...event, channel: presence }]);
  assert.deepEqual(await batch.json(), { batch: [{ subscription_count: 1 }, {}] });
});

test("channels and their users can be asked for", async (context) => {
  const prefix = unique("presence");
  const [first, second, public_] = [`${prefix}-1`, `${prefix}-2`, unique("public")];
  for (const user of ["ada", "grace"]) {
    const pusher = client(context, weir, { user });
    for (const name of [first, second, public_]) await subscribed(pusher, name);
    if (user === "grace") {
      pusher.unsubscribe(second);
      await roundTrip(pusher);
    }
  }
  assert.deepEqual(await get("/channels", { filter_by_prefix: prefix, info: "user_count" }), {
    channels: { [first]: { user_count: 2 }, [second]: { user_count: 1 } },
  });
  const { users } = await get(`/channels/${first}/users`);
  assert.deepEqual(users.map(({ id }) => id).sort(), ["ada", "grace"]);
  assert.deepEqual(await get(`/channels/${public_}`, { info: "subscription_count" }), { occupied: true, subscription_count: 2 });
  assert.deepEqual(await get(`/channels/${unique("nobody")}`), { occupied: false });
});

test("a channel's history is plain JSON", async () => {
  const name = unique("public");
  for (const number of [1, 2, 3]) await backend.trigger(name, "news", { number });
  const all = await get(`/channels/${name}/history`);
  assert.deepEqual(all.events.map(({ offset, data }) => [offset, JSON.parse(data).number]), [[1, 1], [2, 2], [3, 3]]);
  assert.equal(all.complete, true);
  const later = await get(`/channels/${name}/history`, { after: `${all.epoch}:2` });
  assert.deepEqual([later.events.map(({ offset }) => offset), later.complete], [[3], true]);
  const newest = await get(`/channels/${name}/history`, { after: `${all.epoch}:0`, limit: 1 });
  assert.deepEqual([newest.events.map(({ offset }) => offset), newest.complete], [[3], false]);
});

test("what is wrong is said with the status that fits", async () => {
  const attempt = (server_, ...event) => server_.trigger(...event).then(() => null, ({ status, body }) => ({ status, body }));
  const { key } = weir.apps[0];
  const wrong = await attempt(server(weir, { ...weir.apps[0], secret: "wrong" }), unique("public"), "news", {});
  assert.equal(wrong.status, 401);
  assert.match(wrong.body, /signature/);
  assert.equal((await attempt(server(weir, { ...weir.apps[0], id: "nobody" }), unique("public"), "news", {})).status, 404);
  assert.equal((await attempt(server(weir, weir.apps[1]), unique("public"), "news", {})).status, 403);
  const large = await attempt(backend, unique("public"), "news", { text: "x".repeat(10_240) });
  assert.equal(large.status, 413);
  const unsigned = await fetch(`${weir.origin}/apps/e2e/channels?auth_key=${key}`);
  assert.equal(unsigned.status, 401);
});

test("a client with a key that nobody has is told 4001 and stays away", async (context) => {
  const pusher = client(context, weir, { app: { ...weir.apps[0], key: "nobody" } });
  await next(pusher.connection, "disconnected");
  assert.deepEqual([...new Set(codes(pusher))], [4001]);
});

test("a client of a disabled app is told 4003 and stays away", async (context) => {
  const pusher = client(context, weir, { app: weir.apps[1] });
  await next(pusher.connection, "disconnected");
  assert.deepEqual([...new Set(codes(pusher))], [4003]);
});
