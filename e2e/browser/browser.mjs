// Chromium as these tests use it, and pages that report what must not happen.
import { mkdir } from "node:fs/promises";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** A wait that fails the test rather than hangs it. */
export const PATIENCE_MS = 20_000;

const SCREENSHOTS = process.env.WEIR_SCREENSHOTS ?? "screenshots";

export function launch() {
  const executablePath = process.env.WEIR_CHROMIUM ?? "/usr/bin/chromium";
  return chromium.launch({ executablePath, headless: true, args: FLAGS });
}

/** An address that the tests need; without it they say so. */
export function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name}, for example WEIR_CONSOLE_URL=http://127.0.0.1:7420 WEIR_JOBS_URL=tcp://127.0.0.1:7419; xtask/src/server.rs has all`);
  return value;
}

/** A page and the list of its complaints: errors, failed requests, broken content policy. */
export async function openPage(browser, { width = 1280, height = 900, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, baseURL: required("WEIR_CONSOLE_URL"), ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`exception: ${error.message}`));
  page.on("response", (response) => {
    if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
  });
  if (options.javaScriptEnabled !== false) {
    await page.exposeFunction("complain", (text) => complaints.push(text));
    await page.addInitScript(() =>
      document.addEventListener("securitypolicyviolation", (event) =>
        window.complain(`policy: ${event.violatedDirective} ${event.blockedURI}`)),
    );
  }
  return { page, complaints, close: () => context.close() };
}

export async function screenshot(page, name) {
  await mkdir(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: `${SCREENSHOTS}/${name}.png`, fullPage: true });
}

/** What the focus is on, in the words that a person reads or hears. */
export const focused = (page) => page.evaluate(() => {
  const element = document.activeElement;
  return (element?.getAttribute("aria-label") ?? (element?.textContent.trim() || element?.labels?.[0]?.textContent.trim())) ?? "";
});

/** Presses Tab until the wanted element has the focus; there are not that many. */
export async function tabTo(page, wanted) {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press("Tab");
    if (wanted.test(await focused(page))) return;
  }
  throw new Error(`Tab does not lead to ${wanted}`);
}

/** Asks until the answer is true; the bound fails the test. */
export async function until(what, ask) {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    if (await ask()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`in ${PATIENCE_MS} ms this did not happen: ${what}`);
}
