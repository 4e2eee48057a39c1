//! The name of a channel among those of all apps.

use std::sync::Arc;

use crate::pusher::channel::DIRECTORY_PREFIX;

/// A channel of one app.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelKey {
    /// The app's id.
    pub app: Arc<str>,
    /// The channel's name.
    pub channel: Arc<str>,
}

impl ChannelKey {
    /// Returns whether this is a part of the directory of signed-in users: it has members, but no subscribers,
    /// no events and no webhooks.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.channel.starts_with(DIRECTORY_PREFIX)
    }
}
