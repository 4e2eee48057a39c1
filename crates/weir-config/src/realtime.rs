//! `[realtime]`: channels, and the apps that have them.

mod apps;
mod limits;
mod webhooks;

use std::net::SocketAddr;
use std::time::Duration;

use weir_realtime::settings::{AppSettings, Settings};

use self::webhooks::Webhooks;
use super::keys::{Key, Keys};
use weir_settings::HOUR;

/// Clients count in whole seconds; less would make them ping all the time.
const ACTIVITY_TIMEOUT_MIN: Duration = Duration::from_secs(5);

/// Realtime, its apps, and where it listens besides the front.
#[derive(Clone, Debug, Default)]
pub struct Realtime {
    pub listen: Option<SocketAddr>,
    pub settings: Settings,
    pub webhooks: Webhooks,
    pub apps: Vec<AppSettings>,
    /// None: what the front has for it.
    pub connections_total_max: Option<u32>,
}

impl Realtime {
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        keys.optional_address(
            Key::fixed("listen", "An address of its own for realtime, without TLS, besides front.listen. None: only there."),
            &mut self.listen,
        );
        self.read_times(keys);
        let Settings { limits, websocket, pusher, .. } = &mut self.settings;
        let (in_flight_max, total_max) =
            (&mut self.webhooks.in_flight_max, &mut self.connections_total_max);
        keys.section("limits", |keys| {
            limits::read(keys, limits);
            limits::read_total(keys, total_max);
            limits::read_websocket(keys, websocket);
            limits::read_pusher(keys, pusher);
            webhooks::read_in_flight(keys, in_flight_max);
        });
        keys.section("webhooks", |keys| webhooks::read(keys, &mut self.webhooks.settings));
        let mut known = apps::Known::default();
        keys.each("apps", |keys| self.apps.push(known.read(keys)));
    }

    fn read_times(&mut self, keys: &mut Keys<'_>) {
        let Settings {
            activity_timeout,
            activity_jitter_thousandths,
            drain_window,
            limits: _,
            websocket: _,
            pusher: _,
        } = &mut self.settings;
        keys.duration(
            Key::live(
                "activity_timeout",
                "After this much silence a client pings, and Weir does if the client doesn't.",
            ),
            ACTIVITY_TIMEOUT_MIN..=HOUR,
            activity_timeout,
        );
        keys.percent(
            Key::live("activity_jitter", "By how much less or more each client is told, so that those who came together don't ping together."),
            0..=50,
            activity_jitter_thousandths,
        );
        keys.duration(
            Key::live("drain_window", "When Weir ends, or a reload removes or disables an app, connections are closed spread over this long, so that they don't all come back at once. Keep it below shutdown_deadline."),
            Duration::ZERO..=HOUR,
            drain_window,
        );
    }
}
