//! The publishing thread as the clients' thread sees it.

use anyhow::Result;

use super::{ClientPool, WAKER};
use crate::realtime::publishing_thread::{PublishContext, PublishingThread};
use crate::realtime::waker::Waker;

impl ClientPool {
    /// Starts the publishing thread with the given number of connections, if it does not run yet.
    pub(crate) fn start_publishing(&mut self, connections: usize) -> Result<()> {
        if self.shared.publishing.is_some() {
            return Ok(());
        }
        let context = PublishContext {
            to: self.target.url.clone(),
            codec: self.shared.codec.clone(),
            data: self.shared.data.clone(),
            channel_names: self.shared.channel_names.clone(),
        };
        let waker = Waker::new()?;
        waker.register(&self.epoll, WAKER)?;
        self.shared.publishing = Some(PublishingThread::start(context, connections, waker)?);
        Ok(())
    }

    /// Passes the next event to the publishing thread. Returns false if too many are in flight.
    pub(crate) fn publish(&mut self, channel: usize) -> bool {
        match &mut self.shared.publishing {
            Some(publishing) if publishing.has_room() => {
                publishing.publish(self.shared.ledger.add_event(channel), channel);
                true
            }
            _ => false,
        }
    }

    /// Returns how many publishes have no response yet.
    pub(crate) fn publishes_in_flight(&self) -> usize {
        self.shared.publishing.as_ref().map_or(0, PublishingThread::in_flight)
    }

    /// Processes the reports of the publishing thread. Fails if the thread has failed.
    pub(super) fn serve_publishing(&mut self) -> Result<()> {
        self.shared.process_reports();
        self.shared.publishing.as_mut().map_or(Ok(()), PublishingThread::check)
    }
}
