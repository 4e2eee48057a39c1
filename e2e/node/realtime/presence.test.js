// npm `pusher-js`: presence channels.
import assert from "node:assert/strict";
import { before, test } from "node:test";

import { client, next, record, roundTrip, server, subscribed, unique } from "./clients.js";
import { app, Weir } from "./weir.js";

const LIST_MAX = 3;
let weir;
let backend;

before(async (context) => {
  const small = app("large", `presence = { list_max = ${LIST_MAX}, advanced.gather = "50ms" }`);
  weir = await Weir.start(context, { apps: [app(), small] });
  backend = server(weir);
});

test("members see each other come and go, and themselves", async (context) => {
  const name = unique("presence");
  const ada = await subscribed(client(context, weir, { user: "ada" }), name);
  assert.deepEqual(ada.members.me, { id: "ada", info: { name: "ada" } });
  assert.equal(ada.members.count, 1);
  const seen = record(ada, "pusher:member_added", "pusher:member_removed");
  const grace = client(context, weir, { user: "grace" });
  const channel = await subscribed(grace, name);
  assert.deepEqual(channel.members.members, { ada: { name: "ada" }, grace: { name: "grace" } });
  await seen.until(1);
  grace.disconnect();
  const member = { id: "grace", info: { name: "grace" } };
  assert.deepEqual(await seen.until(2), [["pusher:member_added", member], ["pusher:member_removed", member]]);
  assert.equal(ada.members.count, 1);
});

test("a user with two connections comes once and goes with the last", async (context) => {
  const name = unique("presence");
  const watcher = await subscribed(client(context, weir, { user: "watcher" }), name);
  const seen = record(watcher, "pusher:member_added", "pusher:member_removed");
  const [phone, laptop] = [client(context, weir, { user: "ada" }), client(context, weir, { user: "ada" })];
  await subscribed(phone, name);
  const channel = await subscribed(laptop, name);
  assert.deepEqual(channel.members.count, 2);
  phone.unsubscribe(name);
  await roundTrip(phone);
  laptop.unsubscribe(name);
  await seen.until(2);
  assert.deepEqual(seen.map(([event]) => event), ["pusher:member_added", "pusher:member_removed"]);
});

test("a signed-in user joins without channel data of its own", async (context) => {
  const name = unique("presence");
  const ada = client(context, weir, {
    user: "ada",
    channelAuthorization: {
      customHandler: ({ socketId, channelName }, callback) => callback(null, backend.authorizeChannel(socketId, channelName)),
    },
  });
  ada.signin();
  const channel = await subscribed(ada, name);
  assert.deepEqual(channel.members.me, { id: "ada", info: { name: "ada" } });
});

test("without anybody's name there is no presence", async (context) => {
  const nobody = client(context, weir, {
    channelAuthorization: {
      customHandler: ({ socketId, channelName }, callback) =>
        // pusher-js waits for a sign-in unless there is some data.
        callback(null, { ...backend.authorizeChannel(socketId, channelName, { user_info: {} }) }),
    },
  });
  const error = await next(nobody.subscribe(unique("presence")), "pusher:subscription_error");
  assert.equal(error.status, 400);
});

test("above list_max an unmodified client is told numbers", async (context) => {
  const name = unique("presence");
  const large = weir.apps[1];
  const first = await subscribed(client(context, weir, { app: large, user: "user-0" }), name);
  const members = record(first, "pusher:member_added");
  const counts = record(first, "pusher:subscription_count");
  const others = [];
  for (let user = 1; user <= 5; user++) {
    const other = client(context, weir, { app: large, user: `user-${user}` });
    others.push(await subscribed(other, name));
  }
  await counts.until(1);
  while (counts.at(-1)[1].subscription_count < 6) await counts.until(counts.length + 1);
  assert.equal(members.length, LIST_MAX - 1);
  const last = others.at(-1);
  assert.deepEqual(Object.keys(last.members.members), ["user-5"]);
  assert.equal(last.members.count, 6);
  assert.deepEqual(last.members.me, { id: "user-5", info: { name: "user-5" } });
});

test("after a peak above list_max every unmodified client has the right list again", async (context) => {
  const name = unique("presence");
  const large = weir.apps[1];
  const clients = [];
  const channels = [];
  for (let user = 0; user <= LIST_MAX + 2; user++) {
    clients.push(client(context, weir, { app: large, user: `user-${user}` }));
    channels.push(await subscribed(clients.at(-1), name));
  }
  assert.deepEqual(Object.keys(channels.at(-1).members.members), [`user-${LIST_MAX + 2}`]);
  // Of those who stay, the first knew some of the others, and the last nobody.
  const stay = [0, LIST_MAX + 2];
  const lists = stay.map((user) => next(channels[user], "pusher:subscription_succeeded"));
  for (let user = 1; user <= LIST_MAX + 1; user++) clients[user].disconnect();
  await Promise.all(lists);
  const expected = stay.map((user) => `user-${user}`);
  for (const user of stay) {
    const { members } = channels[user];
    while (members.count > stay.length) await next(channels[user], "pusher:member_removed");
    assert.deepEqual(Object.keys(members.members).sort(), expected);
    assert.equal(members.me.id, `user-${user}`);
  }
  // From now on they are told of each other.
  const gone = next(channels[0], "pusher:member_removed");
  clients.at(-1).disconnect();
  assert.equal((await gone).id, expected[1]);
  assert.equal(channels[0].members.count, 1);
});
