//! How sections that are not derived yet define their settings.

use weir_settings::{Change, Setting};
pub(crate) use weir_settings::{TableReader as Keys, WAIT};

pub(crate) struct Key;

impl Key {
    pub(crate) const fn fixed(name: &'static str, doc: &'static str) -> Setting {
        Setting::new(name, doc, Change::Restart)
    }

    pub(crate) const fn live(name: &'static str, doc: &'static str) -> Setting {
        Setting::new(name, doc, Change::Reload)
    }
}
