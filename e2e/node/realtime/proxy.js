// A TCP proxy with a port that stays, whatever is behind it: it cuts connections, and outlives Weir.
// While Weir is down, who connects waits, as in the backlog of a socket that a parent holds.
import { once } from "node:events";
import net from "node:net";

export class Proxy {
  /** In front of a Weir, at whatever port it is at the time of a connection. */
  static async start(context, target) {
    const proxy = new Proxy(target);
    proxy.server.listen(0, "127.0.0.1");
    await once(proxy.server, "listening");
    context.after(() => {
      proxy.server.close();
      proxy.cut();
    });
    return proxy;
  }

  #pairs = new Set();

  constructor(target) {
    this.server = net.createServer(async (client) => {
      client.on("error", () => client.destroy());
      await target.ready;
      this.#join(client, net.connect(target.port, target.host));
    });
  }

  get host() {
    return "127.0.0.1";
  }

  get port() {
    return this.server.address().port;
  }

  /** Connections that are open. */
  get size() {
    return this.#pairs.size;
  }

  /** Resets every connection, or those that `chosen` (by their number) are to be; with what is under way. */
  cut(chosen = () => true) {
    [...this.#pairs].filter((_, index) => chosen(index)).forEach((pair) => pair.forEach((socket) => socket.resetAndDestroy()));
  }

  #join(client, server) {
    const pair = [client, server];
    this.#pairs.add(pair);
    const end = () => {
      this.#pairs.delete(pair);
      pair.forEach((socket) => socket.destroy());
    };
    for (const socket of pair) socket.on("error", end).on("close", end);
    client.pipe(server).pipe(client);
  }
}
