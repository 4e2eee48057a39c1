//! Floods: a demo receives them as jobs of a queue of its own, so that anybody who reaches the job server can ask for one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::context::{JobSession, LoadContext};
use crate::faktory::{FaktoryConnection, FaktoryError};
use crate::traffic::{FLOOD_QUEUE, Flood, FloodRequest, WORKER_LABEL};

/// How long [`request`] waits for a demo to take the flood.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it looks.
const POLL: Duration = Duration::from_millis(100);
/// Precedes the seconds until the present flood ends.
const IN_PROGRESS: &str = "a flood is in progress; seconds left: ";
/// What a request that nothing took says when it is withdrawn.
const WITHDRAWN: &str = "withdrawn: no demo took it";
/// Time between two signs of life; the server expects one every 15 s.
const BEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Starts the worker that receives floods. It also sends the signs of life of all workers.
pub(crate) fn start(context: &Arc<LoadContext>) {
    let worker = Arc::clone(context);
    context.spawn(async move { worker.repeat(|| receive(&worker)).await });
}

async fn receive(context: &LoadContext) -> JobSession {
    let (address, wid) = (context.settings.jobs, &context.wid);
    let mut connection = FaktoryConnection::worker(address, wid, WORKER_LABEL).await?;
    connection.beat(wid).await?;
    let mut last_beat = tokio::time::Instant::now();
    loop {
        // A FETCH without a job ends after two seconds.
        let job = connection.fetch(FLOOD_QUEUE).await?;
        if last_beat.elapsed() >= BEAT_INTERVAL {
            connection.beat(wid).await?;
            last_beat = tokio::time::Instant::now();
        }
        let Some(job) = job else { continue };
        let jid = job["jid"].as_str().unwrap_or_default();
        match FloodRequest::from_job(&job) {
            Some(request) => {
                if let Err(present) = context.begin(Flood::begin(request, context.clock.now())) {
                    let left = present.until.since(context.clock.now()).as_secs();
                    connection.describe(jid, &in_progress(left)).await?;
                }
                // Not a failure: it would be in the dead set.
                connection.acknowledge(jid).await?;
            }
            None => connection.fail(jid, "this is no flood within the limits").await?,
        }
    }
}

/// What the worker says about a request that it does not follow: the seconds until the present flood ends.
fn in_progress(seconds_left: u64) -> String {
    format!("{IN_PROGRESS}{seconds_left}")
}

/// What became of a request for a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodOutcome {
    Began,
    /// There is a flood already.
    InProgress {
        seconds_left: u64,
    },
    /// No demo took it.
    NotTaken,
}

/// Asks the demo at this job server for a flood, and waits until it has begun. `expires_at` (RFC 3339): when the request is
/// dropped.
///
/// # Errors
/// The job server cannot be reached, or rejects the request.
pub async fn request(
    jobs: SocketAddr,
    flood: FloodRequest,
    expires_at: &str,
) -> Result<FloodOutcome, FaktoryError> {
    let jid = format!("demo-{:016x}", fastrand::u64(..));
    let mut connection = FaktoryConnection::producer(jobs).await?;
    let rejected = connection.push(&[flood.to_job(&jid, Some(expires_at))]).await?;
    if !rejected.is_empty() {
        return Err(FaktoryError::Rejected("it takes no jobs at present".to_owned()));
    }
    for _ in 0..ANSWER_TIMEOUT.as_millis() / POLL.as_millis() {
        if let Some(outcome) = outcome(&connection.track(&jid).await?) {
            return Ok(outcome);
        }
        tokio::time::sleep(POLL).await;
    }
    withdraw(jobs, &jid).await?;
    Ok(outcome(&connection.track(&jid).await?).unwrap_or(FloodOutcome::NotTaken))
}

/// Takes a request out of the queue, where it would wait for a demo for ever.
async fn withdraw(jobs: SocketAddr, jid: &str) -> Result<(), FaktoryError> {
    let mut connection = FaktoryConnection::worker(jobs, jid, WORKER_LABEL).await?;
    // The jobs before it are requests that nothing took either.
    while let Some(job) = connection.fetch(FLOOD_QUEUE).await? {
        let found = job["jid"].as_str().unwrap_or_default();
        connection.describe(found, WITHDRAWN).await?;
        connection.acknowledge(found).await?;
        if found == jid {
            break;
        }
    }
    Ok(())
}

/// Reads what has become of a request. None: nothing has taken it yet.
fn outcome(track: &Value) -> Option<FloodOutcome> {
    let description = track["desc"].as_str().unwrap_or_default();
    let left = description.strip_prefix(IN_PROGRESS).and_then(|left| left.parse().ok());
    (track["state"] == "success").then_some(match left {
        Some(seconds_left) => FloodOutcome::InProgress { seconds_left },
        None if description == WITHDRAWN => FloodOutcome::NotTaken,
        None => FloodOutcome::Began,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requester_learns_what_became_of_the_request() {
        let told = |desc: &str| outcome(&json!({ "state": "success", "desc": desc })).unwrap();
        assert_eq!(told(""), FloodOutcome::Began);
        assert_eq!(told(&in_progress(41)), FloodOutcome::InProgress { seconds_left: 41 });
        assert_eq!(told(WITHDRAWN), FloodOutcome::NotTaken);
        assert_eq!(outcome(&json!({ "state": "working", "desc": "" })), None);
    }
}
