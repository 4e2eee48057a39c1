// npm `laravel-echo` over `pusher-js`.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import Echo from "laravel-echo";

import { client, record, roundTrip, server, unique, within } from "./clients.js";
import { Weir } from "./weir.js";

let weir;
let backend;

before(async (context) => {
  weir = await Weir.start(context);
  backend = server(weir);
});

function echo(context, user) {
  const pusher = client(context, weir, { user });
  return { pusher, echo: new Echo({ broadcaster: "pusher", key: weir.apps[0].key, client: pusher }) };
}

/** Resolves when Echo's channel is subscribed. */
const holds = (channel) => within(new Promise((resolve) => channel.subscribed(resolve)), "a subscription");

test("Laravel's events arrive on public, private and encrypted channels", async (context) => {
  const { echo: ada } = echo(context);
  const name = unique("orders");
  for (const [kind, wire] of [
    ["channel", name],
    ["private", `private-${name}`],
    ["encryptedPrivate", `private-encrypted-${name}`],
  ]) {
    const channel = ada[kind](name);
    await holds(channel);
    const heard = within(new Promise((resolve) => channel.listen("OrderShipped", resolve)), wire);
    await backend.trigger(wire, "App\\Events\\OrderShipped", { order: { id: 7 } });
    assert.deepEqual(await heard, { order: { id: 7 } });
  }
});

test("here, joining and leaving tell who is in the room", async (context) => {
  const name = unique("room");
  const [ada, grace] = [echo(context, "ada"), echo(context, "grace")];
  const told = [];
  const seen = (what) => (members) => told.push([what, [members].flat().map(({ name }) => name)]);
  const room = ada.echo.join(name).here(seen("here")).joining(seen("joining")).leaving(seen("leaving"));
  await holds(room);
  await holds(grace.echo.join(name));
  const last = record(ada.pusher.channel(`presence-${name}`), "pusher:member_removed");
  grace.echo.leave(name);
  await last.until(1);
  assert.deepEqual(told, [["here", ["ada"]], ["joining", ["grace"]], ["leaving", ["grace"]]]);
});

test("a whisper reaches the others", async (context) => {
  const name = unique("chat");
  const [ada, grace] = [echo(context, "ada"), echo(context, "grace")];
  const [from, to] = [ada.echo.private(name), grace.echo.private(name)];
  await Promise.all([holds(from), holds(to)]);
  const own = [];
  from.listenForWhisper("typing", (data) => own.push(data));
  const heard = within(new Promise((resolve) => to.listenForWhisper("typing", resolve)), "a whisper");
  from.whisper("typing", { at: 1 });
  assert.deepEqual(await heard, { at: 1 });
  await roundTrip(ada.pusher);
  assert.deepEqual(own, []);
});

test("toOthers leaves out who did it", async (context) => {
  const name = unique("orders");
  const [ada, grace] = [echo(context), echo(context)];
  const [own, others] = [ada, grace].map(({ pusher }) => record(pusher.connection, "message"));
  await Promise.all([ada, grace].map(({ echo }) => holds(echo.channel(name))));
  const heard = within(new Promise((resolve) => grace.echo.channel(name).listen(".changed", resolve)), "an event");
  await backend.trigger(name, "changed", { id: 1 }, { socket_id: ada.echo.socketId() });
  assert.deepEqual(await heard, { id: 1 });
  await roundTrip(ada.pusher);
  const changed = (seen) => seen.filter(([, { event }]) => event === "changed").length;
  assert.deepEqual([changed(own), changed(others)], [0, 1]);
});
