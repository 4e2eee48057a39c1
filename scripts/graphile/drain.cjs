// Fills Graphile Worker's queue with no-op jobs (`fill`), or drains it with one worker and prints the seconds and CPU
// seconds as JSON (`drain`).
//
//     NODE_PATH=FOLDER/node_modules node drain.cjs fill|drain POSTGRES_URL JOBS BYTES CONCURRENCY
//
// The options are those of its page on performance, with a local queue of 500 jobs and batched completion.
const { Logger, makeWorkerUtils, run } = require("graphile-worker");

const PER_CALL = 10_000;
const [mode, connectionString, jobs, bytes, concurrency] = process.argv.slice(2);
const total = Number(jobs);
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const seconds = (start) => Number(process.hrtime.bigint() - start) / 1e9;
const cpuSeconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

async function fill() {
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  const payload = { padding: "x".repeat(Math.max(Number(bytes) - 15, 0)) };
  for (let start = 0; start < total; start += PER_CALL) {
    const count = Math.min(PER_CALL, total - start);
    await utils.addJobs(Array.from({ length: count }, () => ({ identifier: "noop", payload })));
  }
  await utils.release();
}

async function drain() {
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => { finish = resolve; });
  const start = process.hrtime.bigint();
  const cpu = cpuSeconds();
  const runner = await run({
    preset: {
      worker: {
        connectionString, logger, concurrentJobs: Number(concurrency), maxPoolSize: Number(concurrency) + 1,
        localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
      },
    },
    taskList: { noop: async () => { done += 1; if (done === total) finish(); } },
  });
  await finished;
  // Jobs count when their completion is in the database.
  await runner.stop();
  console.log(JSON.stringify({ seconds: seconds(start), client_cpu_seconds: cpuSeconds() - cpu }));
}

(mode === "fill" ? fill() : drain()).catch((error) => {
  console.error(error);
  process.exit(1);
});
