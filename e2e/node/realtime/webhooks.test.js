// Webhooks, received as applications do: npm `pusher` checks and reads them.
import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import { test } from "node:test";

import { client, next, server, subscribed, unique, within } from "./clients.js";
import { app, Weir } from "./weir.js";

/** An endpoint; it answers with the statuses of `answers`, and with 200 after them. */
async function endpoint(context, answers = []) {
  const requests = [];
  const waiting = [];
  const receiver = http.createServer(async (request, response) => {
    const rawBody = Buffer.concat(await request.toArray()).toString();
    const status = answers.shift() ?? 200;
    requests.push({ headers: request.headers, rawBody, status });
    response.writeHead(status).end();
    for (const look of waiting) look();
  });
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  context.after(() => {
    receiver.close();
    receiver.closeAllConnections();
  });
  /** Resolves with the requests once `enough` says so of the events that were taken. */
  const until = (enough) =>
    within(new Promise((resolve) => {
      const look = () => enough(taken(requests)) && resolve(requests);
      waiting.push(look);
      look();
    }), "webhooks");
  return { url: `http://127.0.0.1:${receiver.address().port}/hooks?from=weir`, until, requests };
}

const taken = (requests) =>
  requests.filter(({ status }) => status === 200).flatMap(({ rawBody }) => JSON.parse(rawBody).events);

/** A Weir that tells `hooks`. */
const start = (context, hooks, more = "", vacatedDelay = "50ms") =>
  Weir.start(context, {
    settings: `[realtime.webhooks]\nadvanced.batch_interval = "5ms"\nadvanced.vacated_delay = "${vacatedDelay}"\nretry_delay_min = "20ms"`,
    apps: [app("e2e", `client_events = true\nsubscription_counts = true\n[[realtime.apps.webhooks]]\nurl = "${hooks.url}"\n${more}`)],
  });

test("the application's server hears what happens on its channels", async (context) => {
  const hooks = await endpoint(context);
  const weir = await start(context, hooks);
  const backend = server(weir);
  const [room, cache, open] = [unique("presence"), unique("cache"), unique("public")];
  const ada = client(context, weir, { user: "ada" });
  const channel = await subscribed(ada, room);
  await next(ada.subscribe(cache), "pusher:cache_miss");
  await subscribed(ada, open);
  channel.trigger("client-typing", { at: 1 });
  const counted = (count) => ({ channel, subscription_count }) => channel === open && subscription_count === count;
  await hooks.until((events) => events.some(({ name }) => name === "client_event") && events.some(counted(1)));
  const socketId = ada.connection.socket_id;
  ada.disconnect();
  const left = ({ name }) => name === "channel_vacated";
  const requests = await hooks.until((events) => events.filter(left).length === 3 && events.some(counted(0)));

  for (const request of requests) assert.ok(backend.webhook(request).isValid());
  const forged = { ...requests[0], rawBody: requests[0].rawBody.replace("occupied", "vacated ") };
  assert.equal(backend.webhook(forged).isValid(), false);
  assert.ok(Math.abs(backend.webhook(requests[0]).getTime() - new Date()) < 60_000);
  const events = requests.flatMap((request) => backend.webhook(request).getEvents());
  const of = (name) => events.filter(({ channel }) => channel === name);
  assert.deepEqual(of(room), [
    { name: "channel_occupied", channel: room },
    { name: "member_added", channel: room, user_id: "ada" },
    { name: "client_event", channel: room, event: "client-typing", data: '{"at":1}', socket_id: socketId, user_id: "ada" },
    { name: "member_removed", channel: room, user_id: "ada" },
    { name: "channel_vacated", channel: room },
  ].sort(byOrderOf(of(room))));
  assert.deepEqual(of(cache).map(({ name }) => name).filter((name) => name !== "subscription_count"), ["channel_occupied", "cache_miss", "channel_vacated"]);
  const counts = of(open).filter(({ name }) => name === "subscription_count");
  assert.deepEqual(counts.map(({ subscription_count }) => subscription_count), [1, 0]);
});

/** The last two come at the end of the same delay, in either order. */
const byOrderOf = (events) => {
  const place = ({ name }) => events.findIndex((event) => event.name === name);
  return (one, other) => Math.min(place(one), 3) - Math.min(place(other), 3) || place(one) - place(other);
};

test("what could not be delivered is delivered again, in order", async (context) => {
  const hooks = await endpoint(context, [500, 503]);
  const weir = await start(context, hooks, 'events = ["channel_occupied"]\nchannel_prefix = "private-"');
  const pusher = client(context, weir);
  const names = [unique("private"), unique("private"), unique("private")];
  await subscribed(pusher, unique("public"));
  for (const name of names) await subscribed(pusher, name);
  const requests = await hooks.until((events) => events.length === names.length);
  assert.deepEqual(requests.slice(0, 2).map(({ status }) => status), [500, 503]);
  assert.deepEqual(taken(requests), names.map((channel) => ({ name: "channel_occupied", channel })));
});

test("who comes back in time was not away", async (context) => {
  const hooks = await endpoint(context);
  const weir = await start(context, hooks, "", "1s");
  const [name, last] = [unique("private"), unique("private")];
  const [first, second] = [client(context, weir), client(context, weir)];
  await subscribed(second, last);
  await subscribed(first, name);
  first.unsubscribe(name);
  await subscribed(second, name);
  second.disconnect();
  const requests = await hooks.until((events) => events.some(({ name, channel }) => name === "channel_vacated" && channel === last));
  const told = taken(requests).filter(({ name: kind, channel }) => channel === name && kind.startsWith("channel_"));
  assert.deepEqual(told.map(({ name }) => name), ["channel_occupied", "channel_vacated"]);
});
