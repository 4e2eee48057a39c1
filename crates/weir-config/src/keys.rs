//! How sections that are not derived yet define their settings.

use weir_settings::{Change, Setting};
pub(crate) use weir_settings::{TableReader as Keys, TextOrSecret, WAIT};

pub(crate) struct Key;

impl Key {
    pub(crate) const fn fixed(name: &'static str, doc: &'static str) -> Setting {
        Setting::new(name, doc, Change::Restart)
    }

    pub(crate) const fn live(name: &'static str, doc: &'static str) -> Setting {
        Setting::new(name, doc, Change::Reload)
    }
}

/// Whether anything listens.
pub(crate) fn listener(
    keys: &mut Keys<'_>,
    setting: Setting,
    field: &mut std::net::SocketAddr,
) -> bool {
    let mut listener = Some(*field);
    keys.listener(setting, &mut listener);
    *field = listener.unwrap_or(*field);
    listener.is_some()
}
