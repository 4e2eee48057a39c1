// pusher-js and laravel-echo with packages/pusher-js-recovery: connections are cut while events are published.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import Echo from "laravel-echo";
import PusherJs from "pusher-js";
import { installRecovery, onGap, onRecovered } from "weir-pusher-js-recovery";

import { client, next, record, roundTrip, server, subscribed, unique } from "./clients.js";
import { Proxy } from "./proxy.js";
import { app, Weir } from "./weir.js";

const CLIENTS = 8;
const EVENTS = 300;
/** Above what is published in one test: whoever was away for long can still recover. */
const HISTORY = 'history = { events_max = 1000, bytes_max = "1MiB" }';
const LARGE = 'presence = { list_max = 3, advanced.page_max = 4, advanced.gather = "20ms" }';

let weir;

installRecovery(PusherJs, { memberChanges: (name) => name.startsWith("presence-large-") });

before(async (context) => {
  weir = await Weir.start(context, { apps: [app("e2e", `${HISTORY}\n${LARGE}`), app("short", "history = { events_max = 2 }")] });
});

/** A client that comes back at once: pusher-js waits for a second. */
function impatient(pusher) {
  pusher.connection.bind("connecting_in", () =>
    // Its timer is set by then, and ends with the disconnect.
    queueMicrotask(() => {
      pusher.disconnect();
      pusher.connect();
    }));
  return pusher;
}

/** A proxied client, with what it heard. */
async function listener(context, proxy, name, options) {
  const pusher = impatient(client(context, proxy, { app: weir.apps[0], ...options }));
  const channel = await subscribed(pusher, name);
  return { pusher, channel, heard: record(channel, "count"), gaps: record(channel, "weir:gap"), recoveries: record(channel, "weir:recovered") };
}

/** Resolves when the client is subscribed. */
async function back({ channel }) {
  if (!channel.subscribed) await next(channel, "pusher:subscription_succeeded");
}

for (const kind of ["public", "private", "presence", "private-encrypted", "private-cache"]) {
  test(`whoever is cut off hears every event once and in order: ${kind}`, async (context) => {
    const name = unique(kind);
    const proxy = await Proxy.start(context, weir);
    const users = Array.from({ length: CLIENTS }, (_, index) => `user-${index}`);
    const clients = await Promise.all(users.map((user) => listener(context, proxy, name, { user })));
    const backend = server(weir);
    for (let number = 0; number < EVENTS; number += 10) {
      if (number % 50 === 40) {
        // Everybody is there again: a cut in the middle of a connection's making keeps pusher-js busy for long.
        await Promise.all(clients.map(back));
        proxy.cut((index) => (index + number / 10) % 2 === 0);
      }
      const batch = Array.from({ length: 10 }, (_, step) => ({ channel: name, name: "count", data: { number: number + step } }));
      await backend.triggerBatch(batch);
    }
    const expected = Array.from({ length: EVENTS }, (_, number) => ["count", { number }]);
    for (const { heard, gaps } of clients) {
      assert.deepEqual(await heard.until(EVENTS), expected);
      assert.deepEqual(gaps, []);
    }
    await Promise.all(clients.map(back));
    await Promise.all(clients.map(({ pusher }) => roundTrip(pusher)));
    for (const { heard } of clients) assert.equal(heard.length, EVENTS, "nothing comes twice");
    const recovered = clients.flatMap(({ recoveries }) => recoveries.map(([, { events }]) => events));
    assert.ok(recovered.some((events) => events > 0), "somebody missed something and got it");
  });
}

test("who was away too long is told of the gap, and goes on", async (context) => {
  const [name, short] = [unique("public"), weir.apps[1]];
  const proxy = await Proxy.start(context, weir);
  const { pusher, channel, heard, gaps } = await listener(context, proxy, name, { app: short });
  const backend = server(weir, short);
  await backend.trigger(name, "count", { number: 0 });
  await heard.until(1);
  pusher.disconnect();
  for (const number of [1, 2, 3, 4]) await backend.trigger(name, "count", { number });
  const told = gaps.until(1);
  pusher.connect();
  await told;
  assert.ok(channel.subscribed);
  await backend.trigger(name, "count", { number: 5 });
  assert.deepEqual(await heard.until(2), [["count", { number: 0 }], ["count", { number: 5 }]]);
});

