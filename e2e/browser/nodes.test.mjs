// The console's page Nodes of two nodes that share a Redis, in a real browser.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { launch, openPage, until } from "./browser.mjs";
import { lookAt, LOOKS } from "./looks.mjs";

const WEIR = process.env.WEIR_BIN ?? join(import.meta.dirname, "../../target/debug/weir");

let browser;
let folder;
let redis;
const nodes = [];

/** The nodes differ in nothing but their folders. */
const settings = () => `
data_dir = "data"
[jobs]
listen = "127.0.0.1:0"
store = { redis = [{ url = "unix://${folder}/redis.sock" }] }
[console]
listen = "127.0.0.1:0"
`;

/** What `find` finds in the first line of a process's output where it finds something. */
async function firstMatch(process, find) {
  for await (const text of createInterface({ input: process.stdout })) {
    const found = find(text);
    if (found) return found;
  }
  throw new Error("it ended before it was ready");
}

async function startNode(name) {
  const own = join(folder, name);
  await mkdir(own);
  await writeFile(join(own, "weir.toml"), settings());
  const process = spawn(WEIR, ["up", "--log-level", "error"], { cwd: own });
  nodes.push(process);
  return `http://${await firstMatch(process, (text) => /weir ready .*console=(\S+)/.exec(text)?.[1])}`;
}

const stopped = (process, signal) => new Promise((resolve) => {
  if (process.exitCode !== null || process.signalCode) resolve();
  process.once("exit", resolve);
  process.kill(signal);
});

let baseURL;

before(async () => {
  browser = await launch();
  folder = await mkdtemp(join(tmpdir(), "weir-nodes-"));
  redis = spawn("redis-server", ["--port", "0", "--unixsocket", join(folder, "redis.sock"), "--save", "", "--dir", folder]);
  await firstMatch(redis, (text) => /eady to accept connections/.test(text));
  baseURL = await startNode("one");
  await startNode("two");
});

after(async () => {
  await browser?.close();
  await Promise.all(nodes.map((node) => stopped(node, "SIGTERM")));
  if (redis) await stopped(redis, "SIGTERM");
  if (folder) await rm(folder, { recursive: true, force: true });
});

const rows = (page) => page.locator("main tbody tr");
const states = (page) => rows(page).locator("td[data-label=State]").allTextContents();

for (const { name, ...look } of LOOKS) {
  test(`the table of nodes is whole and legible: ${name}`, async () => {
    const { page, complaints, close } = await openPage(browser, { ...look, baseURL });
    await page.goto("/nodes");
    await until("both nodes have reported", async () => {
      await page.reload();
      return await rows(page).locator("td[data-label=Version]").count() === 2;
    });
    assert.equal(await rows(page).filter({ hasText: "(this node)" }).count(), 1);
    await lookAt(page, "/nodes of two nodes", name);
    assert.deepEqual(complaints, []);
    await close();
  });
}

test("the page shows, without a reload, that a node was stopped", async () => {
  const { page, complaints, close } = await openPage(browser, { baseURL });
  await page.goto("/nodes");
  await rows(page).nth(1).waitFor();
  await stopped(nodes[1], "SIGTERM");
  await until("one node is up, the other one stopped", async () =>
    String((await states(page)).sort()) === "stopped,up");
  assert.deepEqual(complaints, []);
  await close();
});
