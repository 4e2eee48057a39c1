// The Faktory protocol as far as these tests need it: one connection, one command at a time.
import net from "node:net";
import readline from "node:readline";

export class Faktory {
  /** Connects to tcp://host:port; with a wid it is a worker. */
  static async connect(url, wid) {
    const { hostname, port, password } = new URL(url);
    if (password) throw new Error("these tests know no passwords");
    const socket = net.connect({ host: hostname, port: Number(port) });
    const client = new Faktory(socket, wid);
    await client.reply();
    await client.command("HELLO", { v: 2, hostname: "app-01", pid: 4711, labels: ["e2e"], ...(wid && { wid }) });
    return client;
  }

  constructor(socket, wid) {
    this.socket = socket;
    this.wid = wid;
    this.lines = readline.createInterface({ input: socket })[Symbol.asyncIterator]();
  }

  async reply() {
    const { value: line, done } = await this.lines.next();
    if (done) throw new Error("the server closed the connection");
    if (line === "$-1") return null;
    if (line.startsWith("$")) return (await this.lines.next()).value;
    if (line.startsWith("-")) throw new Error(line);
    return line;
  }

  async command(verb, body) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    this.socket.write(`${verb} ${text}\r\n`);
    return this.reply();
  }

  push(jobs) {
    return this.command("PUSHB", [jobs].flat());
  }

  async fetch(...queues) {
    const job = await this.command("FETCH", queues.join(" "));
    return job && JSON.parse(job);
  }

  ack(jid) {
    return this.command("ACK", { jid });
  }

  fail(jid, errtype, message, backtrace = []) {
    return this.command("FAIL", { jid, errtype, message, backtrace });
  }

  beat() {
    return this.command("BEAT", { wid: this.wid, rss_kb: 123_456 });
  }

  close() {
    this.socket.destroy();
  }
}

let serial = 0;
const run = Math.random().toString(36).slice(2, 8);

/** A job with a jid of its own. */
export function job(jobtype, queue, more = {}) {
  serial += 1;
  return { jid: `e2e-${run}-${String(serial).padStart(5, "0")}`, jobtype, queue, args: [serial, { account: 109326485893512 }], ...more };
}
