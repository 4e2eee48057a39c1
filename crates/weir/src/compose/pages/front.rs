//! The front's apps for the console: the rows of the admin API, and its commands.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use weir_console::front::{AppCommand, AppCommandError, AppControl, FrontApp, FrontWorker};
use weir_front::view::TotalsView;

use weir_admin::workers::{self, AppRow, JOBS, WorkerRow};

/// Reads and controls the apps for the console.
#[derive(Debug)]
pub(super) struct ConsoleApps(pub(super) workers::Front);

fn order(command: AppCommand) -> workers::Order {
    match command {
        AppCommand::Restart { app, worker } => workers::Order::Restart { app, worker },
        AppCommand::Scale { app, processes } => workers::Order::Scale { app, processes },
        AppCommand::Dump { app, worker } => workers::Order::Signal { app, worker, signal: None },
        AppCommand::Pause { app } => workers::Order::Pause { app },
        AppCommand::Resume { app } => workers::Order::Resume { app },
        AppCommand::Maintenance { app, is_on } => workers::Order::Maintenance { app, is_on },
    }
}

impl AppControl for ConsoleApps {
    fn apps(&self) -> Vec<FrontApp> {
        let rows = self.0.rows().into_iter();
        rows.map(|row| FrontApp { can_dump: self.0.can_dump(&row.0.name), ..app(row) }).collect()
    }

    fn execute(
        &self,
        command: AppCommand,
    ) -> Pin<Box<dyn Future<Output = Result<(), AppCommandError>> + Send>> {
        let (front, order) = (self.0.clone(), order(command));
        Box::pin(async move {
            let followed = front.follow(order).await;
            followed.map_err(|problem| AppCommandError(problem.text()))
        })
    }
}

fn app((row, totals): (AppRow, TotalsView)) -> FrontApp {
    let selection = row.selection.unwrap_or_default();
    let shared_sockets = row.listen.map(|listen| format!("{listen}, selection {selection}"));
    let is_shared = shared_sockets.is_some();
    FrontApp {
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

/// Converts a row. `is_shared`: several workers share the address, so the pid is added to it.
fn worker(row: WorkerRow, is_shared: bool) -> FrontWorker {
    let pid = row.pid.filter(|_| is_shared).map(|pid| format!(", pid {pid}")).unwrap_or_default();
    FrontWorker {
        number: row.worker,
        pid: row.pid,
        address: row.address.map(|address| address + &pid),
        state: row.state,
        age: row.age_seconds.map(Duration::from_secs_f64),
        requests: row.requests,
        streams: row.streams,
        assigned: row.given,
        waited: row.waited_seconds.map(Duration::from_secs_f64).unwrap_or_default(),
        oldest_request: row.oldest_request_seconds.map(Duration::from_secs_f64),
        pss_bytes: row.pss_bytes,
        recycled: row.recycled,
        restarts: row.restarts,
        problem: row.problem,
    }
}
