//! The front's apps for the console: the rows of the admin API, and its commands.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use weir_console::front::{AppCommand, AppCommandError, AppControl, FrontApp, FrontWorker};
use weir_front::view::TotalsView;

use weir_admin::workers::{self, AppRow, JOBS, Override, WorkerRow};

/// Reads and controls the apps for the console.
#[derive(Debug)]
pub(super) struct ConsoleApps(pub(super) workers::Front);

fn operator_command(command: AppCommand) -> workers::OperatorCommand {
    match command {
        AppCommand::Restart { app, worker } => workers::OperatorCommand::Restart { app, worker },
        AppCommand::Scale { app, processes } => workers::OperatorCommand::Scale { app, processes },
        AppCommand::Dump { app, worker } => {
            workers::OperatorCommand::Signal { app, worker, signal: None }
        }
        AppCommand::Pause { app } => workers::OperatorCommand::Pause { app },
        AppCommand::Resume { app } => workers::OperatorCommand::Resume { app },
        AppCommand::Maintenance { app, is_on } => {
            workers::OperatorCommand::Maintenance { app, is_on }
        }
    }
}

impl AppControl for ConsoleApps {
    fn apps(&self) -> Vec<FrontApp> {
        let rows = self.0.rows().into_iter();
        rows.map(|row| FrontApp { can_dump: self.0.can_dump(&row.0.name), ..front_app(row) })
            .collect()
    }

    fn execute(
        &self,
        command: AppCommand,
    ) -> Pin<Box<dyn Future<Output = Result<(), AppCommandError>> + Send>> {
        let (front, operator_command) = (self.0.clone(), operator_command(command));
        Box::pin(async move {
            let outcome = front.execute(operator_command).await;
            outcome.map(drop).map_err(|error| AppCommandError(error.text()))
        })
    }
}

fn front_app((row, totals): (AppRow, TotalsView)) -> FrontApp {
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
        shed_unknown: row.shed_unknown,
        rolling: row.rolling,
        overridden: row.values.and_then(|values| values.set).map(|set| describe(&set)),
        evictions: row.evictions,
        totals,
        workers: row.workers.into_iter().map(|row| front_worker(row, is_shared)).collect(),
    }
}

/// Describes an override: `processes 3, threads 15 by ann: mailers are late`.
fn describe(set: &Override) -> String {
    let processes = set.processes.map(|processes| format!("processes {processes}"));
    let threads = set.threads.map(|threads| format!("threads {threads}"));
    let queues = set.queues.as_ref().map(|queues| format!("queues {}", queues.join(" ")));
    let values: Vec<String> = [processes, threads, queues].into_iter().flatten().collect();
    let reason = match set.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    format!("{} by {}{reason}", values.join(", "), set.by)
}

/// Converts a row. `is_shared`: several workers share the address, so the pid is added to it.
fn front_worker(row: WorkerRow, is_shared: bool) -> FrontWorker {
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
