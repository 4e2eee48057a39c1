// npm `faktory-worker`, its worker, against a live server.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import faktory from "faktory-worker";

import { command, connect, eventually, unique, url } from "./harness.js";

/**
 * A running worker that notes the arguments of its jobs; stopped when the test ends.
 * `isIdle()`: quiet, and no FETCH of it is waiting any more (one that already waits may still get a job).
 */
async function startWorker(context, queue) {
  const ran = [];
  let fetching = 0;
  const wid = unique("wid");
  const worker = new faktory.Worker({ url, wid, queues: [queue], concurrency: 2, beatInterval: 1 });
  worker.register("echo", (...args) => ran.push(args));
  worker.register("boom", () => {
    throw Object.assign(new Error("boom: ünïcödé"), { code: "EBOOM" });
  });
  const fetch = worker.fetch.bind(worker);
  worker.fetch = async () => {
    fetching += 1;
    return fetch().finally(() => (fetching -= 1));
  };
  await worker.work();
  context.after(() => worker.stop());
  return { worker, wid, ran, isIdle: () => worker.quieted && fetching === 0 };
}

/** Moves a worker to `state` as its own heartbeat would. */
async function signal(client, wid, state) {
  const beat = JSON.stringify({ wid, current_state: state });
  assert.equal(await command(client, "BEAT", beat), JSON.stringify({ state }));
}

test("a worker runs jobs, all of them once", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const { ran } = await startWorker(context, queue);
  const numbers = Array.from({ length: 100 }, (_, n) => n);
  await client.pushBulk(numbers.map((n) => ({ jobtype: "echo", args: [n], queue })));
  await eventually(() => ran.length >= 100, "100 jobs");
  assert.deepEqual(ran.flat().sort((a, b) => a - b), numbers);
  await eventually(async () => !(await client.info()).faktory.queues[queue], "an empty queue");
});

test("a job that throws is reported as failed", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const { worker, wid, isIdle } = await startWorker(context, queue);
  const failed = once(worker, "fail");
  const jid = await client.push({ jobtype: "boom", args: [], queue, retry: -1 });
  await failed;
  await signal(client, wid, "quiet");
  await eventually(isIdle, "the worker to be quiet");
  await client.dead.withJids(jid).requeue();
  const { failure } = await client.fetch(queue);
  assert.deepEqual([failure.errtype, failure.message], ["EBOOM", "boom: ünïcödé"]);
});

test("a quiet worker takes no more jobs and a terminated one stops", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const { worker, wid, ran, isIdle } = await startWorker(context, queue);
  await signal(client, wid, "quiet");
  await eventually(isIdle, "the worker to be quiet");
  await client.push({ jobtype: "echo", args: ["for another worker"], queue });
  assert.deepEqual((await client.fetch(queue)).args, ["for another worker"]);
  assert.deepEqual(ran, []);
  const stopped = new Promise((resolve) => {
    const stop = worker.stop.bind(worker);
    worker.stop = () => stop().finally(resolve);
  });
  await signal(client, wid, "terminate");
  await stopped;
});

test("an unknown worker cannot beat", async (context) => {
  const client = connect(context);
  await assert.rejects(command(client, "BEAT", '{"wid":"nobody-knows-me"}'), /unknown worker/i);
});
