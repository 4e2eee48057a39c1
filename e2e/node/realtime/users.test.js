// npm `pusher-js` and `pusher`: users who sign in.
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

/** A client that has signed in. */
async function signedIn(context, user, watchlist) {
  const pusher = client(context, weir, { user, watchlist });
  pusher.signin();
  await within(pusher);
  return pusher;
}

/** Signing in ends with the subscription to the user's own channel. */
async function within(pusher) {
  while (!pusher.user.serverToUserChannel?.subscribed) await next(pusher.connection, "message");
}

test("an event for a user reaches all connections of that user", async (context) => {
  const id = unique("user");
  const [phone, laptop, other] = [await signedIn(context, id), await signedIn(context, id), await signedIn(context, unique("user"))];
  const [first, second, unheard] = [phone, laptop, other].map((pusher) => record(pusher.user, "mail"));
  await backend.sendToUser(id, "mail", { unread: 3 });
  assert.deepEqual(await first.until(1), [["mail", { unread: 3 }]]);
  assert.deepEqual(await second.until(1), [["mail", { unread: 3 }]]);
  await roundTrip(other);
  assert.deepEqual(unheard, []);
});

test("a watchlist tells who is online and who leaves", async (context) => {
  const [early, late] = [unique("early"), unique("late")];
  const present = await signedIn(context, early);
  const watcher = client(context, weir, { user: unique("watcher"), watchlist: [early, late] });
  const [online, offline] = [record(watcher.user.watchlist, "online"), record(watcher.user.watchlist, "offline")];
  watcher.signin();
  await online.until(1);
  const coming = await signedIn(context, late);
  await online.until(2);
  assert.deepEqual(online.map(([, { user_ids }]) => user_ids), [[early], [late]]);
  present.disconnect();
  await offline.until(1);
  coming.disconnect();
  await offline.until(2);
  assert.deepEqual(offline.map(([, { user_ids }]) => user_ids), [[early], [late]]);
});

test("a wrong sign-in is refused", async (context) => {
  const pusher = client(context, weir, {
    userAuthentication: {
      customHandler: ({ socketId }, callback) => {
        const { auth } = backend.authenticateUser(socketId, { id: "ada" });
        callback(null, { auth, user_data: JSON.stringify({ id: "grace" }) });
      },
    },
  });
  pusher.signin();
  const error = await next(pusher.connection, "error");
  assert.equal(error.data.code, 4009);
  assert.equal(pusher.user.user_data, null);
});

test("terminateUserConnections ends all connections of the user, for good", async (context) => {
  const id = unique("user");
  const [phone, laptop, other] = [await signedIn(context, id), await signedIn(context, id), await signedIn(context, unique("user"))];
  const ended = [phone, laptop].map((pusher) => next(pusher.connection, "disconnected"));
  assert.equal((await backend.terminateUserConnections(id)).status, 200);
  await Promise.all(ended);
  for (const pusher of [phone, laptop]) assert.deepEqual([...new Set(codes(pusher))], [4009]);
  const channel = await subscribed(other, unique("public"));
  assert.ok(channel.subscribed, "others go on");
});
