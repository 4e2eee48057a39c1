//! What a request holds of an app: a place in its queue, then a slot of a worker. Both are given
//! back by being dropped, so a request whose client has gone holds neither.

use std::sync::Arc;

use tokio::sync::oneshot::Sender;
use weir_net::client::ClientRequest;

use super::{ProxiedApp, UpstreamWorker};
use crate::dispatch::{Dispatcher, Permit, QueueError, StreamSlot, Ticket};

/// What a waiting request receives.
pub(super) type Handed = Result<UpstreamSlot, QueueError>;

/// A slot of a worker.
#[derive(Debug)]
pub(crate) struct UpstreamSlot {
    app: Arc<ProxiedApp>,
    pub(crate) worker: Arc<UpstreamWorker>,
    /// None: taken out.
    permit: Option<Permit>,
}

impl UpstreamSlot {
    pub(super) fn new(app: &Arc<ProxiedApp>, worker: Arc<UpstreamWorker>, permit: Permit) -> Self {
        Self { app: Arc::clone(app), worker, permit: Some(permit) }
    }

    /// For a caller that gives it back explicitly.
    pub(super) fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
    }

    pub(crate) fn app(&self) -> &Arc<ProxiedApp> {
        &self.app
    }

    /// It is the worker's turn, from now on: its age counts.
    pub(crate) fn owes(&self) {
        let now = self.app.now();
        self.update(|dispatcher, permit| dispatcher.owes(permit, now));
    }

    /// No client waits any more, but the worker keeps its slot until it is done.
    pub(crate) fn owes_still(&self) {
        let now = self.app.now();
        self.update(|dispatcher, permit| dispatcher.owes_still(permit, now));
    }

    /// The worker can do nothing before the client does.
    pub(crate) fn waits_for_client(&self) {
        self.update(Dispatcher::owes_nothing);
    }

    fn update(&self, what: impl FnOnce(&mut Dispatcher<Sender<Handed>>, &Permit)) {
        if let Some(permit) = &self.permit {
            what(&mut self.app.state().dispatcher, permit);
        }
    }

    /// The response is a stream. None: there is no room for it.
    pub(crate) fn make_stream(&self) -> Option<StreamSlot> {
        self.permit.as_ref().and_then(|permit| self.app.make_stream(permit))
    }

    /// The same for a client that is still there, and may have as many as one may.
    ///
    /// # Errors
    /// The response for the client.
    pub(crate) fn open_stream(
        &self,
        client: Option<&ClientRequest>,
    ) -> Result<StreamSlot, QueueError> {
        if client.is_some_and(|client| client.become_stream().is_err()) {
            return Err(self.app.refuse_stream(QueueError::ClientStreams));
        }
        self.make_stream().ok_or_else(|| self.app.refuse_stream(QueueError::Streams))
    }
}

impl Drop for UpstreamSlot {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.app.take_back(permit);
        }
    }
}

/// A place in the queue.
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
        // A lock for who was handed something, too: they have waited longer than that.
        let now = self.app.clock.now();
        drop(self.app.state().dispatcher.leave(self.ticket, now));
    }
}
