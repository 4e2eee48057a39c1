// The console's pages of realtime in a real browser, over channels with clients.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { focused, launch, openPage, required, tabTo, until } from "./browser.mjs";
import { Channels } from "./channels.mjs";
import { lookAt, LOOKS } from "./looks.mjs";

const ROOM = "presence-a.room.with.a.name.as.long.as.applications.like.to.make.them.2026-11-22";

let browser;
let channels;
let app;

before(async () => {
  browser = await launch();
  channels = await Channels.open(browser);
  for (const user of ["ada", "grace", "linus"]) await channels.subscribe([ROOM, "news"], user);
  await channels.subscribe(["news", "private-orders.1", "cache-weather"]);
  app = required("WEIR_REALTIME_APP");
});

after(async () => {
  await channels?.close();
  await browser?.close();
});

const channelPage = (name) => `/channel?app=${app}&name=${name}`;

/** Publishes by the form of the channel's page. */
async function publish(page, channel, event, data) {
  await page.goto(channelPage(channel));
  await page.getByRole("link", { name: "Publish a test event…" }).click();
  await page.getByLabel("Event").fill(event);
  await page.getByLabel("Data").fill(data);
  await page.getByRole("button", { name: "Publish" }).click();
}

async function turnOff(page, pattern) {
  await page.goto("/switches");
  await page.getByLabel("Turn off events named").fill(pattern);
  await page.getByRole("button", { name: "Turn off" }).click();
  await page.getByText(`Events named ${pattern} are switched off.`).waitFor();
}

async function turnOn(page, pattern) {
  await page.getByRole("button", { name: `Turn on ${pattern}` }).click();
  await page.getByText(`Events named ${pattern} are switched on.`).waitFor();
}

for (const { name, ...look } of LOOKS) {
  test(`every page of realtime is whole and legible: ${name}`, async () => {
    const { page, complaints, close } = await openPage(browser, look);
    await publish(page, ROOM, "order.shipped", JSON.stringify({ text: "a".repeat(200), by: { carrier: "Weir & Sons" } }));
    await page.getByText("order.shipped").first().waitFor();
    const pattern = `client-typing-${name}*`;
    await turnOff(page, pattern);
    for (const path of ["/", "/connections", `/channels?app=${app}`, channelPage(ROOM), `/channel/publish?app=${app}&name=${ROOM}`, "/apps", "/switches"]) {
      await page.goto(path);
      await lookAt(page, path, name);
    }
    await turnOn(page, pattern);
    assert.deepEqual(complaints, []);
    await close();
  });
}

test("connections are counted as they come", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto("/connections");
  const tile = (name) => page.locator(".tile").filter({ hasText: new RegExp(`^${name}`) }).locator("dd").first().textContent();
  const before = Number(await tile("Open"));
  assert.ok(before >= 4, `${before} connections`);
  await channels.subscribe(["news"]);
  await until("one more is shown", async () => Number(await tile("Open")) === before + 1);
  await until("the navigation counts it, too", async () =>
    Number(await page.locator('[data-live="connections"]').textContent()) === before + 1);
  await page.getByRole("link", { name: app }).click();
  await page.waitForURL("**/channels?app=*");
  assert.deepEqual(complaints, []);
  await close();
});

test("channels are found by how their names begin", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto(`/channels?app=${app}`);
  const names = page.locator("tbody th a");
  assert.ok((await names.allTextContents()).includes(ROOM));
  await page.getByRole("searchbox", { name: "Name" }).fill("private-");
  await page.getByRole("button", { name: "Show" }).click();
  await page.waitForURL("**prefix=private-*");
  assert.deepEqual(await names.allTextContents(), ["private-orders.1"]);
  await page.getByRole("combobox", { name: "App" }).selectOption("archive");
  await page.getByRole("button", { name: "Show" }).click();
  await page.waitForURL("**app=archive*");
  assert.equal(await names.count(), 0);
  assert.deepEqual(complaints, []);
  await close();
});