test("a client recovers over a graceful restart, and is told of the gap after a crash", async (context) => {
  const own = await Weir.start(context, { settings: '[realtime]\ndrain_window = "100ms"' });
  const proxy = await Proxy.start(context, own);
  const name = unique("public");
  const pusher = impatient(client(context, proxy, { app: own.apps[0] }));
  const channel = await subscribed(pusher, name);
  const heard = record(channel, "count", "weir:recovered", "weir:gap");
  await server(own).trigger(name, "count", { number: 0 });
  await heard.until(1);
  pusher.disconnect();
  await server(own).trigger(name, "count", { number: 1 });
  await own.restart();
  pusher.connect();
  await heard.until(3);
  assert.deepEqual(heard, [["count", { number: 0 }], ["weir:recovered", { events: 1 }], ["count", { number: 1 }]]);
  await own.killService();
  await heard.until(4);
  assert.equal(heard[3][0], "weir:gap");
});

test("a channel that was left and entered again begins anew", async (context) => {
  const name = unique("public");
  const { pusher, heard } = await listener(context, weir, name);
  const backend = server(weir);
  await backend.trigger(name, "count", { number: 0 });
  await heard.until(1);
  pusher.unsubscribe(name);
  await roundTrip(pusher);
  await backend.trigger(name, "count", { number: 1 });
  const again = record(await subscribed(pusher, name), "count", "weir:gap", "weir:recovered");
  await backend.trigger(name, "count", { number: 2 });
  assert.deepEqual(await again.until(1), [["count", { number: 2 }]]);
});

test("the members of a large channel are exact for who follows them, also after a cut", async (context) => {
  const name = unique("presence-large");
  const proxy = await Proxy.start(context, weir);
  const member = (user) => client(context, weir, { user });
  const crowd = Array.from({ length: 10 }, (_, index) => member(`crowd-${index}`));
  await Promise.all(crowd.map((pusher) => subscribed(pusher, name)));
  const { pusher, channel } = await listener(context, proxy, name, { user: "reader" });
  const ids = () => Object.keys(channel.members.members).sort();
  const expected = (...users) => ["reader", ...users].sort();
  const names = crowd.map((_, index) => `crowd-${index}`);
  assert.deepEqual(ids(), expected(...names));
  assert.deepEqual([channel.members.count, channel.members.me.id], [11, "reader"]);

  const changes = record(channel, "pusher:member_added", "pusher:member_removed");
  crowd[0].disconnect();
  const late = member("late");
  await subscribed(late, name);
  await changes.until(2);
  assert.deepEqual(changes.map(([event, { id }]) => `${event} ${id}`).sort(), [
    "pusher:member_added late",
    "pusher:member_removed crowd-0",
  ]);
  assert.deepEqual(ids(), expected(...names.slice(1), "late"));

  pusher.disconnect();
  crowd[1].disconnect();
  await subscribed(member("later"), name);
  const back = next(channel, "pusher:subscription_succeeded");
  pusher.connect();
  await back;
  while (ids().includes("crowd-1") || !ids().includes("later")) await changes.until(changes.length + 1);
  assert.deepEqual(ids(), expected(...names.slice(2), "late", "later"));
  assert.equal(channel.members.count, ids().length);
});

/** A client of laravel-echo that connects through `proxy`. */
function echo(context, proxy, app) {
  const pusher = impatient(client(context, proxy, { app, user: "ada" }));
  return { pusher, echo: new Echo({ broadcaster: "pusher", key: app.key, client: pusher }) };
}

