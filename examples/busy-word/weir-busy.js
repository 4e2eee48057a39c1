// Tells Weir what this worker does (docs/front-sockets.md).
//
//   const server = http.createServer(app);
//   require("./weir-busy").keep(server);
//   require("./weir-busy").listen(server);
//
// Node can write to a descriptor but not map it. That is enough unless selection = "join-idle": then
// the memory is the kernel's, which takes the package koffi (`npm install koffi`).
const fs = require("node:fs");

const RECORD_BYTES = 32;
const IDLE = 0n;
const FIRST_DESCRIPTOR = 3;

// The record of this worker in the memory that it shares with Weir.
class Word {
  // undefined: Weir has not started this worker, or not with mode = "sockets".
  static ofThisWorker(environment = process.env) {
    if (environment.WEIR_BUSY_FD === undefined) return undefined;
    return new Word(Number(environment.WEIR_BUSY_FD), Number(environment.WEIR_BUSY_INDEX));
  }

  constructor(descriptor, index) {
    this.store = storer(descriptor, index * RECORD_BYTES);
    this.running = new Map();
    this.served = 0n;
    // What a process left behind that had this record before.
    this.store(0, IDLE);
  }

  // A request begins. Answers what `end` is to be told.
  begin() {
    const token = Symbol("request");
    this.running.set(token, process.hrtime.bigint() / 1_000_000n);
    this.say();
    return token;
  }

  // It has ended. Of a second time nothing comes.
  end(token) {
    if (!this.running.delete(token)) return;
    this.served += 1n;
    this.store(8, this.served);
    this.say();
  }

  say() {
    // A Map keeps its order, so the first is the oldest.
    const [oldest = IDLE] = this.running.values();
    this.store(0, oldest);
  }
}

// A function that stores eight bytes at an offset of the record.
function storer(descriptor, start) {
  const bytes = Buffer.alloc(8);
  const write = (offset, value) => {
    new BigUint64Array(bytes.buffer, bytes.byteOffset, 1)[0] = value;
    fs.writeSync(descriptor, bytes, 0, 8, start + offset);
  };
  try {
    write(0, IDLE);
    return write;
  } catch (error) {
    if (!["ESPIPE", "EINVAL"].includes(error.code)) throw error;
    return mapped(descriptor, start);
  }
}

function mapped(descriptor, start) {
  const koffi = require("koffi");
  const mmap = koffi.load(null).func("void *mmap(void *, size_t, int, int, int, long)");
  const [readAndWrite, shared] = [3, 1];
  const memory = mmap(null, start + RECORD_BYTES, readAndWrite, shared, descriptor, 0);
  if (BigInt.asIntN(64, koffi.address(memory)) === -1n) throw new Error("WEIR_BUSY_FD can't be mapped");
  return (offset, value) => koffi.encode(memory, start + offset, "uint64_t", value);
}

// Keeps the word of this worker by the requests of `server`.
function keep(server, word = Word.ofThisWorker()) {
  if (word === undefined) return;
  server.prependListener("request", (_request, response) => {
    const token = word.begin();
    response.once("close", () => word.end(token));
  });
}

// Makes `server` listen on all sockets that Weir has handed over.
function listen(server, environment = process.env) {
  const count = Number(environment.LISTEN_FDS ?? 0);
  const servers = [];
  for (let fd = FIRST_DESCRIPTOR; fd < FIRST_DESCRIPTOR + count; fd += 1) servers.push(fd);
  const net = require("node:net");
  // A server listens once; further sockets pass their connections on to it.
  const [first, ...others] = servers;
  server.listen({ fd: first });
  const doors = others.map((fd) => {
    const door = net.createServer((connection) => server.emit("connection", connection));
    return door.listen({ fd });
  });
  // Whoever closes it means all of them; it is done when the last connection of each has ended.
  const { close } = server;
  server.close = (done) => {
    let left = doors.length + 1;
    let failure;
    const closed = (error) => {
      failure ??= error;
      left -= 1;
      if (left === 0) done?.(failure);
    };
    for (const door of doors) door.close(closed);
    return close.call(server, closed);
  };
  return server;
}

module.exports = { Word, keep, listen };
