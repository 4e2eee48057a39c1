//! A slot: a connection that fetches a job, waits for as long as it runs, and acknowledges it.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::load::{Load, QUEUE, between, enqueued_at, number_of};
use crate::clock::{micros_of_day, monotonic};
use crate::jobs::connect::Control;

/// Each thread only waits.
const STACK_BYTES: usize = 128 * 1024;

/// The time of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    /// On the monotonic clock.
    pub(super) start: Duration,
    pub(super) length: Duration,
}

impl Run {
    pub(super) fn elapsed(self) -> Duration {
        monotonic().saturating_sub(self.start)
    }

    /// Sleeps until a time of the run, or until its end.
    pub(super) fn sleep_until(self, at: Duration) {
        std::thread::sleep(at.min(self.length).saturating_sub(self.elapsed()));
    }
}

/// A job that was fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) number: u64,
    pub(super) wait: Duration,
    /// Since the start of the run; the end at the latest that of the run.
    pub(super) began: Duration,
    pub(super) ended: Duration,
}

pub(super) fn start(
    mut server: Control,
    load: Arc<Load>,
    run: Run,
    failures: Sender<anyhow::Error>,
) -> Result<JoinHandle<Vec<Served>>> {
    let work = move || {
        let mut served = Vec::new();
        if let Err(error) = work(&mut server, &load, run, &mut served) {
            // The run may be over.
            let _ = failures.send(error);
        }
        served
    };
    Ok(std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work)?)
}

fn work(server: &mut Control, load: &Load, run: Run, served: &mut Vec<Served>) -> Result<()> {
    let fetch = format!("FETCH {QUEUE}");
    while run.elapsed() < run.length {
        let job = server.command(&fetch)?;
        if job.is_empty() {
            continue;
        }
        let (began, now) = (run.elapsed(), micros_of_day());
        let number = number_of(&job)?;
        let wait = between(enqueued_at(&job)?, now);
        run.sleep_until(began + load.service(number));
        served.push(Served { number, wait, began, ended: run.elapsed() });
        if run.elapsed() < run.length {
            let reply = server.command(&format!("ACK {{\"jid\":\"tenants-{number:012}\"}}"))?;
            ensure!(reply == b"OK", "ACK: {}", String::from_utf8_lossy(&reply));
        }
    }
    Ok(())
}
