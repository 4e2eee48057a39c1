//! Signs of life: the service reports to its parent while every part responds, and logs the parts
//! that do not.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use weir_supervisor::inherited::{ChildStatus, Status};

use crate::compose::Weir;

/// Sends a sign of life per interval if all parts respond.
#[derive(Debug)]
pub(crate) struct HealthReporter {
    status: Status,
    interval: Duration,
    ticks: Interval,
    /// The parts that did not respond the last time.
    unresponsive: Vec<String>,
}

impl HealthReporter {
    /// Creates the state; no part was checked yet.
    pub(crate) fn new(status: Status, interval: Duration) -> Self {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { status, interval, ticks, unresponsive: Vec::new() }
    }

    /// Sends another status to the parent.
    pub(crate) fn send(&self, message: ChildStatus) {
        self.status.report(message);
    }

    /// Resolves when the next check is due.
    pub(crate) async fn next_tick(&mut self) {
        self.ticks.tick().await;
    }

    /// Checks every part of `weir`, and reports.
    pub(crate) async fn check(&mut self, weir: &Weir) {
        let unresponsive = weir.unresponsive_parts(self.interval).await;
        if unresponsive.is_empty() {
            self.status.report(ChildStatus::Alive);
        }
        let names = |unresponsive: &[String]| unresponsive.join(", ");
        let seconds = self.interval.as_secs_f64();
        match (self.unresponsive.is_empty(), unresponsive.is_empty()) {
            (_, false) if unresponsive != self.unresponsive => {
                tracing::error!(silent = names(&unresponsive), "no response within {seconds} s");
            }
            (false, true) => {
                tracing::warn!(silent = names(&self.unresponsive), "all respond again")
            }
            _ => {}
        }
        self.unresponsive = unresponsive;
    }

    /// Sends signs of life until `end` resolves, without checks: parts that end no longer respond.
    pub(crate) async fn run_until<T>(mut self, end: impl Future<Output = T>) -> T {
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                output = &mut end => return output,
                _ = self.ticks.tick() => self.status.report(ChildStatus::Alive),
            }
        }
    }
}
