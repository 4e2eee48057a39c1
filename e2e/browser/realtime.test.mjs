// Realtime in real pages: pusher-js, the plugin that recovers, and EventSource, against a Weir of its own.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import http from "node:http";
import { after, before, test } from "node:test";
import { server, unique } from "../node/realtime/clients.js";
import { Proxy } from "../node/realtime/proxy.js";
import { app, Weir } from "../node/realtime/weir.js";
import { launch, PATIENCE_MS } from "./browser.mjs";

const FILES = {
  "/pusher.js": "../node/node_modules/pusher-js/dist/web/pusher.min.js",
  "/recovery.mjs": "../../packages/pusher-js-recovery/recovery.mjs",
};
const PAGE = `<!doctype html><title>realtime</title><script src="/pusher.js"></script>
<script type="module">import { installRecovery } from "/recovery.mjs"; window.installRecovery = installRecovery;</script>`;

let browser;
let site;
let weir;
let backend;

before(async (context) => {
  site = http.createServer(async ({ url }, response) => {
    const file = FILES[url];
    response.setHeader("content-type", file ? "text/javascript" : "text/html");
    response.end(file ? await readFile(new URL(file, import.meta.url)) : PAGE);
  });
  site.listen(0, "127.0.0.1");
  await once(site, "listening");
  const origins = `client_events = true\norigins = ["http://127.0.0.1:${site.address().port}"]`;
  weir = await Weir.start(context, { apps: [app("e2e", origins), app("elsewhere", 'origins = ["https://example.org"]')] });
  backend = server(weir);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  site?.closeAllConnections();
  site?.close();
});

/** A tab of a user; `connect(..)` in it makes a client and `subscribe(..)` resolves when it holds. */
async function openTab(tabs, user, target = weir) {
  const page = await tabs.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.exposeFunction("authorize", (socketId, channel) =>
    backend.authorizeChannel(socketId, channel, channel.startsWith("presence-") ? { user_id: user } : undefined));
  await page.goto(`http://127.0.0.1:${site.address().port}/`);
  await page.evaluate(({ key, host, port }) => {
    window.heard = [];
    window.connect = (more) => {
      const customHandler = ({ socketId, channelName }, callback) =>
        window.authorize(socketId, channelName).then((auth) => callback(null, auth), callback);
      window.pusher = new window.Pusher(key, {
        cluster: "none", wsHost: host, wsPort: port, forceTLS: false, enabledTransports: ["ws"], channelAuthorization: { customHandler }, ...more,
      });
    };
    window.subscribe = (name, ...events) =>
      new Promise((resolve, reject) => {
        const channel = window.pusher.subscribe(name);
        for (const event of events) channel.bind(event, (data) => window.heard.push([event, data]));
        channel.bind("pusher:subscription_succeeded", () => resolve());
        channel.bind("pusher:subscription_error", (error) => reject(new Error(JSON.stringify(error))));
      });
  }, { key: weir.apps[0].key, host: target.host, port: target.port });
  return page;
}

const heard = (page, count) =>
  page.waitForFunction((count) => window.heard.length >= count && window.heard, count).then((handle) => handle.jsonValue());

async function newTabs(context) {
  const tabs = await browser.newContext();
  context.after(() => tabs.close());
  return tabs;
}

test("two tabs see each other, hear what is published and what the other sends", async (context) => {
  const [tabs, name] = [await newTabs(context), unique("presence")];
  const ada = await openTab(tabs, "ada");
  await ada.evaluate(async (name) => {
    window.connect();
    await window.subscribe(name, "news", "client-typing", "pusher:member_added", "pusher:member_removed");
  }, name);
  const grace = await openTab(tabs, "grace");
  const members = await grace.evaluate(async (name) => {
    window.connect();
    await window.subscribe(name, "news", "client-typing");
    return Object.keys(window.pusher.channel(name).members.members).sort();
  }, name);
  assert.deepEqual(members, ["ada", "grace"]);
  await heard(ada, 1);
  await grace.evaluate((name) => window.pusher.channel(name).trigger("client-typing", { at: 1 }), name);
  await heard(ada, 2);
  await backend.trigger(name, "news", { text: "ünïcödé" });
  assert.deepEqual(await heard(grace, 1), [["news", { text: "ünïcödé" }]]);
  await heard(ada, 3);
  await grace.close();
  assert.deepEqual((await heard(ada, 4)).map(([event]) => event), ["pusher:member_added", "client-typing", "news", "pusher:member_removed"]);
});

test("with the plugin a page gets what it missed", async (context) => {
  const [tabs, name] = [await newTabs(context), unique("private")];
  const proxy = await Proxy.start(context, weir);
  const page = await openTab(tabs, "ada", proxy);
  await page.waitForFunction(() => window.installRecovery);
  await page.evaluate(async (name) => {
    window.installRecovery(window.Pusher);
    window.connect();
    await window.subscribe(name, "news", "weir:recovered", "weir:gap");
  }, name);
  await backend.trigger(name, "news", 1);
  await heard(page, 1);
  proxy.cut();
  await backend.trigger(name, "news", 2);
  await backend.trigger(name, "news", 3);
  await heard(page, 4);
  await backend.trigger(name, "news", 4);
  assert.deepEqual(await heard(page, 5), [["news", 1], ["weir:recovered", { events: 2 }], ["news", 2], ["news", 3], ["news", 4]]);
});

test("EventSource comes back by itself and misses nothing", async (context) => {
  const tabs = await newTabs(context);
  const proxy = await Proxy.start(context, weir);
  for (const name of [unique("public"), unique("private")]) {
    const path = `/app/${weir.apps[0].key}/channels/${name}/events`;
    const signature = backend.createSignedQueryString({ method: "GET", path, params: {} });
    const page = await openTab(tabs, "ada");
    await page.evaluate((url) => {
      window.source = new EventSource(url);
      window.source.onmessage = ({ data }) => {
        const { event, data: text, recovery } = JSON.parse(data);
        window.heard.push(event === "news" ? JSON.parse(text) : [event, recovery?.outcome ?? "new"]);
      };
    }, `http://${proxy.host}:${proxy.port}${path}${name.startsWith("private-") ? `?${signature}` : ""}`);
    await heard(page, 1);
    await backend.trigger(name, "news", 1);
    await heard(page, 2);
    proxy.cut();
    await backend.trigger(name, "news", 2);
    await heard(page, 4);
    await backend.trigger(name, "news", 3);
    const succeeded = "pusher_internal:subscription_succeeded";
    assert.deepEqual(await heard(page, 5), [[succeeded, "new"], 1, [succeeded, "recovered"], 2, 3]);
    await page.evaluate(() => window.source.close());
  }
});

test("a private stream needs a signature, and an app its origins", async (context) => {
  const page = await openTab(await newTabs(context), "ada");
  const [path, name] = [`/app/${weir.apps[0].key}/channels`, unique("private")];
  const unsigned = await page.evaluate((url) => fetch(url).then(({ status }) => status), `${weir.origin}${path}/${name}/events`);
  assert.equal(unsigned, 401);
  const elsewhere = await page.evaluate(async ({ key, host, port }) => {
    const socket = new WebSocket(`ws://${host}:${port}/app/${key}?protocol=7`);
    return new Promise((resolve) => Object.assign(socket, { onopen: () => resolve("open"), onerror: () => resolve("refused") }));
  }, { key: weir.apps[1].key, host: weir.host, port: weir.port });
  assert.equal(elsewhere, "refused");
});