test("a test event goes out and is seen as it passes, in the history and by a subscriber", async () => {
  const watching = await openPage(browser);
  await watching.page.goto(channelPage("news"));
  const tail = watching.page.locator("[data-tail-events]");
  await watching.page.getByText("waiting for events").waitFor();
  const publishing = await openPage(browser);
  await publish(publishing.page, "news", "flood", '{"level": 3}');
  await publishing.page.getByText(/^The event was sent to \d+ subscribers\.$/).waitFor();
  await tail.getByText('{"level": 3}').waitFor();
  await watching.page.getByRole("table").getByText("flood").waitFor();
  assert.equal((await channels.heard("flood")).data, '{"level": 3}');

  // A pause holds back what comes, and shows it afterwards.
  await watching.page.getByRole("button", { name: "Pause" }).click();
  await publish(publishing.page, "news", "ebb", "<b>2</b>");
  await watching.page.getByText("paused, 1 held back").waitFor();
  assert.equal(await tail.getByText("ebb").count(), 0);
  await watching.page.getByRole("button", { name: "Resume" }).click();
  await tail.getByText("<b>2</b>").waitFor();
  assert.equal(await tail.locator("b").count(), 0, "what was published is text");
  await watching.page.getByRole("button", { name: "Clear" }).click();
  assert.equal(await tail.locator("li").count(), 0);
  assert.deepEqual([watching.complaints, publishing.complaints], [[], []]);
  await watching.close();
  await publishing.close();
});

test("apps are shown with their limits and without their secrets", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto("/apps");
  await page.getByRole("heading", { name: `App ${app}` }).waitFor();
  await page.getByRole("heading", { name: "App archive" }).waitFor();
  await page.getByText("connections_max").first().waitFor();
  assert.ok(!(await page.content()).includes(required("WEIR_REALTIME_SECRET")), "no secret");
  assert.deepEqual(complaints, []);
  await close();
});

test("what is switched off is not sent, and the overview says so", async () => {
  const { page, complaints, close } = await openPage(browser);
  await turnOff(page, "tide*");
  await publish(page, "news", "tide.high", "1");
  await page.getByText("The event was not sent: its name is switched off.").waitFor();
  await page.goto("/");
  await page.getByText("Events are switched off by 1 pattern").waitFor();
  await page.goto("/switches");
  await turnOn(page, "tide*");
  await page.getByText("Nothing is switched off.").waitFor();
  await publish(page, "news", "tide.low", "1");
  await channels.heard("tide.low");
  assert.equal(await channels.page.evaluate(() => window.heard.some(({ event }) => event === "tide.high")), false);
  assert.deepEqual(complaints, []);
  await close();
});

test("the keyboard publishes, pauses and switches", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto(`/channels?app=${app}`);
  await tabTo(page, /^news$/);
  await page.keyboard.press("Enter");
  await page.waitForURL("**/channel?*");
  await tabTo(page, /^Publish a test event/);
  await page.keyboard.press("Enter");
  await page.waitForURL("**/channel/publish?*");
  await tabTo(page, /^Event/);
  await page.keyboard.type("by-hand");
  await tabTo(page, /^Publish$/);
  await page.keyboard.press("Enter");
  await page.waitForURL("**/channel?*");
  await channels.heard("by-hand");
  await tabTo(page, /^Pause$/);
  await page.keyboard.press("Enter");
  assert.equal(await focused(page), "Resume");
  await page.keyboard.press("Enter");
  await tabTo(page, /^Events as they arrive/);

  await page.goto("/switches");
  await tabTo(page, /^Turn off events named/);
  await page.keyboard.type("surf*");
  await page.keyboard.press("Enter");
  await page.getByText("Events named surf* are switched off.").waitFor();
  await tabTo(page, /^Turn on surf/);
  const before = await page.locator("[data-fragment]").innerHTML();
  await until("the list is refreshed", async () => (await page.locator("[data-fragment]").innerHTML()) !== before);
  assert.match(await focused(page), /^Turn on surf/, "a refresh keeps the focus");
  await page.keyboard.press("Enter");
  await page.getByText("Events named surf* are switched on.").waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

test("without script a channel is read, published to and switched by forms", async () => {
  const { page, close } = await openPage(browser, { javaScriptEnabled: false });
  await publish(page, "news", "formless", "1");
  await page.getByRole("table").getByText("formless").first().waitFor();
  await turnOff(page, "formless*");
  await turnOn(page, "formless*");
  await close();
});
