// The console's page of the front in a real browser, over an app with three processes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { focused, launch, openPage, required, tabTo, until } from "./browser.mjs";
import { lookAt, LOOKS, violations } from "./looks.mjs";

let browser;
let front;

before(async () => {
  browser = await launch();
  // The app answers whatever is not realtime's.
  front = required("WEIR_REALTIME_URL");
  await until("the app serves", async () => (await fetch(front)).ok);
});

after(() => browser?.close());

const rows = (page) => page.locator("[data-fragment] tbody tr");
const serving = (page) => rows(page).filter({ hasText: "serving" }).count();
/** The processes, of which the page says "pid 4711, for 3 s". */
const pids = async (page) => (await rows(page).locator("th .muted").allTextContents()).map((text) => text.split(",")[0]);
const tile = (page, name) => page.locator(".tile").filter({ hasText: new RegExp(`^${name}`) }).locator("dd").textContent();

async function ask(times) {
  for (let number = 0; number < times; number++) assert.equal((await fetch(front)).status, 200);
}

for (const { name, ...look } of LOOKS) {
  test(`the page of the front is whole and legible: ${name}`, async () => {
    await ask(9);
    const { page, complaints, close } = await openPage(browser, look);
    await page.goto("/front");
    await until("three workers serve", async () => (await serving(page)) === 3);
    await lookAt(page, "/front", name);
    assert.deepEqual(complaints, []);
    await close();
  });
}

const axe = process.env.WEIR_AXE;
for (const { name, ...look } of axe ? [LOOKS[0], LOOKS[3]] : []) {
  test(`axe finds nothing to complain about: ${name}`, async () => {
    assert.deepEqual(await violations(browser, axe, ["/front"], look), []);
  });
}

test("requests are counted as they come, evenly", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto("/front");
  await until("they are counted", async () => {
    await ask(3);
    return !/^0/.test(await tile(page, "Requests"));
  });
  await until("the workers got as many", async () => {
    await ask(3);
    return Number(await tile(page, "Jain index")) >= 0.9;
  });
  assert.match(await tile(page, "Response p99"), /ms|µs/);
  await until("the chart has points", async () =>
    page.locator("[data-chart*=requests_per_second] .legend b").first().textContent().then((text) => /\d/.test(text)));
  assert.deepEqual(complaints, []);
  await close();
});

test("a pause lets requests wait, and the navigation counts them", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto("/front");
  await page.getByRole("button", { name: "Pause sample" }).click();
  await page.getByText("The app is paused.").waitFor();
  const waiting = fetch(front);
  await until("it waits", async () => (await page.locator('[data-live="front_waiting"]').textContent()) === "1");
  await page.getByText("sample is paused: 1 request waits").first().waitFor();
  await page.getByRole("button", { name: "Resume sample" }).click();
  assert.equal((await waiting).status, 200);
  await page.getByText("Requests are served again.").waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

test("a worker is restarted, all are, and there are more and fewer of them", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto("/front");
  await until("three workers serve", async () => (await serving(page)) === 3);
  const before = await pids(page);
  await page.getByRole("button", { name: "Restart worker 1 of sample" }).click();
  await page.getByText("The worker stops once its successor is ready").waitFor();
  await until("it has a successor", async () => {
    const now = await pids(page);
    return now.length === 3 && !now.includes(before[1]) && now.includes(before[0]);
  });
  await page.getByRole("button", { name: "Restart all workers of sample" }).click();
  await until("all have", async () => {
    const now = await pids(page);
    return now.length === 3 && !now.some((pid) => before.includes(pid)) && (await serving(page)) === 3;
  });
  for (const count of [2, 3]) {
    await page.getByLabel("Workers of sample").fill(String(count));
    await page.getByRole("button", { name: "Set workers" }).click();
    await until(`there are ${count}`, async () => (await rows(page).count()) === count && (await serving(page)) === count);
  }
  assert.deepEqual(complaints, []);
  await close();
});

test("a stuck worker is evicted, and the page says so", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto("/front");
  assert.equal((await fetch(`${front}/stuck`)).status, 502);
  await until("it is counted", async () => (await tile(page, "Evicted")) !== "0");
  await page.getByText(/stuck and evicted in the last minute/).first().waitFor();
  await until("three workers serve", async () => (await serving(page)) === 3);
  assert.deepEqual(complaints, []);
  await close();
});

test("the keyboard pauses and resumes, and a refresh keeps the focus", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto("/front");
  await tabTo(page, /^Pause sample/);
  await page.keyboard.press("Enter");
  await page.getByText("The app is paused.").waitFor();
  await tabTo(page, /^Resume sample/);
  const before = await page.locator("[data-fragment]").innerHTML();
  await until("the page is refreshed", async () => (await page.locator("[data-fragment]").innerHTML()) !== before);
  assert.match(await focused(page), /^Resume sample/);
  await page.keyboard.press("Enter");
  await page.getByText("Requests are served again.").waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

test("without script the page is read and acts by forms", async () => {
  const { page, close } = await openPage(browser, { javaScriptEnabled: false });
  await page.goto("/front");
  await page.getByRole("button", { name: "Pause sample" }).click();
  await page.getByText("The app is paused.").waitFor();
  await page.getByRole("button", { name: "Resume sample" }).click();
  await page.getByText("Requests are served again.").waitFor();
  await close();
});
