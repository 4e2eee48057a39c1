//! Detects cores that hang: each is queried on its own runtime, so a core in an endless loop, or
//! one that waits for a lock, does not reply.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::CoreIndex;

/// One pending query is enough.
const PINGS_MAX: usize = 1;

type Ping = oneshot::Sender<()>;

/// Queries the cores. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LivenessProbe {
    cores: Vec<mpsc::Sender<Ping>>,
}

/// The queries to one core.
pub(super) struct PingReceiver(mpsc::Receiver<Ping>);

pub(super) fn pings() -> (mpsc::Sender<Ping>, PingReceiver) {
    let (sender, pings) = mpsc::channel(PINGS_MAX);
    (sender, PingReceiver(pings))
}

impl PingReceiver {
    /// Replies to queries until all senders are dropped.
    pub(super) async fn reply_to_all(mut self) {
        while let Some(ping) = self.0.recv().await {
            // Fails if the query has timed out.
            let _ = ping.send(());
        }
    }
}

impl LivenessProbe {
    pub(super) fn new(cores: Vec<mpsc::Sender<Ping>>) -> Self {
        Self { cores }
    }

    /// Returns the cores that do not reply within `time_limit`.
    pub async fn unresponsive(&self, time_limit: Duration) -> Vec<CoreIndex> {
        let sender = |core: &mpsc::Sender<Ping>| {
            let (ping, reply) = oneshot::channel();
            // Fails if the core has not replied to the previous query, which the timeout below
            // reports.
            let _ = core.try_send(ping);
            reply
        };
        let replies: Vec<oneshot::Receiver<()>> = self.cores.iter().map(sender).collect();
        let mut time_limit = pin!(sleep(time_limit));
        let mut unresponsive = Vec::new();
        for (index, reply) in replies.into_iter().enumerate() {
            let has_replied = tokio::select! {
                biased;
                replied = reply => replied.is_ok(),
                () = &mut time_limit => false,
            };
            if !has_replied {
                unresponsive.push(CoreIndex(index));
            }
        }
        unresponsive
    }
}
