//! The workers of this node as processes in Sidekiq's pages, and what operators ask of them there.

use std::rc::Rc;

use redis::{Pipeline, Value};
use weir_base::clock::Timestamp;
use weir_jobs::model::{Wid, WorkerDirective, WorkerEnd};
use weir_jobs::node::NodeReport;
use weir_jobs::store::{StoreError, WorkerReport};

use super::link_connection::LinkConnection;
use super::seconds;
use super::store_core::StoreCore;
use super::stored::derived_hash;

/// A process without a report for this long vanishes from the pages, as Sidekiq's own do.
const REPORT_KEPT_SECONDS: i64 = 60;
/// The tag of Weir's workers, which distinguishes them from Sidekiq's processes.
pub(super) const TAG: &str = "weir";
/// Hexadecimal digits at the end of an identity.
const NONCE_DIGITS: usize = 12;
/// Jobs of one worker that are shown.
const SHOWN_JOBS_MAX: usize = 1_000;

impl StoreCore {
    /// Reports this node, and its workers as Sidekiq's processes do. Returns what an operator asks of
    /// the workers.
    pub(super) async fn exchange_reports(
        self: &Rc<Self>,
        node: NodeReport,
        workers: Vec<WorkerReport>,
    ) -> Result<Vec<(Wid, WorkerDirective)>, StoreError> {
        let mut connection = self.ready().await?;
        self.exchange_nodes(&mut connection, node).await?;
        self.release_adopted(&workers).await?;
        let mut directives = Vec::new();
        for worker in workers {
            let directive = self.report_worker(&mut connection, &worker).await?;
            directives.extend(directive.map(|directive| (worker.wid.clone(), directive)));
        }
        Ok(directives)
    }

    /// Releases the jobs of adopted workers that did not connect within `heartbeat_timeout`.
    async fn release_adopted(
        self: &Rc<Self>,
        connected: &[WorkerReport],
    ) -> Result<(), StoreError> {
        let now = self.now();
        let (overdue, last) = {
            let mut state = self.state.borrow_mut();
            let overdue = state.adopted_workers.overdue(connected, now);
            (overdue, state.reservations.last_arrival())
        };
        for wid in overdue {
            let jobs = self.release(&wid, last, WorkerEnd::Stopped).await?;
            self.state.borrow_mut().adopted_workers.remove(&wid);
            tracing::warn!(%wid, jobs, "worker did not return: its jobs are waiting again");
        }
        Ok(())
    }

    async fn report_worker(
        &self,
        connection: &mut LinkConnection,
        worker: &WorkerReport,
    ) -> Result<Option<WorkerDirective>, StoreError> {
        let identity = identity(worker);
        let key = self.keys.process(&identity);
        let mut pipeline = Pipeline::new();
        // A key of another type takes away what it shows, and no directive.
        pipeline.ignore_errors();
        if !self.is_split() {
            pipeline.atomic();
        }
        pipeline.sadd(self.keys.processes(), &identity).ignore();
        pipeline.cmd("HSET").arg(&key);
        pipeline.arg("info").arg(info(worker, &identity)).arg("busy").arg(worker.busy);
        pipeline.arg("concurrency").arg(worker.busy.max(1)).arg("rss").arg(worker.rss_kb);
        pipeline.arg("beat").arg(seconds::text(self.now())).arg("rtt_us").arg(0);
        pipeline.arg("quiet").arg(worker.quiet.to_string()).ignore();
        pipeline.expire(&key, REPORT_KEPT_SECONDS).ignore();
        let work = self.work(&worker.wid);
        // Sidekiq 7 and later read the first key, earlier versions the second.
        for name in [format!("{key}:work"), format!("{key}:workers")] {
            pipeline.del(&name).ignore();
            for (thread, job) in &work {
                pipeline.hset(&name, thread, job).ignore();
            }
            if !work.is_empty() {
                pipeline.expire(&name, REPORT_KEPT_SECONDS).ignore();
            }
        }
        pipeline.cmd("RPOP").arg(format!("{key}-signals"));
        let reply = pipeline.query_async(connection).await;
        let (signal,): (Value,) = reply.map_err(|error| self.link.failed(&error))?;
        Ok(match signal {
            Value::BulkString(signal) if signal == b"TSTP" => Some(WorkerDirective::Quiet),
            Value::BulkString(signal) if signal == b"TERM" => Some(WorkerDirective::Terminate),
            _ => None,
        })
    }

    /// Returns the jobs of a worker as the threads of a process that run them.
    fn work(&self, wid: &Wid) -> Vec<(String, String)> {
        let state = self.state.borrow();
        let held = state.reservations.held_until(wid, u64::MAX);
        let jobs = held.take(SHOWN_JOBS_MAX).filter_map(|(number, job)| {
            let work = serde_json::json!({
                "queue": job.queue.as_str(),
                "payload": std::str::from_utf8(&job.payload).ok()?,
                "run_at": job.since.as_micros() / 1_000_000,
            });
            Some((format!("{number:x}"), work.to_string()))
        });
        jobs.collect()
    }
}

/// Returns `host:pid:nonce`. The nonce is the same for each report of one worker.
fn identity(worker: &WorkerReport) -> String {
    let nonce = format!("{:016x}", derived_hash(worker.wid.as_str().as_bytes()));
    let hostname = if worker.hostname.is_empty() { "unknown" } else { &worker.hostname };
    format!("{hostname}:{}:{}", worker.pid, &nonce[..NONCE_DIGITS])
}

fn info(worker: &WorkerReport, identity: &str) -> String {
    let queues: Vec<&str> = worker.queues.iter().map(|queue| queue.as_str()).collect();
    serde_json::json!({
        "hostname": worker.hostname,
        "started_at": started(worker.started),
        "pid": worker.pid,
        "tag": TAG,
        "concurrency": worker.busy.max(1),
        "queues": queues,
        "labels": worker.labels,
        "identity": identity,
    })
    .to_string()
}

fn started(time: Timestamp) -> f64 {
    time.as_secs_f64()
}
