// npm `faktory-worker`, its client, against a live server.
import assert from "node:assert/strict";
import { test } from "node:test";

import { command, connect, eventually, passwordUrl, unique, weirPromisesMore } from "./harness.js";

/** Pushes one job to a queue of the test's own. */
async function push(client, queue, args, fields = {}) {
  return client.push({ jobtype: "echo", args, queue, ...fields });
}

test("a pushed job is fetched and acknowledged once", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const args = [1, "two", [3], { four: null }];
  const jid = await push(client, queue, args, { custom: { locale: "de" } });
  const job = await client.fetch(queue);
  assert.deepEqual([job.jid, job.args, job.custom], [jid, args, { locale: "de" }]);
  assert.ok(!Number.isNaN(Date.parse(job.created_at)), job.created_at);
  assert.ok(!Number.isNaN(Date.parse(job.enqueued_at)), job.enqueued_at);
  assert.equal(await client.ack(jid), "OK");
  assert.equal(await client.fetch(queue), null);
});

test("the job builder pushes what it was told", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const job = client.job("Resize", 640, 480);
  job.queue = queue;
  job.retry = 3;
  job.reserveFor = 90;
  await job.push();
  const fetched = await client.fetch(queue);
  assert.deepEqual([fetched.jobtype, fetched.args], ["Resize", [640, 480]]);
  assert.deepEqual([fetched.retry, fetched.reserve_for], [3, 90]);
});

test("a bulk push takes the good jobs and names the bad one", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const jobs = Array.from({ length: 50 }, (_, n) => ({ jobtype: "echo", args: [n], queue }));
  jobs.push({ jid: "short", jobtype: "echo", args: [], queue });
  const rejected = await client.pushBulk(jobs);
  assert.deepEqual(Object.keys(rejected), ["short"]);
  assert.match(rejected.short.reason, /jid/);
  for (let n = 0; n < 50; n += 1) assert.deepEqual((await client.fetch(queue)).args, [n]);
  assert.equal(await client.fetch(queue), null);
});

test("a refused job is an error and the connection lives on", async (context) => {
  const [client, queue] = [connect(context, { poolSize: 1 }), unique("node")];
  await assert.rejects(push(client, queue, [], { jid: "tiny" }), /reasonable jid/);
  await push(client, queue, ["after"]);
  assert.deepEqual((await client.fetch(queue)).args, ["after"]);
});

test("unicode and control characters come back unchanged", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const text = 'Ünïcödé 日本語 🦀 \u0000 \t "quoted" \\ \u2028 \ud800';
  await push(client, queue, [text.toWellFormed?.() ?? text.slice(0, -1)]);
  assert.deepEqual((await client.fetch(queue)).args, [text.toWellFormed?.() ?? text.slice(0, -1)]);
});

test("a payload of one megabyte comes back whole", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const text = "0123456789abcdef".repeat(65_536);
  await push(client, queue, [text]);
  assert.equal((await client.fetch(queue)).args[0], text);
});

test("integers above 2^53 come back exactly", weirPromisesMore("they come back rounded", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const numbers = "[109326485893512345,-9007199254740993,18446744073709551615]";
  const jid = unique("jid");
  const job = `{"jid":"${jid}","jobtype":"echo","queue":"${queue}","retry":25,"args":${numbers}}`;
  assert.equal(await command(client, "PUSH", job), "OK");
  const fetched = await command(client, "FETCH", queue);
  assert.ok(fetched.includes(`"args":${numbers}`), fetched);
}));

test("the priority that this client sends is kept", weirPromisesMore("it is dropped", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  await push(client, queue, [], { priority: 7 });
  assert.equal((await client.fetch(queue)).priority, 7);
}));

test("a failed job waits in the retry set and comes back with its error", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const jid = await push(client, queue, ["x"]);
  await client.fetch(queue);
  await client.fail(jid, Object.assign(new Error("ünlucky"), { code: "EUNLUCKY" }));
  assert.equal(await client.fetch(queue), null);
  await client.retries.withJids(jid).requeue();
  const { failure } = await client.fetch(queue);
  assert.deepEqual([failure.errtype, failure.message], ["EUNLUCKY", "ünlucky"]);
  assert.ok(failure.backtrace.length > 0 && failure.backtrace.length <= 50);
});

test("retry -1 is dead on failure, retry 0 is thrown away", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const dead = await push(client, queue, ["dead"], { retry: -1 });
  const gone = await push(client, queue, ["gone"], { retry: 0 });
  for (const jid of [dead, gone]) {
    assert.equal((await client.fetch(queue)).jid, jid);
    await client.fail(jid, new Error("no"));
  }
  await client.retries.withJids(gone, dead).requeue();
  await client.dead.withJids(gone).requeue();
  assert.equal(await client.fetch(queue), null);
  await client.dead.withJids(dead).requeue();
  assert.equal((await client.fetch(queue)).jid, dead);
});

test("a scheduled job comes when it is due and not before", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  const due = new Date(Date.now() + 3_000);
  const job = client.job("echo", "later");
  job.queue = queue;
  job.at = due;
  await job.push();
  const fetched = await eventually(() => client.fetch(queue), "the scheduled job");
  assert.deepEqual(fetched.args, ["later"]);
  assert.ok(Date.now() >= due.getTime());
});

test("mutations move and discard by type, pattern and jid", async (context) => {
  const [client, queue, jobtype] = [connect(context), unique("node"), unique("type")];
  const at = new Date(Date.now() + 3_600_000).toISOString();
  const jids = [];
  for (const name of ["a", "b", "c"]) jids.push(await push(client, queue, [name], { jobtype, at }));
  await client.scheduled.withJids(jids[0]).requeue();
  assert.deepEqual((await client.fetch(queue)).args, ["a"]);
  await client.scheduled.matching(`*${jids[1]}*`).discard();
  await client.scheduled.ofType(jobtype).kill();
  await client.dead.ofType(jobtype).requeue();
  assert.deepEqual((await client.fetch(queue)).args, ["c"]);
  assert.equal(await client.fetch(queue), null);
});

test("a paused queue hands out nothing until it is resumed", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  await push(client, queue, ["waits"]);
  assert.equal(await command(client, "QUEUE", "PAUSE", queue), "OK");
  assert.equal(await client.fetch(queue), null);
  assert.equal(await command(client, "QUEUE", "RESUME", queue), "OK");
  assert.deepEqual((await client.fetch(queue)).args, ["waits"]);
});

test("info counts what is there, and the latency of a queue is a number", async (context) => {
  const [client, queue] = [connect(context), unique("node")];
  await push(client, queue, [1]);
  const info = await client.info();
  assert.equal(info.faktory.queues[queue], 1);
  assert.equal(typeof info.server.faktory_version, "string");
  const latency = JSON.parse(await command(client, "QUEUE", "LATENCY", queue, "no-such-queue"));
  assert.ok(latency[queue] >= 0 && latency[queue] < 60, JSON.stringify(latency));
  assert.equal(latency["no-such-queue"], 0);
});

test("the right password is let in and a wrong one is not", { skip: !passwordUrl }, async (context) => {
  const right = connect(context, { url: passwordUrl });
  assert.ok((await right.info()).faktory);
  const wrong = connect(context, { url: passwordUrl.replace("@", "x@") });
  await assert.rejects(wrong.connect(), /Invalid password/);
});