for (const [kind, prefix] of [["channel", ""], ["private", "private-"], ["encryptedPrivate", "private-encrypted-"], ["join", "presence-"]]) {
  test(`laravel-echo receives what it missed, in order and once: ${kind}`, async (context) => {
    const [name, proxy] = [unique("orders"), await Proxy.start(context, weir)];
    const { pusher, echo: ada } = echo(context, proxy, weir.apps[0]);
    const channel = ada[kind](name);
    await new Promise((resolve) => channel.subscribed(resolve));
    const [heard, recoveries] = [[], []];
    channel.listen("OrderShipped", ({ order }) => heard.push(order));
    onRecovered(channel, ({ events }) => recoveries.push(events));
    onGap(channel, () => heard.push("gap"));
    const all = record(pusher.channel(prefix + name), "App\\Events\\OrderShipped");
    const backend = server(weir);
    const ship = (order) => backend.trigger(prefix + name, "App\\Events\\OrderShipped", { order });
    await ship(1);
    await all.until(1);
    pusher.disconnect();
    for (const order of [2, 3, 4]) await ship(order);
    pusher.connect();
    await all.until(4);
    await ship(5);
    await all.until(5);
    assert.deepEqual(heard, [1, 2, 3, 4, 5]);
    assert.deepEqual(recoveries, [3]);
  });
}

test("laravel-echo is notified of a gap until it ends that", async (context) => {
  const [name, short] = [unique("orders"), weir.apps[1]];
  const { pusher, echo: ada } = echo(context, weir, short);
  const channel = ada.channel(name);
  await new Promise((resolve) => channel.subscribed(resolve));
  const gaps = [[], []];
  onGap(channel, (position) => gaps[0].push(position));
  const end = onGap(channel, (position) => gaps[1].push(position));
  const backend = server(weir, short);
  const all = record(pusher.channel(name), "changed", "weir:gap");
  await backend.trigger(name, "changed", { number: 0 });
  await all.until(1);
  for (const round of [1, 2]) {
    pusher.disconnect();
    for (const number of [1, 2, 3, 4]) await backend.trigger(name, "changed", { number });
    pusher.connect();
    await all.until(1 + round);
    end();
  }
  assert.deepEqual(gaps.map((list) => list.map(({ offset }) => offset)), [[5, 9], [5]]);
  assert.match(gaps[0][0].epoch, /^[0-9a-f]+$/);
});

test("what is no channel is rejected with what to pass", () => {
  for (const wrong of [undefined, null, {}, "orders"]) assert.throws(() => onGap(wrong, () => {}), /must be a channel of pusher-js/);
  assert.throws(() => installRecovery({}), /pass the class Pusher/);
});

/** As much of pusher-js as the plugin knows, on a socket that the test speaks through. */
function imitation() {
  const socket = Object.assign(new EventTarget(), { send: (text) => socket.sent.push(JSON.parse(text)), sent: [] });
  const channel = { name: "presence-news", emitted: [], emit: (...event) => channel.emitted.push(event) };
  const client = { connection: { state: "connected", socket_id: "1.1" }, channel: (name) => (name === channel.name ? channel : undefined) };
  const Pusher = { instances: [client], Runtime: { createWebSocket: () => socket } };
  installRecovery(Pusher, { memberChanges: () => true });
  const heard = [];
  Pusher.Runtime.createWebSocket("ws://x").onmessage = ({ data }) => heard.push(JSON.parse(data));
  const hear = (message) => {
    const data = JSON.stringify({ channel: channel.name, data: "{}", ...message });
    socket.dispatchEvent(Object.assign(new Event("message"), { data }));
  };
  hear({ event: "pusher:connection_established", channel: undefined, data: JSON.stringify({ socket_id: "1.1" }) });
  const subscribe = () => {
    socket.send(JSON.stringify({ event: "pusher:subscribe", data: { channel: channel.name } }));
    return socket.sent.at(-1).data;
  };
  return { socket, client, channel, heard, hear, subscribe };
}

const epoch = "00000000000000ab";
const succeeded = (offset, more) => ({ event: "pusher_internal:subscription_succeeded", epoch, offset, ...more });
const event = (offset) => ({ event: "count", epoch, offset });

