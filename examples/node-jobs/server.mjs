// Commands of Weir for which faktory-worker has no methods: progress and batches.

/** Reports the progress of a job that was pushed with custom.track: a percentage, and words. */
export const reportProgress = (client, jid, percent, desc = "") =>
  client.send(["TRACK", "SET", JSON.stringify({ jid, percent, desc })]);

/** The state of a job that was pushed with custom.track: `{ state, percent, desc, updated_at }`. */
export const readProgress = async (client, jid) => JSON.parse(await client.send(["TRACK", "GET", jid]));

/** Calls back with each state and progress of a job until it has succeeded or is dead. Resolves to its last state. */
export async function follow(client, jid, callback, interval = 200) {
  let last = "";
  for (;;) {
    const { state, percent, desc } = await readProgress(client, jid);
    const line = [state, percent === undefined ? "" : `${percent} %`, desc ?? ""].join(" ").trim();
    if (line !== last) callback(line);
    last = line;
    if (["success", "dead", "unknown"].includes(state)) return state;
    await new Promise((resolve) => setTimeout(resolve, interval));
  }
}

/** Pushes jobs as a batch; `success` is the job that Weir enqueues once all of them have succeeded. Resolves to its id. */
export async function pushBatch(client, jobs, success) {
  const bid = await client.send(["BATCH", "NEW", JSON.stringify({ success })]);
  const rejected = await client.pushBulk(jobs.map((job) => ({ ...job, custom: { ...job.custom, bid } })));
  for (const { reason } of Object.values(rejected)) throw new Error(reason);
  await client.send(["BATCH", "COMMIT", bid]);
  return bid;
}
