// Recovery for pusher-js and Laravel Echo: a client that was disconnected receives the events that it missed, in order and
// once; and exact members of large presence channels. For servers with Weir's extensions of the Pusher protocol; with
// others it has no effect.
//
//   installRecovery(Pusher);                      // before new Pusher(..) or new Echo(..)
//   onGap(channel, loadStateAgain);
//
// The plugin sits between pusher-js and its WebSocket and reads and writes the protocol's messages. Of
// pusher-js it uses `Pusher.Runtime.createWebSocket`, `Pusher.instances`, `pusher.channel(name)`,
// `pusher.connection.socket_id` and `.state`, and a channel's `emit`, `bind` and `unbind`.

const INSTALLED = Symbol.for("weir.recovery");

/** What is known of each channel. A channel that was left and entered again is another object. */
const places = new WeakMap();

const GAP = "weir:gap";
const RECOVERED = "weir:recovered";

/**
 * Makes all clients recover that this pusher-js creates from now on.
 * `memberChanges(name)` selects the presence channels whose members are fetched in pages and then kept up to
 * date by differences: those with thousands of members.
 */
function installRecovery(Pusher, { memberChanges = () => false } = {}) {
  const runtime = Pusher?.Runtime;
  if (typeof runtime?.createWebSocket !== "function" || !Array.isArray(Pusher.instances)) {
    throw new TypeError("installRecovery: pass the class Pusher of pusher-js 8");
  }
  if (runtime[INSTALLED]) return;
  runtime[INSTALLED] = true;
  const createWebSocket = runtime.createWebSocket;
  runtime.createWebSocket = function (url) {
    return between(createWebSocket.call(this, url), { clients: Pusher.instances, memberChanges });
  };
}

/** Calls back when events of the channel are lost: load its state again. Returns a function that ends this. */
function onGap(channel, callback) {
  return listen(channel, GAP, callback);
}

/** Calls back when the channel is subscribed again and its missed events follow. Returns a function that ends this. */
function onRecovered(channel, callback) {
  return listen(channel, RECOVERED, callback);
}

/** A channel of Laravel Echo has that of pusher-js in `subscription`. */
function listen(channel, event, callback) {
  const target = channel?.subscription ?? channel;
  if (typeof target?.bind !== "function") {
    throw new TypeError("the first argument must be a channel of pusher-js, or of Laravel Echo with the broadcaster pusher or reverb");
  }
  // pusher-js compares functions: the same one for two events or twice for one must end by itself.
  const listener = (data) => callback(data);
  target.bind(event, listener);
  return () => {
    target.unbind(event, listener);
  };
}

/** Puts a Wire between a WebSocket and whoever uses it. */
function between(socket, options) {
  const wire = new Wire(socket.send.bind(socket), options);
  socket.send = (text) => wire.send(text);
  socket.addEventListener("message", (event) => wire.receive(event));
  Object.defineProperty(socket, "onmessage", {
    // Nothing: the socket would call it too.
    get: () => null,
    set: (handler) => (wire.handler = handler),
  });
  return socket;
}

/** One connection's messages, both ways. */
class Wire {
  handler = null;
  #write;
  #options;
  #socketId = null;
  #client = null;

  constructor(write, options) {
    this.#write = write;
    this.#options = options;
  }

  send(text) {
    const message = parse(text);
    const isWish = message?.event === "pusher:subscribe";
    const channel = isWish && this.#channel(message.data.channel);
    if (!channel) return this.#write(text);
    const { epoch, offset } = placeOf(channel);
    if (epoch !== undefined) message.data.recover = { epoch, offset };
    const isPresence = channel.name.startsWith("presence-");
    if (isPresence && this.#options.memberChanges(channel.name)) message.data.member_changes = true;
    this.#write(JSON.stringify(message));
  }

  receive(event) {
    const message = parse(event.data);
    if (message?.event === "pusher:connection_established") {
      this.#socketId = parse(message.data)?.socket_id;
    }
    const channel = message?.channel !== undefined && this.#channel(message.channel);
    if (!channel) return this.#hand(event);
    const place = placeOf(channel);
    switch (message.event) {
      case "pusher_internal:subscription_succeeded":
        return this.#joined(channel, place, message, event);
      case "weir:members":
        return place.members?.page(parse(message.data));
      case "weir:members_changed":
        return place.members?.changed(parse(message.data));
      case GAP:
        // From a server with several nodes, without a reconnect. pusher-js itself drops it on encrypted channels.
        return this.#skip(channel, place, parse(message.data));
      default:
        if (place.takes(message)) this.#hand(event);
    }
  }

  #joined(channel, place, message, event) {
    const { outcome, events } = message.recovery ?? {};
    place.joined(message);
    place.members = Members.of(message, {
      ask: (wish) => this.#say("weir:members", { channel: channel.name, ...wish }),
      tell: (told) => this.#hand({ data: JSON.stringify({ channel: channel.name, ...told }) }),
    });
    if (!place.members) this.#hand(event);
    if (outcome === "recovered") channel.emit(RECOVERED, { events });
    if (outcome === "gap") channel.emit(GAP, { epoch: message.epoch, offset: message.offset });
  }

