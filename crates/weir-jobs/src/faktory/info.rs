//! INFO: the server's state, in the shape and with the types that strict clients expect.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::FaktoryError;
use super::replies::FaktoryReply;
use crate::model::SetName;
use crate::server::{JobService, memory};
use crate::stamp::rfc3339;
use crate::store::{Counts, Store};
use weir_base::clock::Timestamp;

/// The version of Faktory whose protocol is implemented; clients compare it.
const FAKTORY_VERSION: &str = "1.10.0";
/// Clients search the description for "Enterprise" to detect whether TRACK and BATCH are supported. Stores
/// with several servers have TRACK alone.
const DESCRIPTION: &str = "Weir (with the commands of Faktory Enterprise)";
const DESCRIPTION_WITHOUT_ENTERPRISE: &str = "Weir";

#[derive(Serialize)]
struct InfoReply<'a> {
    now: String,
    server_utc_time: String,
    faktory: Faktory<'a>,
    server: Server,
}

#[derive(Serialize)]
struct Faktory<'a> {
    queues: BTreeMap<&'a str, u64>,
    sets: Sets,
    tasks: TaskFigures,
    total_failures: u64,
    total_processed: u64,
    total_enqueued: u64,
    total_queues: u64,
}

#[derive(Serialize)]
struct Sets {
    scheduled: u64,
    retries: u64,
    dead: u64,
    working: u64,
}

/// Faktory's background tasks, which dashboards and clients' test suites read. Weir has one timer
/// for all sets and reservations, which runs exactly when something is due. Its passes are reported
/// as the cycles of each task.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TaskFigures {
    busy: Reaper,
    dead: Scanner,
    retries: Scanner,
    scheduled: Scanner,
    workers: Reaper,
}

#[derive(Serialize)]
struct Reaper {
    /// Removed since the start.
    reaped: u64,
    size: u64,
}

#[derive(Serialize)]
struct Scanner {
    cycles: u64,
    /// Jobs that were due: moved to their queues or, in the dead set, deleted.
    enqueued: u64,
    size: u64,
    wall_time_sec: f64,
}

#[derive(Serialize)]
struct Server {
    description: &'static str,
    faktory_version: &'static str,
    uptime: u64,
    connections: u64,
    command_count: u64,
    used_memory_mb: u64,
}

/// Runs `INFO`. Replies with bulk JSON.
pub(super) async fn info<S: Store>(service: &JobService<S>) -> Result<FaktoryReply, FaktoryError> {
    let now = service.clock.now();
    let counts = service.store.counts().await;
    let info = InfoReply {
        now: rfc3339(now),
        server_utc_time: utc_time(now),
        faktory: faktory(&counts, tasks(service, &counts)),
        server: Server {
            description: if service.store.capabilities().enterprise {
                DESCRIPTION
            } else {
                DESCRIPTION_WITHOUT_ENTERPRISE
            },
            faktory_version: FAKTORY_VERSION,
            uptime: now.since(service.started).as_secs(),
            connections: service.connections.len() as u64,
            command_count: service.commands_total.get(),
            used_memory_mb: memory::resident_bytes() >> 20,
        },
    };
    let json = serde_json::to_vec(&info).map_err(|error| FaktoryError::malformed("INFO", error))?;
    Ok(FaktoryReply::Bulk(json))
}

fn tasks<S: Store>(service: &JobService<S>, counts: &Counts) -> TaskFigures {
    let done = service.metrics.tasks();
    let scanner = |set, size| Scanner {
        cycles: done.passes(),
        enqueued: done.due(set),
        size,
        wall_time_sec: done.pass_time().as_secs_f64(),
    };
    TaskFigures {
        busy: Reaper { reaped: done.lapsed_reservations(), size: counts.reserved },
        dead: scanner(SetName::Dead, counts.dead),
        retries: scanner(SetName::Retries, counts.retries),
        scheduled: scanner(SetName::Scheduled, counts.scheduled),
        workers: Reaper {
            reaped: done.reaped_workers(),
            size: service.workers.borrow().len() as u64,
        },
    }
}

fn faktory(counts: &Counts, tasks: TaskFigures) -> Faktory<'_> {
    Faktory {
        queues: counts.queues.iter().map(|queue| (queue.name.as_str(), queue.depth)).collect(),
        sets: Sets {
            scheduled: counts.scheduled,
            retries: counts.retries,
            dead: counts.dead,
            working: counts.reserved,
        },
        tasks,
        total_failures: counts.failed_total,
        total_processed: counts.processed_total,
        total_enqueued: counts.queues.iter().map(|queue| queue.depth).sum(),
        total_queues: counts.queues.len() as u64,
    }
}

/// Formats a time as `15:04:05 UTC`.
fn utc_time(now: Timestamp) -> String {
    let second = now.as_millis() / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_day_is_utc() {
        assert_eq!(utc_time(Timestamp::from_millis(1_136_214_245_999)), "15:04:05 UTC");
    }
}
