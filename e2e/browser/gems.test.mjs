// The console's pages of gems in a real browser, over an index with an upstream that is away and an endpoint of
// webhooks that is, too.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { focused, launch, openPage, tabTo } from "./browser.mjs";
import { lookAt, LOOKS, violations } from "./looks.mjs";

const PAGES = ["/gems", "/gem?name=rack"];

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

for (const { name, ...look } of LOOKS) {
  test(`the pages of gems are whole and legible: ${name}`, async () => {
    const { page, complaints, close } = await openPage(browser, look);
    for (const path of PAGES) {
      await page.goto(path);
      await lookAt(page, path, name);
    }
    assert.deepEqual(complaints, []);
    await close();
  });
}

const axe = process.env.WEIR_AXE;
for (const { name, ...look } of axe ? [LOOKS[0], LOOKS[3]] : []) {
  test(`axe finds nothing to complain about: ${name}`, async () => {
    assert.deepEqual(await violations(browser, axe, PAGES, look), []);
  });
}

test("upstreams are looked at when somebody asks, from the keyboard, and an error is told", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto("/gems");
  await tabTo(page, /^Poll upstreams now$/);
  assert.equal(await focused(page), "Poll upstreams now");
  await page.keyboard.press("Enter");
  await page.getByText("Weir is polling the upstreams").waitFor();
  await page.getByText("one: cannot connect").waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

test("from a gem to what it needs", async () => {
  const { page, complaints, close } = await openPage(browser);
  await page.goto("/gem?name=sinatra");
  await page.getByRole("link", { name: "rack", exact: true }).first().click();
  await page.getByRole("heading", { name: "rack", exact: true }).waitFor();
  assert.deepEqual(complaints, []);
  await close();
});
