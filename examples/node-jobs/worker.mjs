// Runs jobs: node worker.mjs
import { setTimeout as delay } from "node:timers/promises";
import faktory from "faktory-worker";
import { reportProgress } from "./server.mjs";

const worker = new faktory.Worker({ queues: ["urgent", "default", "mail"], concurrency: 10 });

// A function that returns a function receives the job, and a signal to abort when the worker stops.
worker.register("resize", (image) => async ({ job, signal }) => {
  for (const [number, size] of ["small", "medium", "large"].entries()) {
    await reportProgress(worker.client, job.jid, Math.round((number * 100) / 3), `${image}: ${size}`);
    await delay(500, undefined, { signal });
  }
});
worker.register("mail", ({ to }) => console.log(`mail to ${to}`));
worker.register("cleanup", ({ days }) => console.log(`cleanup of what is older than ${days} days`));
worker.register("charge", (order) => {
  throw Object.assign(new Error(`order ${order}: card rejected`), { code: "CARD_REJECTED" });
});
worker.register("album", (name) => console.log(`album ${name} is complete`));

worker.on("fail", ({ job, error }) => console.log(`failed: ${job.jobtype}: ${error.message}`));
await worker.work();
console.log("worker is ready");
