//! Signs of life: the service reports to its parent while every part responds, and logs the parts
//! that do not.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use weir_supervisor::inherited::{ChildStatus, Status};

use crate::compose::Weir;

/// Sends a sign of life per interval if all parts respond.
#[derive(Debug)]
pub(crate) struct Alive {
    status: Status,
    interval: Duration,
    ticks: Interval,
    /// The parts that did not respond the last time.
    silent: Vec<String>,
}

impl Alive {
    /// Creates the state; no part was checked yet.
    pub(crate) fn new(status: Status, interval: Duration) -> Self {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { status, interval, ticks, silent: Vec::new() }
    }

    /// Sends another status to the parent.
    pub(crate) fn report(&self, status: ChildStatus) {
        self.status.report(status);
    }

    /// Resolves when the next check is due.
    pub(crate) async fn due(&mut self) {
        self.ticks.tick().await;
    }

    /// Checks every part of `weir`, and reports.
    pub(crate) async fn tell(&mut self, weir: &Weir) {
        let silent = weir.silent(self.interval).await;
        if silent.is_empty() {
            self.status.report(ChildStatus::Alive);
        }
        let names = |silent: &[String]| silent.join(", ");
        let seconds = self.interval.as_secs_f64();
        match (self.silent.is_empty(), silent.is_empty()) {
            (_, false) if silent != self.silent => {
                tracing::error!(silent = names(&silent), "no response within {seconds} s");
            }
            (false, true) => tracing::warn!(silent = names(&self.silent), "all respond again"),
            _ => {}
        }
        self.silent = silent;
    }

    /// Sends signs of life until `end` resolves, without checks: parts that end no longer respond.
    pub(crate) async fn until<T>(mut self, end: impl Future<Output = T>) -> T {
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                output = &mut end => return output,
                _ = self.ticks.tick() => self.status.report(ChildStatus::Alive),
            }
        }
    }
}
