//! The load of realtime: one publisher for each channel, subscribers that recover, and clients that do not read.

mod channel;
mod check;
mod connection;
mod publisher;
mod slow;
mod subscriber;

use std::sync::Arc;

use anyhow::{Context, Result};

pub(super) use self::channel::Channel;
pub(super) use self::check::{RealtimeCounts, SubscriberCheck, judge};
pub(super) use self::publisher::{publish_once, run as run_publisher};
pub(super) use self::slow::run as run_slow_client;
pub(super) use self::subscriber::Subscriber;
use crate::realtime::target::App;

/// Of each of the two apps.
const CHANNELS_PER_APP: usize = 4;
pub(super) const APPS: [AppSpec; 2] = [
    AppSpec { id: "1", key: "soak-memory", is_durable: false },
    AppSpec { id: "2", key: "soak-durable", is_durable: true },
];

/// An app of the nodes' settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct AppSpec {
    pub(super) id: &'static str,
    pub(super) key: &'static str,
    /// With histories on the disk of an embedded broker.
    pub(super) is_durable: bool,
}

impl AppSpec {
    pub(super) fn app(&self, secret: &str) -> Result<App> {
        let text = format!("{}:{}:{secret}", self.id, self.key);
        text.parse().context("an app of the soak")
    }
}

/// Returns the channels of all apps.
pub(super) fn channels(secret: &str) -> Result<Vec<Arc<Channel>>> {
    let mut channels = Vec::new();
    for spec in APPS {
        for number in 0..CHANNELS_PER_APP {
            let name = format!("soak-{}-{number}", spec.id);
            channels.push(Arc::new(Channel::new(name, spec.app(secret)?, spec.is_durable)));
        }
    }
    Ok(channels)
}
