//! Pushes jobs, and runs them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weir_base::clock::Timestamp;

use crate::context::{JobSession, LoadContext, Ticks};
use crate::faktory::FaktoryConnection;
use crate::flood_jobs::FloodJobs;
use crate::traffic::{JOBS, JobKind, Pace, TENANTS, WORKER_LABEL, WORKERS, tenant_rates};

/// The most jobs of one push.
const BATCH_MAX: usize = 200;
/// Queue whose jobs belong to tenants.
const TENANT_QUEUE: &str = "imports";

/// Starts the producer and the workers.
pub(crate) fn start(context: &Arc<LoadContext>) {
    let producer = Arc::clone(context);
    context.spawn(async move { producer.repeat(|| produce(&producer)).await });
    for _ in 0..WORKERS {
        let worker = Arc::clone(context);
        context.spawn(async move { worker.repeat(|| work(&worker)).await });
    }
}

/// One flow of jobs: a kind, or a tenant's part of it.
struct Flow {
    kind: JobKind,
    /// A position in [`TENANTS`].
    tenant: Option<usize>,
    pace: Pace,
}

impl Flow {
    fn all() -> Vec<Self> {
        let flow = |kind, tenant| Self { kind, tenant, pace: Pace::default() };
        let of_kind = |kind: JobKind| {
            let tenants = (0..TENANTS.len()).map(move |tenant| flow(kind, Some(tenant)));
            if kind.queue == TENANT_QUEUE { tenants.collect() } else { vec![flow(kind, None)] }
        };
        JOBS.into_iter().flat_map(of_kind).collect()
    }

    fn due(&mut self, factor: f64, elapsed: Duration) -> usize {
        let per_second = self.kind.per_second;
        let rate = match self.tenant {
            Some(tenant) => tenant_rates(per_second, factor)[tenant],
            None => per_second * factor,
        };
        self.pace.due(rate, elapsed)
    }

    /// `number`: that of a job of a flood.
    fn job(&self, now: Timestamp, number: Option<u64>) -> Value {
        let JobKind { queue, jobtype, .. } = self.kind;
        let jid = format!("demo-{:016x}", fastrand::u64(..));
        let tenant = self.tenant.map(|tenant| TENANTS[tenant]);
        let args = json!([{ "at": now.as_micros(), "tenant": tenant, "flood": number }]);
        json!({ "jid": jid, "jobtype": jobtype, "queue": queue, "args": args, "retry": 3 })
    }
}

async fn produce(context: &LoadContext) -> JobSession {
    let mut connection = FaktoryConnection::producer(context.settings.jobs).await?;
    let mut flows = Flow::all();
    let mut ticks = Ticks::new();
    loop {
        let elapsed = ticks.next().await;
        let jobs = due_jobs(context, &mut flows, elapsed);
        let mut batches = jobs.chunks(BATCH_MAX);
        while let Some(batch) = batches.next() {
            let result = push(context, &mut connection, batch).await;
            if result.is_err() {
                let unacknowledged = batch.iter().chain(batches.flatten());
                unacknowledged.for_each(|job| forget(context, job));
                return result;
            }
        }
    }
}

/// Returns the jobs that are to be pushed now.
fn due_jobs(context: &LoadContext, flows: &mut [Flow], elapsed: Duration) -> Vec<Value> {
    let (factor, now) = (context.factor(), context.clock.now());
    let number = || (factor > 1.0).then(|| context.flood_jobs(FloodJobs::add));
    let mut jobs = Vec::new();
    for flow in flows {
        let due = flow.due(factor, elapsed);
        jobs.extend((0..due).map(|_| flow.job(now, number())));
    }
    jobs
}

async fn push(
    context: &LoadContext,
    connection: &mut FaktoryConnection,
    batch: &[Value],
) -> JobSession {
    let rejected = connection.push(batch).await?;
    let is_rejected = |job: &&Value| rejected.iter().any(|jid| job["jid"] == jid.as_str());
    batch.iter().filter(is_rejected).for_each(|job| forget(context, job));
    context.meter.record(|counts| {
        counts.pushed += (batch.len() - rejected.len()) as u64;
        counts.push_rejected += rejected.len() as u64;
    });
    Ok(())
}

/// The server has not acknowledged this job.
fn forget(context: &LoadContext, job: &Value) {
    if let Some(number) = job["args"][0]["flood"].as_u64() {
        context.flood_jobs(|jobs| jobs.on_unacknowledged(number));
    }
}

async fn work(context: &LoadContext) -> JobSession {
    let address = context.settings.jobs;
    let mut connection = FaktoryConnection::worker(address, &context.wid, WORKER_LABEL).await?;
    let queues = JOBS.map(|kind| kind.queue).join(" ");
    loop {
        let Some(job) = connection.fetch(&queues).await? else { continue };
        let kind = JOBS.into_iter().find(|kind| job["jobtype"] == kind.jobtype);
        let (jid, kind) = (job["jid"].as_str().unwrap_or_default(), kind.unwrap_or(JOBS[0]));
        record_wait(context, kind, &job);
        tokio::time::sleep(kind.run_time).await;
        if fastrand::u32(..1_000) < kind.failures_per_mille {
            connection.fail(jid, "the demo fails some of its jobs").await?;
            context.meter.record(|counts| counts.failed += 1);
        } else {
            connection.acknowledge(jid).await?;
            context.meter.record(|counts| counts.done += 1);
        }
    }
}

/// Records how long a job waited. Retries do not count: they wait for their time.
fn record_wait(context: &LoadContext, kind: JobKind, job: &Value) {
    let arguments = &job["args"][0];
    if let Some(number) = arguments["flood"].as_u64() {
        context.flood_jobs(|jobs| jobs.on_started(number));
    }
    let Some(at) = arguments["at"].as_u64().filter(|_| job["failure"].is_null()) else { return };
    let waited = context.clock.now().since(Timestamp::from_micros(at));
    let tenant = TENANTS.into_iter().find(|tenant| arguments["tenant"] == *tenant);
    context.meter.record_wait(kind.queue, tenant, waited);
}
