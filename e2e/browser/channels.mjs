// Channels to look at: clients of the app that the tests' Weir serves, as sockets of a page of their own.
import { createHmac } from "node:crypto";
import { PATIENCE_MS, required } from "./browser.mjs";

export class Channels {
  static async open(browser) {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const [url, key, secret] = ["URL", "KEY", "SECRET"].map((name) => required(`WEIR_REALTIME_${name}`));
    await page.exposeFunction("sign", (text) => `${key}:${createHmac("sha256", secret).update(text).digest("hex")}`);
    await page.evaluate(`window.address = ${JSON.stringify(`${url.replace("http", "ws")}/app/${key}?protocol=7`)}`);
    return new Channels(context, page);
  }

  constructor(context, page) {
    Object.assign(this, { context, page });
  }

  /** One more connection, subscribed to `channels`; `user` is who it is in presence channels. */
  subscribe(channels, user = "") {
    return this.page.evaluate(async ({ channels, user }) => {
      const socket = new WebSocket(window.address);
      const waiting = new Map();
      const next = (event) => new Promise((resolve) => waiting.set(event, resolve));
      window.heard ??= [];
      socket.onmessage = ({ data }) => {
        const message = JSON.parse(data);
        window.heard.push(message);
        waiting.get(message.event)?.(message);
      };
      const { socket_id } = JSON.parse((await next("pusher:connection_established")).data);
      for (const channel of channels) {
        const data = { channel };
        if (channel.startsWith("presence-")) data.channel_data = JSON.stringify({ user_id: user, user_info: { name: `The long name of ${user}` } });
        if (/^(private|presence)-/.test(channel)) data.auth = await window.sign([socket_id, channel, data.channel_data].filter(Boolean).join(":"));
        const held = next("pusher_internal:subscription_succeeded");
        socket.send(JSON.stringify({ event: "pusher:subscribe", data }));
        await held;
      }
    }, { channels, user });
  }

  /** Resolves with the first event of this name that any of them hears. */
  async heard(event) {
    const found = await this.page.waitForFunction((event) => window.heard.find((it) => it.event === event), event);
    return found.jsonValue();
  }

  close() {
    return this.context.close();
  }
}
