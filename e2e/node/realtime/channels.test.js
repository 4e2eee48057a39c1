// npm `pusher-js` and `pusher`: every kind of channel, and events on them.
import assert from "node:assert/strict";
import { before, test } from "node:test";

import { client, codes, next, record, roundTrip, server, subscribed, unique } from "./clients.js";
import { Weir } from "./weir.js";

let weir;
let backend;

before(async (context) => {
  weir = await Weir.start(context);
  backend = server(weir);
});

test("an event reaches the subscribers of a public channel, and only them", async (context) => {
  const [name, other] = [unique("public"), unique("public")];
  const [first, second] = [client(context, weir), client(context, weir)];
  const events = [record(await subscribed(first, name), "news"), record(await subscribed(second, name), "news")];
  const others = record(await subscribed(first, other), "news");
  const data = { text: "ünïcödé \u2028 \"quoted\"", number: 9007199254740991, list: [1, null, true] };
  assert.equal((await backend.trigger(name, "news", data)).status, 200);
  await backend.trigger(name, "news", "plain text");
  for (const seen of events) assert.deepEqual(await seen.until(2), [["news", data], ["news", "plain text"]]);
  assert.deepEqual(others, []);
});

test("who unsubscribes hears no more", async (context) => {
  const name = unique("public");
  const [stays, leaves] = [client(context, weir), client(context, weir)];
  const heard = record(await subscribed(stays, name), "news");
  const unheard = record(await subscribed(leaves, name), "news");
  leaves.unsubscribe(name);
  await roundTrip(leaves);
  await backend.trigger(name, "news", {});
  await heard.until(1);
  await roundTrip(leaves);
  assert.deepEqual(unheard, []);
});

test("a private channel takes who is authorised, and nobody else", async (context) => {
  const name = unique("private");
  const events = record(await subscribed(client(context, weir), name), "news");
  await backend.trigger(name, "news", { secret: 1 });
  assert.deepEqual(await events.until(1), [["news", { secret: 1 }]]);

  const forged = client(context, weir, {
    channelAuthorization: { customHandler: (_, callback) => callback(null, { auth: `${weir.apps[0].key}:${"0".repeat(64)}` }) },
  });
  const channel = forged.subscribe(name);
  const error = await next(channel, "pusher:subscription_error");
  assert.deepEqual([error.type, error.status], ["AuthError", 401]);
  assert.match(error.error, /signature/i);
  await backend.trigger(name, "news", { secret: 2 });
  await events.until(2);
  await roundTrip(forged);
  assert.equal(channel.subscribed, false);
  assert.equal(forged.connection.state, "connected");
});

test("an encrypted channel is opaque to the server and clear to its subscribers", async (context) => {
  const name = unique("private-encrypted");
  const reader = client(context, weir);
  const wire = record(reader.connection, "message");
  const events = record(await subscribed(reader, name), "news");
  await backend.trigger(name, "news", { secret: "open sesame" });
  assert.deepEqual(await events.until(1), [["news", { secret: "open sesame" }]]);
  const message = wire.map(([, message]) => message).find(({ event }) => event === "news");
  assert.deepEqual(Object.keys(message.data).sort(), ["ciphertext", "nonce"]);
});

for (const kind of ["cache", "private-cache", "presence-cache", "private-encrypted-cache"]) {
  test(`a ${kind}- channel has its last event for who comes later`, async (context) => {
    const name = unique(kind);
    const early = client(context, weir, { user: "early" }).subscribe(name);
    await next(early, "pusher:cache_miss");
    const events = record(early, "news");
    await backend.trigger(name, "news", { edition: 1 });
    await backend.trigger(name, "news", { edition: 2 });
    await events.until(2);
    const late = client(context, weir, { user: "late" }).subscribe(name);
    const [cached, misses] = [record(late, "news"), record(late, "pusher:cache_miss")];
    assert.deepEqual(await cached.until(1), [["news", { edition: 2 }]]);
    assert.deepEqual(misses, []);
  });
}

test("an event of a client reaches the others and not itself", async (context) => {
  for (const kind of ["private", "presence"]) {
    const name = unique(kind);
    const [ada, grace] = [client(context, weir, { user: "ada" }), client(context, weir, { user: "grace" })];
    const [from, to] = [await subscribed(ada, name), await subscribed(grace, name)];
    const [echo, heard] = [record(from, "client-typing"), record(to, "client-typing")];
    assert.ok(from.trigger("client-typing", { at: 1 }));
    const expected = kind === "presence" ? ["client-typing", { at: 1 }, "ada"] : ["client-typing", { at: 1 }];
    assert.deepEqual(await heard.until(1), [expected]);
    await roundTrip(ada);
    assert.deepEqual(echo, []);
  }
});

test("a public channel takes no events of clients", async (context) => {
  const sender = client(context, weir);
  const channel = await subscribed(sender, unique("public"));
  channel.trigger("client-typing", {});
  await roundTrip(sender);
  assert.match(sender.errors[0].data.message, /only private and presence channels/);
});

test("too many events of a client are answered with 4301, and the connection goes on", async (context) => {
  const name = unique("private");
  const [sender, reader] = [client(context, weir), client(context, weir)];
  const [from, heard] = [await subscribed(sender, name), record(await subscribed(reader, name), "client-typing")];
  for (let count = 0; count < 50; count++) from.trigger("client-typing", { count });
  await roundTrip(sender);
  const refused = codes(sender);
  assert.ok(refused.length > 0 && refused.every((code) => code === 4301), `${refused}`);
  await heard.until(50 - refused.length);
  assert.equal(sender.connection.state, "connected");
});

test("subscribers are told how many they are", async (context) => {
  const name = unique("public");
  const channel = client(context, weir).subscribe(name);
  const counts = record(channel, "pusher:subscription_count");
  assert.deepEqual(await counts.until(1), [["pusher:subscription_count", { subscription_count: 1 }]]);
  const second = client(context, weir);
  await subscribed(second, name);
  await counts.until(2);
  second.disconnect();
  const all = (await counts.until(3)).map(([, { subscription_count }]) => subscription_count);
  assert.deepEqual(all, [1, 2, 1]);
});
