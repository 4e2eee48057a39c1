//! The task behind all [`Webhooks`](super::Webhooks) handles. It takes events, holds those that may
//! be cancelled, and puts the others into the queues of their endpoints. It never waits for an
//! endpoint.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};
use weir_base::shutdown::ShutdownToken;

use super::endpoint_senders::EndpointSenders;
use super::event_message::EventMessage;
use super::held::HeldEvents;
use super::intake::IntakeEnd;
use super::shared::WebhookContext;
use super::transport::{OpenTransport, receivers};

/// The worker. [`WebhookWorker::run`] it on a tokio runtime with time and IO.
#[derive(Debug)]
pub struct WebhookWorker {
    pub(super) intake: IntakeEnd,
    pub(super) shared: Arc<WebhookContext>,
    pub(super) shutdown: ShutdownToken,
}

impl WebhookWorker {
    /// Runs until all handles are dropped and everything is sent. On shutdown, it stops holding
    /// events, and makes one more attempt to send those that are queued. After `drain_timeout` it
    /// ends, even if handles still exist: the remaining events are dropped, counted and logged.
    pub async fn run(self) {
        let open = receivers(&self.shared.settings);
        self.run_with(open).await;
    }

    pub(super) async fn run_with(self, open: OpenTransport) {
        let Self { intake, shared, shutdown } = self;
        let held = HeldEvents::new(&shared.settings, shared.metrics.clone());
        let lanes = EndpointSenders::new(open, Arc::clone(&shared));
        let next_sweep = Instant::now() + shared.settings.keep_alive;
        let mut sorter =
            Sorter { intake, held, lanes, shared, shutdown, deadline: None, next_sweep };
        let mut told = Vec::new();
        while sorter.step(&mut told).await == SorterStep::GoOn {}
        sorter.end().await;
    }
}

struct Sorter {
    intake: IntakeEnd,
    held: HeldEvents,
    lanes: EndpointSenders,
    shared: Arc<WebhookContext>,
    shutdown: ShutdownToken,
    /// Set once the shutdown has begun.
    deadline: Option<Instant>,
    next_sweep: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SorterStep {
    GoOn,
    End,
}

impl Sorter {
    async fn step(&mut self, told: &mut Vec<EventMessage>) -> SorterStep {
        let due = self.held.next_due();
        tokio::select! {
            count = self.intake.take(told) => match count {
                0 => return SorterStep::End,
                _ => self.sort(told),
            },
            () = at(due) => {}
            () = sleep_until(self.next_sweep) => self.sweep(),
            () = self.shutdown.requested(), if self.deadline.is_none() => self.begin_end(),
            () = at(self.deadline) => return SorterStep::End,
        }
        self.held.release(Instant::now(), &mut |told| self.lanes.send(told));
        SorterStep::GoOn
    }

    fn sort(&mut self, told: &mut Vec<EventMessage>) {
        let now = Instant::now();
        for told in told.drain(..) {
            self.held.take(told, now, &mut |told| self.lanes.send(told));
        }
    }

    fn sweep(&mut self) {
        let now = Instant::now();
        let keep_alive = self.shared.settings.keep_alive;
        self.lanes.close_idle(now.checked_sub(keep_alive).unwrap_or(now));
        self.next_sweep = now + keep_alive;
    }

    fn begin_end(&mut self) {
        self.deadline = Some(Instant::now() + self.shared.settings.drain_timeout);
        self.held.stop_holding(&mut |told| self.lanes.send(told));
        self.lanes.begin_end();
    }

    async fn end(mut self) {
        if self.deadline.is_none() {
            self.begin_end();
        }
        let untaken = self.intake.close();
        if untaken > 0 {
            tracing::warn!(untaken, "webhook events came after the end and were dropped");
        }
        self.lanes.end(self.deadline.unwrap_or_else(Instant::now)).await;
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
