// The console's pages of what is observed in a real browser: a Redis that a misspelt Sidekiq has left, and a
// Postgres that is away.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { launch, openPage, until } from "./browser.mjs";
import { lookAt, LOOKS, violations } from "./looks.mjs";

const PAGES = ["/doctor", "/plan", "/postgres", "/redis"];
const WEIR = process.env.WEIR_BIN ?? join(import.meta.dirname, "../../target/debug/weir");

const PROCESS = "web:7:0123456789ab";
/** As often as a Sidekiq does; one that misses a beat serves nothing. */
const BEAT_MS = 5_000;

let browser;
let folder;
let beating;
let redis;
let weir;
let baseURL;

const settings = () => `
data_dir = "data"
[console]
listen = "127.0.0.1:0"
[observe]
interval = "1s"
[[observe.redis]]
url = "unix://${folder}/redis.sock"
[observe.postgres]
url = "postgres://weir@127.0.0.1:1/app"
`;

/** The first line of a process that `finds` something. */
async function line(process, finds) {
  for await (const said of createInterface({ input: process.stdout })) {
    const found = finds(said);
    if (found) return found;
  }
  throw new Error("it ended before it was ready");
}

const ask = (...words) => execFileSync("redis-cli", ["-s", join(folder, "redis.sock"), ...words]);
const beat = () => ask("HSET", PROCESS, "beat", String(Date.now() / 1000));

function fill() {
  const now = Date.now() / 1000;
  const job = JSON.stringify({ class: "MailWorker", args: [], enqueued_at: now - 3700 });
  ask("SADD", "queues", "mailers", "default", "a_queue_with_a_name_that_is_longer_than_a_phone_is_wide_backlog");
  ask("LPUSH", "queue:mailers", ...Array(40).fill(job));
  const info = JSON.stringify({ hostname: "web", pid: 7, concurrency: 5, queues: ["mailer", "default"], weights: [{ mailer: 0, default: 0 }], version: "7.3.9" });
  ask("SADD", "processes", PROCESS);
  ask("HSET", PROCESS, "info", info, "busy", "3", "quiet", "false");
  beat();
}

/** The colours in the legend of the chart with most lines. */
const colours = (page) => page.evaluate(() => {
  const legends = [...document.querySelectorAll(".chart .legend")].map((legend) => [...legend.querySelectorAll("i")]);
  const longest = legends.reduce((one, other) => other.length > one.length ? other : one);
  return longest.map((mark) => getComputedStyle(mark).backgroundColor);
});

before(async () => {
  browser = await launch();
  folder = await mkdtemp(join(tmpdir(), "weir-observed-"));
  redis = spawn("redis-server", ["--port", "0", "--unixsocket", join(folder, "redis.sock"), "--save", "", "--dir", folder]);
  await line(redis, (said) => /eady to accept connections/.test(said));
  fill();
  beating = setInterval(beat, BEAT_MS);
  await writeFile(join(folder, "weir.toml"), settings());
  weir = spawn(WEIR, ["up", "--only", "console", "--log-level", "error"], { cwd: folder });
  baseURL = `http://${await line(weir, (said) => /weir ready .*console=(\S+)/.exec(said)?.[1])}`;
  await until("it was looked at", async () => (await fetch(`${baseURL}/metrics`).then((it) => it.text())).includes("weir_observe_queue_size"));
});

after(async () => {
  await browser?.close();
  const ended = weir && new Promise((resolve) => weir.once("exit", resolve));
  weir?.kill("SIGTERM");
  await ended;
  clearInterval(beating);
  redis?.kill("SIGTERM");
  await rm(folder, { recursive: true, force: true });
});

for (const { name, ...look } of LOOKS) {
  for (const path of PAGES) {
    test(`${path} is whole and legible: ${name}`, async () => {
      const { page, complaints, close } = await openPage(browser, { ...look, baseURL });
      await page.goto(path);
      await lookAt(page, path, `observed-${name}`);
      assert.deepEqual(complaints, []);
      await close();
    });
  }
}

const axe = process.env.WEIR_AXE;
for (const { name, ...look } of axe ? [LOOKS[0], LOOKS[3]] : []) {
  test(`axe finds nothing to complain about: ${name}`, async () => {
    assert.deepEqual(await violations(browser, axe, PAGES, { ...look, baseURL }), []);
  });
}

test("doctor says what is wrong, and the overview, too", async () => {
  const { page, complaints, close } = await openPage(browser, { baseURL });
  await page.goto("/doctor");
  await page.getByText('did you mean "mailers"?').first().waitFor();
  await page.getByRole("button", { name: /^Copy the line for queue mailers/ }).waitFor();
  await page.getByText("unreachable").first().waitFor();
  await page.goto("/");
  await page.getByText("queue mailers: 40 jobs wait").first().waitFor();
  await page.getByRole("link", { name: "Doctor" }).click();
  await page.getByRole("heading", { name: "Doctor", exact: true }).waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

test("charts draw what was looked at", async () => {
  const { page, complaints, close } = await openPage(browser, { baseURL });
  await page.goto("/redis");
  await until("there is a value", async () =>
    /MiB/.test((await page.locator("[data-chart^=redis_memory] .legend b").first().textContent()) ?? ""));
  await page.goto("/doctor");
  await until("jobs wait", async () =>
    /40/.test((await page.locator("[data-chart^=waiting] .legend b").first().textContent()) ?? ""));
  assert.deepEqual(complaints, []);
  await close();
});

test("a plan is worked out anew with another ceiling", async () => {
  const { page, complaints, close } = await openPage(browser, { baseURL });
  await page.goto("/plan");
  await page.getByLabel("max_connections").fill("12");
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByText("No plan meets these limits").waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

test("every line of a chart has a colour of its own", async () => {
  const { page, close } = await openPage(browser, { baseURL });
  await page.goto("/postgres");
  await page.locator(".chart .legend i").first().waitFor();
  const found = await colours(page);
  assert.ok(found.length > 3, `${found.length} lines`);
  assert.equal(new Set(found).size, found.length, String(found));
  assert.ok(!found.includes("rgba(0, 0, 0, 0)"), String(found));
  await close();
});