  #skip(channel, place, position) {
    if (position?.epoch === undefined) return;
    place.moveTo(position);
    channel.emit(GAP, position);
  }

  #say(event, data) {
    this.#write(JSON.stringify({ event, data }));
  }

  #hand(event) {
    this.handler?.(event);
  }

  /** The channel, while this is its client's connection: of any other, pusher-js drops what comes. */
  #channel(name) {
    if (!this.#socketId) return undefined;
    const isOurs = ({ connection }) => connection.socket_id === this.#socketId && connection.state === "connected";
    this.#client ??= this.#options.clients.find(isOurs);
    return this.#client && isOurs(this.#client) ? this.#client.channel(name) : undefined;
  }
}

/** Where a channel is in its history, as far as its client has heard. */
class Place {
  epoch;
  /** What is asked for is what comes after this. */
  offset;
  /** Of the last event that was passed on. */
  #delivered = -1;
  members = null;

  joined({ epoch, offset, recovery }) {
    // The missed events follow this message, each with its own position.
    if (recovery?.outcome !== "recovered") this.moveTo({ epoch, offset });
  }

  moveTo({ epoch, offset }) {
    if (epoch !== this.epoch) this.#delivered = -1;
    [this.epoch, this.offset] = [epoch, offset];
  }

  /** Whether the event is a new one. One without an offset, as of a client, always is. */
  takes({ epoch, offset }) {
    if (epoch === undefined) return true;
    if (epoch !== this.epoch) this.#delivered = -1;
    if (offset <= this.#delivered) return false;
    // A cache channel's last event comes late: it does not turn the place back.
    const isLater = epoch !== this.epoch || offset > this.offset;
    if (isLater) [this.epoch, this.offset] = [epoch, offset];
    this.#delivered = offset;
    return true;
  }
}

function placeOf(channel) {
  if (!places.has(channel)) places.set(channel, new Place());
  return places.get(channel);
}

/**
 * The members of a presence channel whose list may be too long for one message: fetched in pages of
 * one version, kept by differences. pusher-js hears of all that what it hears on a small channel:
 * that it has joined, with all members, and then who comes and goes.
 */
class Members {
  #ask;
  #tell;
  /** What pusher-js hears once the list is whole. */
  #held = null;
  #version = 0;
  /** Everybody's user_info by id. */
  #known = new Map();
  /** The list that is being fetched. */
  #list = null;
  /** Differences that came meanwhile. */
  #waiting = [];

  /** Nothing: differences were not asked for, or are not known to the server. */
  static of(succeeded, ways) {
    const version = succeeded.members_version;
    return version === undefined ? null : new Members(succeeded, ways);
  }

  constructor(succeeded, { ask, tell }) {
    [this.#ask, this.#tell] = [ask, tell];
    const { hash, count } = parse(succeeded.data).presence;
    this.#version = succeeded.members_version;
    this.#known = new Map(Object.entries(hash));
    this.#held = succeeded;
    if (this.#known.size !== count) this.#fetch([]);
    this.#handIfWhole();
  }

  #fetch(waiting) {
    this.#waiting = waiting;
    this.#list = { version: -1, known: new Map(), count: Infinity };
    this.#ask({});
  }

  page({ version, start, count, members }) {
    const list = this.#list;
    // An answer to a question about a list that was given up.
    if (!list || version < list.version) return;
    const entries = Object.entries(members);
    if (version > list.version) {
      // The first page of a list, or of the one that took its place while pages were asked for.
      if (start > 0) return;
      Object.assign(list, { version, count, known: new Map() });
      for (let next = entries.length; next > 0 && next < count; next += entries.length) {
        this.#ask({ version, start: next });
      }
    }
    for (const [id, info] of entries) list.known.set(id, info);
    if (list.known.size >= count) this.#complete(list);
  }

  #complete({ version, known }) {
    const waiting = this.#waiting;
    [this.#list, this.#waiting] = [null, []];
    const gone = [...this.#known.keys()].filter((id) => !known.has(id));
    this.#version = version;
    // The list may have been made before we came; whom we were shown then is there: ourselves.
    this.#apply(known, this.#held ? [] : gone);
    for (const difference of waiting) this.changed(difference);
    this.#handIfWhole();
  }

  changed(difference) {
    const { from, version, count, added, removed } = difference;
    if (this.#list) {
      this.#waiting.push(difference);
      return;
    }
    if (version <= this.#version) return;
    // One is missing in between.
    if (from > this.#version) return this.#fetch([difference]);
    this.#version = version;
    this.#apply(new Map(Object.entries(added)), removed);
    if (this.#known.size !== count) this.#fetch([]);
    this.#handIfWhole();
  }

  #apply(added, removed) {
    for (const id of removed) {
      const wasThere = this.#known.delete(id);
      if (wasThere && !this.#held) this.#event("member_removed", { user_id: id });
    }
    for (const [id, info] of added) {
      const isNew = !this.#known.has(id);
      this.#known.set(id, info);
      if (isNew && !this.#held) this.#event("member_added", { user_id: id, user_info: info });
    }
  }

  /** A list may be a moment older than our coming; the next difference makes up for that. */
  #handIfWhole() {
    if (!this.#held || this.#list || this.#version < this.#held.members_version) return;
    const { event } = this.#held;
    this.#held = null;
    const presence = { ids: [...this.#known.keys()], hash: Object.fromEntries(this.#known), count: this.#known.size };
    this.#tell({ event, data: JSON.stringify({ presence }) });
  }

  #event(name, data) {
    this.#tell({ event: `pusher_internal:${name}`, data: JSON.stringify(data) });
  }
}

/** Nothing, if it is not JSON: whoever it is for will say so. */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export { installRecovery, onGap, onRecovered };
