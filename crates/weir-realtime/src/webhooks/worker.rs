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
        let senders = EndpointSenders::new(open, Arc::clone(&shared));
        let next_idle_check = Instant::now() + shared.settings.keep_alive;
        let mut sorter =
            Sorter { intake, held, senders, shared, shutdown, deadline: None, next_idle_check };
        let mut messages = Vec::new();
        while sorter.step(&mut messages).await == SorterStep::GoOn {}
        sorter.shut_down().await;
    }
}

struct Sorter {
    intake: IntakeEnd,
    held: HeldEvents,
    senders: EndpointSenders,
    shared: Arc<WebhookContext>,
    shutdown: ShutdownToken,
    /// Set once the shutdown has begun.
    deadline: Option<Instant>,
    next_idle_check: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SorterStep {
    GoOn,
    End,
}

impl Sorter {
    async fn step(&mut self, messages: &mut Vec<EventMessage>) -> SorterStep {
        let due = self.held.next_due();
        tokio::select! {
            count = self.intake.take(messages) => match count {
                0 => return SorterStep::End,
                _ => self.sort(messages),
            },
            () = sleep_until_some(due) => {}
            () = sleep_until(self.next_idle_check) => self.close_idle_senders(),
            () = self.shutdown.requested(), if self.deadline.is_none() => self.start_shutdown(),
            () = sleep_until_some(self.deadline) => return SorterStep::End,
        }
        self.held.release(Instant::now(), &mut |message| self.senders.send(message));
        SorterStep::GoOn
    }

    fn sort(&mut self, messages: &mut Vec<EventMessage>) {
        let now = Instant::now();
        for message in messages.drain(..) {
            self.held.hold_or_send(message, now, &mut |message| self.senders.send(message));
        }
    }

    fn close_idle_senders(&mut self) {
        let now = Instant::now();
        let keep_alive = self.shared.settings.keep_alive;
        self.senders.close_idle(now.checked_sub(keep_alive).unwrap_or(now));
        self.next_idle_check = now + keep_alive;
    }

    fn start_shutdown(&mut self) {
        self.deadline = Some(Instant::now() + self.shared.settings.drain_timeout);
        self.held.stop_holding(&mut |message| self.senders.send(message));
        self.senders.start_shutdown();
    }

    async fn shut_down(mut self) {
        if self.deadline.is_none() {
            self.start_shutdown();
        }
        let unprocessed = self.intake.close();
        if unprocessed > 0 {
            tracing::warn!(unprocessed, "webhook events came after the end and were dropped");
        }
        self.senders.shut_down(self.deadline.unwrap_or_else(Instant::now)).await;
    }
}

async fn sleep_until_some(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
