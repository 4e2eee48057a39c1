//! Floods: a demo receives them as jobs of a queue of its own, so that anybody who reaches the job server can ask for one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::context::{JobSession, LoadContext};
use crate::faktory::{FaktoryConnection, FaktoryError};
use crate::traffic::{FLOOD_QUEUE, Flood, FloodRequest, WORKER_LABEL};

/// How long [`request`] waits for a demo to take the flood.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it looks.
const POLL: Duration = Duration::from_millis(100);
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
                context.begin(Flood::begin(request, context.clock.now()));
                connection.acknowledge(jid).await?;
            }
            None => connection.fail(jid, "this is no flood within the limits").await?,
        }
    }
}

/// What became of a request for a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodOutcome {
    Began,
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
    if rejected > 0 {
        return Err(FaktoryError::Rejected("it takes no jobs at present".to_owned()));
    }
    for _ in 0..ANSWER_TIMEOUT.as_millis() / POLL.as_millis() {
        if connection.state(&jid).await? == "success" {
            return Ok(FloodOutcome::Began);
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(FloodOutcome::NotTaken)
}
