//! What a request holds of an app: first a position in its queue, then a slot of a worker. Drop
//! releases both, so a request whose client has disconnected holds neither.

use std::sync::Arc;

use tokio::sync::oneshot::Sender;
use weir_net::client::ClientRequest;

use super::{ProxiedApp, UpstreamWorker};
use crate::dispatch::{Dispatcher, Permit, QueueError, StreamSlot, Ticket};

/// The result that a waiting request receives.
pub(super) type SlotResult = Result<UpstreamSlot, QueueError>;

/// A slot of a worker, released on drop.
#[derive(Debug)]
pub(crate) struct UpstreamSlot {
    app: Arc<ProxiedApp>,
    pub(crate) worker: Arc<UpstreamWorker>,
    /// None after [`UpstreamSlot::take_permit`].
    permit: Option<Permit>,
}

impl UpstreamSlot {
    pub(super) fn new(app: &Arc<ProxiedApp>, worker: Arc<UpstreamWorker>, permit: Permit) -> Self {
        Self { app: Arc::clone(app), worker, permit: Some(permit) }
    }

    /// Takes the permit out; the caller must end it.
    pub(super) fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
    }

    pub(crate) fn app(&self) -> &Arc<ProxiedApp> {
        &self.app
    }

    /// Notes that the worker owes a response, or more of one, from now on.
    pub(crate) fn start_response_timer(&self) {
        let now = self.app.now();
        self.update(|dispatcher, permit| dispatcher.start_response_timer(permit, now));
    }

    /// Notes that the client has gone: the worker keeps its slot until it has responded.
    pub(crate) fn ensure_response_timer(&self) {
        let now = self.app.now();
        self.update(|dispatcher, permit| dispatcher.ensure_response_timer(permit, now));
    }

    /// Notes that the worker cannot continue before the client does, so it owes nothing.
    pub(crate) fn stop_response_timer(&self) {
        self.update(Dispatcher::stop_response_timer);
    }

    fn update(&self, change: impl FnOnce(&mut Dispatcher<Sender<SlotResult>>, &Permit)) {
        if let Some(permit) = &self.permit {
            change(&mut self.app.state().dispatcher, permit);
        }
    }

    /// Marks the request as a stream. Returns None if the worker has no room for it.
    pub(crate) fn make_stream(&self) -> Option<StreamSlot> {
        self.permit.as_ref().and_then(|permit| self.app.make_stream(permit))
    }

    /// Marks the request as a stream, and counts it against its client's limit of streams.
    ///
    /// # Errors
    /// Fails if the worker or the client has as many streams as it may have.
    pub(crate) fn open_stream(
        &self,
        client: Option<&ClientRequest>,
    ) -> Result<StreamSlot, QueueError> {
        if client.is_some_and(|client| client.become_stream().is_err()) {
            return Err(self.app.reject_stream(QueueError::ClientStreams));
        }
        self.make_stream().ok_or_else(|| self.app.reject_stream(QueueError::Streams))
    }
}

impl Drop for UpstreamSlot {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.app.release(permit);
        }
    }
}

/// A position in the request queue; its drop leaves the queue.
#[derive(Debug)]
pub(super) struct QueuePlace<'a> {
    app: &'a ProxiedApp,
    ticket: Ticket,
}

impl<'a> QueuePlace<'a> {
    pub(super) fn new(app: &'a ProxiedApp, ticket: Ticket) -> Self {
        Self { app, ticket }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        // Locks even if a slot was received: after a wait the cost does not matter.
        let now = self.app.clock.now();
        drop(self.app.state().dispatcher.cancel(self.ticket, now));
    }
}