test("an event that comes twice is passed on once", () => {
  const { heard, hear } = imitation();
  [succeeded(5), event(6), event(6), event(7), event(6)].forEach(hear);
  assert.deepEqual(heard.slice(2).map(({ offset }) => offset), [6, 7]);
});

test("what is asked for is what comes after the last event", () => {
  const { hear, subscribe } = imitation();
  assert.equal(subscribe().recover, undefined);
  // A cache channel's last event is from before.
  [succeeded(5), event(4)].forEach(hear);
  assert.deepEqual(subscribe().recover, { epoch, offset: 5 });
  // Of what was missed, only a part arrived.
  [succeeded(9, { recovery: { outcome: "recovered", events: 4 } }), event(6)].forEach(hear);
  assert.deepEqual(subscribe().recover, { epoch, offset: 6 });
  hear(succeeded(12, { recovery: { outcome: "gap" } }));
  assert.deepEqual(subscribe().recover, { epoch, offset: 12 });
});

test("a gap without a reconnect is reported, and the client continues from its position", () => {
  const { channel, hear, subscribe } = imitation();
  [succeeded(5), event(6)].forEach(hear);
  const position = { epoch: "00000000000000ac", offset: 3 };
  hear({ event: "weir:gap", data: JSON.stringify(position) });
  assert.deepEqual(channel.emitted, [["weir:gap", position]]);
  assert.deepEqual(subscribe().recover, position);
  hear({ ...event(4), epoch: position.epoch });
  assert.deepEqual(subscribe().recover, { ...position, offset: 4 });
});

test("what comes over a connection that was given up does not count", () => {
  const { client, hear, subscribe } = imitation();
  hear(succeeded(5));
  client.connection.state = "disconnected";
  hear(event(6));
  client.connection.state = "connected";
  assert.deepEqual(subscribe().recover, { epoch, offset: 5 });
});

test("a list of members and the differences around it make the members", () => {
  const { socket, heard, hear } = imitation();
  const members = (...ids) => Object.fromEntries(ids.map((id) => [id, { name: id }]));
  const page = (version, start, count, ...ids) =>
    hear({ event: "weir:members", data: JSON.stringify({ version, start, count, members: members(...ids) }) });
  const changed = (from, version, count, added, removed) =>
    hear({ event: "weir:members_changed", data: JSON.stringify({ from, version, count, added: members(...added), removed }) });
  const presence = { ids: ["d"], hash: members("d"), count: 4 };
  hear(succeeded(0, { data: JSON.stringify({ presence }), members_version: 4 }));
  const asked = () => socket.sent.at(-1).data;
  assert.deepEqual(asked(), { channel: "presence-news" });
  page(3, 0, 3, "a", "b");
  assert.deepEqual(asked(), { channel: "presence-news", version: 3, start: 2 });
  changed(1, 2, 9, ["nobody"], []);
  changed(2, 5, 4, ["c", "d", "e"], ["b"]);
  // That version is not kept any more: another one from its start.
  page(4, 0, 4, "a", "b");
  page(3, 2, 3, "nobody");
  page(4, 2, 4, "c", "d");
  const whole = JSON.parse(heard.at(-1).data).presence;
  assert.deepEqual(whole, { ids: ["d", "a", "c", "e"], hash: members("d", "a", "c", "e"), count: 4 });
  changed(5, 6, 3, [], ["a"]);
  assert.deepEqual([heard.at(-1).event, heard.at(-1).data], ["pusher_internal:member_removed", '{"user_id":"a"}']);
  // One difference is missing: a list again, and what is new in it.
  changed(8, 9, 4, ["g"], []);
  page(9, 0, 4, "d", "c", "f", "g");
  const told = heard.slice(-3).map(({ event, data }) => `${event.split(":")[1]} ${JSON.parse(data).user_id}`);
  assert.deepEqual(told, ["member_removed e", "member_added f", "member_added g"]);
});
