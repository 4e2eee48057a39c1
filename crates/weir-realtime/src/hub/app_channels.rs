//! The channels of all apps, also of those that a reload removed.

use std::sync::Arc;

use super::Hub;
use crate::app::App;
use crate::channel::Channel;
use crate::shared_log::ChannelKey;

impl Hub {
    /// Returns the channels of all apps, also of removed ones, and the parts of their directories.
    pub(super) fn all_channels(&self) -> Vec<(Arc<App>, Arc<Channel>)> {
        let apps = self.removed_apps.all().into_iter().chain(self.apps());
        let channels = apps.flat_map(|app| {
            let directory = app.directory.parts().map(|part| Arc::clone(&part.channel));
            let channels: Vec<_> =
                app.channels.with_prefix("").into_iter().chain(directory).collect();
            let channels = channels.into_iter();
            channels.map(move |channel| (Arc::clone(&app), channel))
        });
        channels.collect()
    }

    /// Returns the channels of this name: those of removed apps with the same id, and then the present
    /// one.
    pub(super) fn removed_first(&self, key: &ChannelKey) -> Vec<(Arc<App>, Arc<Channel>)> {
        let removed = self.removed_apps.all().into_iter();
        let removed = removed.filter(|app| app.settings().id == key.app);
        let channel = |app: Arc<App>| {
            let channel = match key.is_directory() {
                false => app.channels.get(&key.channel)?,
                true => Arc::clone(&app.directory.get(&key.channel)?.channel),
            };
            Some((app, channel))
        };
        removed.chain(self.app_by_id(&key.app)).filter_map(channel).collect()
    }
}
