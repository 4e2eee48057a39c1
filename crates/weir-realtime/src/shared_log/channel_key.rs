//! The name of a channel among those of all apps.

use std::sync::Arc;

/// A channel of one app.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelKey {
    /// The app's id.
    pub app: Arc<str>,
    /// The channel's name.
    pub channel: Arc<str>,
}
