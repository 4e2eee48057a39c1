//! The publishing thread as the clients' thread sees it.

use anyhow::Result;

use super::{Crowd, WAKE};
use crate::realtime::publishing_thread::{Press, PublishingThread};
use crate::realtime::wake::Wake;

impl Crowd {
    /// Starts the publishing thread with so many connections, if there is none yet.
    pub(crate) fn start_publishing(&mut self, connections: usize) -> Result<()> {
        if self.around.publishing.is_some() {
            return Ok(());
        }
        let press = Press {
            to: self.target.url.address,
            speech: self.around.speech.clone(),
            data: self.around.data.clone(),
            channel_names: self.around.channel_names.clone(),
        };
        let wake = Wake::new()?;
        wake.watch(&self.epoll, WAKE)?;
        self.around.publishing = Some(PublishingThread::start(press, connections, wake)?);
        Ok(())
    }

    /// Has the next event published. False if too many have no answer yet.
    pub(crate) fn publish(&mut self, channel: usize) -> bool {
        match &mut self.around.publishing {
            Some(publishing) if publishing.has_room() => {
                publishing.publish(self.around.ledger.order(channel), channel);
                true
            }
            _ => false,
        }
    }

    /// Publishes that the server has not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.around.publishing.as_ref().map_or(0, PublishingThread::under_way)
    }

    /// Takes what the publishing thread reports; fails if it has failed.
    pub(super) fn serve_publishing(&mut self) -> Result<()> {
        self.around.take_reports();
        self.around.publishing.as_mut().map_or(Ok(()), PublishingThread::check)
    }
}
