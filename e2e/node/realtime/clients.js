// Clients and servers of applications, as real ones are made: pusher-js and the `pusher` library.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import PusherServer from "pusher";
import PusherJs from "pusher-js";
import nacl from "tweetnacl";

/** Longest wait for anything. */
const DEADLINE_MS = 10_000;

/** A name that no other test uses. */
export const unique = (prefix) => `${prefix}-${randomBytes(6).toString("hex")}`;

/** The application's server. */
export function server(weir, app = weir.apps[0], more = {}) {
  const { id: appId, key, secret } = app;
  const master = Buffer.alloc(32, "k").toString("base64");
  return new PusherServer({
    appId, key, secret, host: weir.host, port: String(weir.port), useTLS: false, encryptionMasterKeyBase64: master, ...more,
  });
}

/** A pusher-js client of `weir`, disconnected when the test ends. `user` authorises it as that one. */
export function client(context, weir, { app = weir.apps[0], user, watchlist, Pusher = PusherJs, ...more } = {}) {
  const backend = server(weir, app);
  const pusher = new Pusher(app.key, {
    cluster: "none",
    wsHost: weir.host,
    wsPort: weir.port,
    forceTLS: false,
    enabledTransports: ["ws"],
    nacl,
    channelAuthorization: {
      customHandler: ({ socketId, channelName }, callback) =>
        callback(null, backend.authorizeChannel(socketId, channelName, memberOf(channelName, user))),
    },
    userAuthentication: {
      customHandler: ({ socketId }, callback) =>
        callback(null, backend.authenticateUser(socketId, { id: user, user_info: { name: user }, watchlist })),
    },
    ...more,
  });
  context.after(() => pusher.disconnect());
  pusher.errors = [];
  pusher.connection.bind("error", (error) => pusher.errors.push(error));
  return pusher;
}

const memberOf = (channel, user) =>
  channel.startsWith("presence-") && user ? { user_id: user, user_info: { name: user } } : undefined;

/** The codes of all errors that the client was told. */
export const codes = ({ errors }) =>
  errors.flatMap(({ data, error }) => data?.code ?? error?.data?.code ?? []);

/** The next time that `target` emits `event`; gives its data. */
export function next(target, event) {
  return within(new Promise((resolve) => {
    const listener = (...data) => {
      target.unbind(event, listener);
      resolve(data[0]);
    };
    target.bind(event, listener);
  }), event);
}

/** A promise that fails when it takes too long. */
export async function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new assert.AssertionError({ message: `waited ${DEADLINE_MS} ms for: ${what}` })), DEADLINE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Subscribes and waits until it holds; gives the channel. */
export async function subscribed(pusher, name) {
  const channel = pusher.subscribe(name);
  if (!channel.subscribed) await next(channel, "pusher:subscription_succeeded");
  return channel;
}

/**
 * All that a channel emits from now on, in order, as [event, data, metadata], and a wait for it:
 * `await events.until(3)` has at least three.
 */
export function record(channel, ...names) {
  const events = [];
  const waiting = [];
  const look = () => waiting.filter(({ count }) => events.length >= count).forEach(({ resolve }) => resolve(events));
  for (const name of names) {
    channel.bind(name, (data, metadata) => {
      events.push(metadata?.user_id ? [name, data, metadata.user_id] : [name, data]);
      look();
    });
  }
  const until = (count) =>
    within(new Promise((resolve) => {
      waiting.push({ count, resolve });
      look();
    }), `${count} of ${names}`);
  // Hidden, so that the list compares as a list.
  return Object.defineProperty(events, "until", { value: until });
}

/** Once this comes back, the server has handled all that the client sent before, and the client all answers. */
export function roundTrip(pusher) {
  const answered = new Promise((resolve) => {
    const listener = ({ event }) => {
      if (event !== "pusher:pong") return;
      pusher.connection.unbind("message", listener);
      resolve();
    };
    pusher.connection.bind("message", listener);
  });
  pusher.send_event("pusher:ping", {});
  return within(answered, "pusher:pong");
}
