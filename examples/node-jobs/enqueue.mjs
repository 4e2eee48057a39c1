// Pushes jobs and follows one of them: node enqueue.mjs
import faktory from "faktory-worker";
import { follow, pushBatch } from "./server.mjs";

const client = await faktory.connect();

// A job whose progress is read below. Jobs of the queue "urgent" run before others: the worker fetches from it first.
const resize = client.job("resize", "cat.png");
resize.queue = "urgent";
resize.custom = { track: true };
await resize.push();

// A job for later.
const mail = client.job("mail", { to: "ada@example.com" });
mail.queue = "mail";
mail.at = new Date(Date.now() + 1000);
await mail.push();

// A job that fails: Weir keeps it in the dead set at once (retry -1), or tries again with growing delays (25 times by default).
const charge = client.job("charge", 7);
charge.retry = -1;
await charge.push();

// Only one of equal jobs, until it has succeeded or an hour has passed.
const unique = { jobtype: "cleanup", args: [{ days: 90 }], queue: "default", custom: { unique_for: 3600 }, at: new Date(Date.now() + 60_000) };
for (let attempt = 1; attempt <= 2; attempt += 1) {
  await client.push(unique).catch((error) => console.log(`push ${attempt}: ${error.message}`));
}

// A batch: "album" runs when all of its jobs have succeeded.
const pictures = ["one.png", "two.png", "three.png"].map((image) => ({ jobtype: "resize", args: [image], queue: "default" }));
await pushBatch(client, pictures, { jobtype: "album", args: ["summer"], queue: "default" });

await follow(client, resize.jid, (line) => console.log(line));
await client.close();
