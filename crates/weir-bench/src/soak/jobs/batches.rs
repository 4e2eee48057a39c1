//! Creates a batch of jobs now and then. Its callback must run exactly as often as workers are given it once: one job.

use std::sync::Arc;

use serde_json::json;

use super::ledger::Ledger;
use super::producer::{Client, RESERVE_FOR_SECONDS};
use super::{BATCH_QUEUE, CALLBACK_QUEUE, CALLBACK_TYPE, JOB_TYPE, JobId};
use crate::clock::monotonic;
use crate::soak::pace::Pace;
use crate::soak::shared::Shared;

const BATCHES_PER_SECOND: f64 = 0.5;
const JOBS_PER_BATCH: usize = 5;

/// Creates batches until the load is over.
pub(in crate::soak) fn run(shared: &Arc<Shared>, ledger: &Ledger) {
    let producer = ledger.add_producer(false);
    let mut client = Client::new(shared, producer);
    let mut pace = Pace::per_second(BATCHES_PER_SECOND);
    while pace.wait(shared) {
        let batch = ledger.begin_batch();
        let mut jobs = Vec::new();
        let is_committed = create(ledger, &mut client, (producer, batch), &mut jobs).is_some();
        ledger.end_batch(batch, jobs, is_committed);
    }
}

/// Returns `None` if any of the commands had no reply.
fn create(
    ledger: &Ledger,
    client: &mut Client,
    (producer, batch): (usize, usize),
    jobs: &mut Vec<JobId>,
) -> Option<()> {
    let callback = json!({
        "jobtype": CALLBACK_TYPE,
        "queue": CALLBACK_QUEUE,
        "reserve_for": RESERVE_FOR_SECONDS,
        "args": [batch],
    });
    let definition = json!({ "description": "soak", "success": callback });
    let bid = client.command(&format!("BATCH NEW {definition}"))?;
    let bid = String::from_utf8_lossy(&bid).into_owned();
    for number in 0..JOBS_PER_BATCH {
        let id = ledger.begin_push(producer, monotonic());
        let job = json!({
            "jid": id.jid(),
            "jobtype": JOB_TYPE,
            "queue": BATCH_QUEUE,
            "reserve_for": RESERVE_FOR_SECONDS,
            "args": [number, 0, false],
            "custom": { "bid": bid },
        });
        let outcome = client.command(&format!("PUSH {job}"));
        ledger.end_push(id, outcome.is_some(), monotonic());
        outcome?;
        jobs.push(id);
    }
    client.command(&format!("BATCH COMMIT {bid}")).map(drop)
}
