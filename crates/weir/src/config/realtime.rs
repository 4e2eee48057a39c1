//! `[realtime]`: channels, and the apps that have them.

mod apps;

use std::net::SocketAddr;

use weir_realtime::settings::{AppSettings, Settings};
use weir_realtime::webhooks;

use super::keys::{Key, Keys};

/// Realtime, its apps, and where it listens besides the front.
#[derive(Clone, Debug)]
pub(crate) struct Realtime {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) settings: Settings,
    pub(crate) webhooks: webhooks::Settings,
    pub(crate) webhooks_in_flight_max: u32,
    pub(crate) apps: Vec<AppSettings>,
}

impl Default for Realtime {
    fn default() -> Self {
        Self {
            listen: None,
            settings: Settings::default(),
            webhooks: webhooks::Settings::default(),
            webhooks_in_flight_max: 64,
            apps: Vec::new(),
        }
    }
}

impl Realtime {
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        keys.optional_address(
            Key::fixed("listen", "An address of its own for realtime, without TLS, besides front.listen. None: only there."),
            &mut self.listen,
        );
        keys.each("apps", |keys| self.apps.extend(apps::read(keys)));
    }
}
