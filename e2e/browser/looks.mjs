// How a page has to look, on a desk and on a phone, by day and by night.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { openPage, screenshot } from "./browser.mjs";

const PHONE = { width: 360, height: 740 };

export const LOOKS = [
  { name: "light", colorScheme: "light" },
  { name: "dark", colorScheme: "dark" },
  { name: "phone-light", colorScheme: "light", ...PHONE },
  { name: "phone-dark", colorScheme: "dark", ...PHONE },
];

const fileName = (path) => path === "/" ? "overview" : path.slice(1).replace(/\W+/g, "-");

/** The page at `path`, which is open, is live, no wider than the window, and legible. */
export async function lookAt(page, path, look) {
  await page.locator("#pulse").filter({ hasText: "Live" }).waitFor();
  if (await page.locator(".chart").count()) await page.locator(".chart canvas").nth(2).waitFor();
  await screenshot(page, `${fileName(path)}-${look}`);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(overflow <= 0, `${path} is ${overflow} px wider than the window`);
  assert.deepEqual(await faint(page), [], `${path}: text that is hard to read`);
}

/** Texts whose contrast is below WCAG's 4.5 (3 for large ones). */
function faint(page) {
  return page.evaluate(() => {
    const parse = (colour) => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
      const context = canvas.getContext("2d");
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      return [...context.getImageData(0, 0, 1, 1).data];
    };
    const luminance = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const ground = (element) => {
      for (let it = element; it; it = it.parentElement) {
        const colour = parse(getComputedStyle(it).backgroundColor);
        if (colour[3] > 0) return colour;
      }
      return [255, 255, 255, 255];
    };
    const found = new Set();
    for (const element of document.querySelectorAll("body *")) {
      const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
      if (!hasText || !element.checkVisibility() || element.closest(".uplot")) continue;
      const style = getComputedStyle(element);
      const [one, other] = [luminance(parse(style.color)), luminance(ground(element))];
      const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
      if (contrast < least) found.add(`${element.tagName}.${element.className} ${contrast.toFixed(2)}`);
    }
    return [...found];
  });
}

/** What axe-core, whose axe.min.js is at `axe`, complains about on the pages at `paths`. */
export async function violations(browser, axe, paths, look) {
  // The content policy of the pages would keep axe out.
  const { page, close } = await openPage(browser, { ...look, bypassCSP: true });
  const script = await readFile(axe, "utf8");
  const found = [];
  for (const path of paths) {
    await page.goto(path);
    await page.locator("#pulse").filter({ hasText: "Live" }).waitFor();
    await page.evaluate(script);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    found.push(...violations.map((it) => `${path} ${it.id}: ${it.nodes.map((node) => node.html).join(" ")}`));
  }
  await close();
  return found;
}
