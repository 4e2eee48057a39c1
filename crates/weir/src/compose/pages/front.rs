//! The front's apps as the console shows them: the rows of the admin API, and its orders.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use weir_console::front::{App, Order, Refused, Worker};
use weir_front::view::TotalsView;

use crate::workers_admin::{self, AppRow, JOBS, WorkerRow};

/// The apps, and the way to steer them.
#[derive(Debug)]
pub(super) struct Operated(pub(super) workers_admin::Front);

fn order(order: Order) -> workers_admin::Order {
    match order {
        Order::Restart { app, worker } => workers_admin::Order::Restart { app, worker },
        Order::Scale { app, processes } => workers_admin::Order::Scale { app, processes },
        Order::Dump { app, worker } => workers_admin::Order::Signal { app, worker, signal: None },
        Order::Pause { app } => workers_admin::Order::Pause { app },
        Order::Resume { app } => workers_admin::Order::Resume { app },
        Order::Maintenance { app, is_on } => workers_admin::Order::Maintenance { app, is_on },
    }
}

impl weir_console::front::Operated for Operated {
    fn apps(&self) -> Vec<App> {
        let rows = self.0.rows().into_iter();
        rows.map(|row| App { can_dump: self.0.can_dump(&row.0.name), ..app(row) }).collect()
    }

    fn follow(&self, wanted: Order) -> Pin<Box<dyn Future<Output = Result<(), Refused>> + Send>> {
        let (front, order) = (self.0.clone(), order(wanted));
        Box::pin(async move {
            let followed = front.follow(order).await;
            followed.map_err(|problem| Refused(problem.text()))
        })
    }
}

fn app((row, totals): (AppRow, TotalsView)) -> App {
    let selection = row.selection.unwrap_or_default();
    let shared_sockets = row.listen.map(|listen| format!("{listen}, selection {selection}"));
    let is_shared = shared_sockets.is_some();
    App {
        name: row.name,
        runs_jobs: row.mode == JOBS,
        shared_sockets,
        can_dump: false,
        processes: row.processes,
        requests_waiting: row.requests_waiting,
        is_paused: row.is_paused,
        is_overloaded: row.is_overloaded,
        is_in_maintenance: row.is_in_maintenance,
        shedding: row.shedding,
        rolling: row.rolling,
        evictions: row.evictions,
        totals,
        workers: row.workers.into_iter().map(|row| worker(row, is_shared)).collect(),
    }
}

/// `is_shared`: others listen where it does, so that its address does not tell it from them.
fn worker(row: WorkerRow, is_shared: bool) -> Worker {
    let pid = row.pid.filter(|_| is_shared).map(|pid| format!(", pid {pid}")).unwrap_or_default();
    Worker {
        number: row.worker,
        pid: row.pid,
        address: row.address.map(|address| address + &pid),
        state: row.state,
        age: row.age_seconds.map(Duration::from_secs_f64),
        requests: row.requests,
        streams: row.streams,
        given: row.given,
        waited: row.waited_seconds.map(Duration::from_secs_f64).unwrap_or_default(),
        oldest_request: row.oldest_request_seconds.map(Duration::from_secs_f64),
        pss_bytes: row.pss_bytes,
        recycled: row.recycled,
        restarts: row.restarts,
        problem: row.problem,
    }
}
