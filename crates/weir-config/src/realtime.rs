//! `[realtime]`: channels, and the apps that have them.

use std::collections::HashSet;
use std::net::SocketAddr;

use weir_base::secret::Secret;
use weir_realtime::settings::{AppSettings, Settings};
use weir_realtime::webhooks::WebhookSettings;
use weir_settings::{Section, TableReader};

/// Realtime, its apps, and where it listens besides the front.
#[derive(Clone, Debug, Section)]
#[section(upgrade, check = Self::read_apps)]
pub struct Realtime {
    /// An address of its own for realtime, without TLS, besides front.listen. None: only there.
    pub listen: Option<SocketAddr>,
    #[setting(flatten)]
    pub settings: Settings,
    #[setting(section)]
    pub webhooks: WebhookSettings,
    #[setting(skip)]
    pub apps: Vec<AppSettings>,
}

impl Realtime {
    /// Reads the apps, whose ids and keys must be unique.
    fn read_apps(&mut self, table: &mut TableReader<'_>) {
        let mut taken = HashSet::new();
        table.each("apps", |table| {
            let mut app = AppSettings::new("", "", Secret::default());
            app.read(table);
            for (name, value) in [("id", &app.id), ("key", &app.key)] {
                if !value.is_empty() && !taken.insert((name, value.to_string())) {
                    table
                        .error_at(name, &format!("{value:?} is already the {name} of another app"));
                }
            }
            self.apps.push(app);
        });
    }
}
