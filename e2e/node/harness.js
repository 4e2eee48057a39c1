// What the Node tests share: the server's address, unique names, bounded waiting.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import faktory from "faktory-worker";

export const url = process.env.WEIR_JOBS_URL;
assert.ok(url, "WEIR_JOBS_URL is not set: start these tests with e2e/run");
export const passwordUrl = process.env.WEIR_JOBS_PASSWORD_URL;
/** The server is the original Faktory: the tests then prove that they test the protocol. */
const isOriginal = process.env.WEIR_E2E_ORIGINAL === "1";

/** Longest wait for anything; the original moves due jobs every 5 s. */
const DEADLINE_MS = 30_000;

/** A queue, job type or worker id that no other test uses. */
export const unique = (prefix) => `${prefix}-${randomBytes(6).toString("hex")}`;

/** Polls until `probe` gives something truthy, and returns it. */
export async function eventually(probe, what) {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const found = await probe();
    if (found) return found;
    assert.ok(Date.now() < deadline, `waited ${DEADLINE_MS} ms for: ${what}`);
    await delay(50);
  }
}

/** A test that must fail on the original, which `reason` describes: it shows that the test can tell. */
export const weirPromisesMore = (reason, body) => async (context) => {
  if (!isOriginal) return body(context);
  await assert.rejects(() => body(context), assert.AssertionError, reason);
};

/** A client that may both push and fetch; closed when the test ends. */
export function connect(context, options = {}) {
  const client = new faktory.Client({ url, wid: unique("wid"), ...options });
  context.after(() => client.close());
  return client;
}

/** Sends a command as it is and returns the reply as text (the client would round big numbers). */
export const command = (client, ...words) => client.send(words);
