//! An app at run time: its settings, which a reload replaces, and its channels and users, which
//! stay.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::channel::{Cache, Registry, UserDirectory};
use crate::connection_share::{ConnectionShare, QuotaExceeded};
use crate::cores::AppNumber;
use crate::pusher::channel::ChannelName;
use crate::pusher::signature::Token;
use crate::settings::AppSettings;
use crate::shared_log::ChannelKey;
use crate::users::Users;

/// One app.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) number: AppNumber,
    /// Whether its histories are durable, as of its start.
    pub(crate) is_durable: bool,
    settings: ArcSwap<AppSettings>,
    pub(crate) channels: Registry,
    /// The last events of its cache channels.
    pub(crate) cache: Arc<Cache>,
    pub(crate) users: Arc<Users>,
    /// The users of all nodes, if they share a log.
    pub(crate) directory: UserDirectory,
    connections: AtomicUsize,
    /// What this node may use of the limit of connections.
    pub(crate) share: ConnectionShare,
    /// Number of connections of all apps of the hub.
    total: Arc<AtomicUsize>,
}

/// Counts one connection towards the limits of its app and of all apps, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionQuota(Arc<App>);

impl App {
    fn new(number: AppNumber, settings: AppSettings, total: Arc<AtomicUsize>) -> Self {
        Self {
            number,
            is_durable: settings.history.is_durable && settings.history.events_max > 0,
            settings: ArcSwap::from_pointee(settings),
            channels: Registry::default(),
            cache: Arc::default(),
            users: Arc::default(),
            directory: UserDirectory::default(),
            connections: AtomicUsize::new(0),
            share: ConnectionShare::default(),
            total,
        }
    }

    /// Returns the present settings.
    pub(crate) fn settings(&self) -> Guard<Arc<AppSettings>> {
        self.settings.load()
    }

    /// Returns the name of one of its channels among those of all apps.
    pub(crate) fn key_of(&self, channel: &ChannelName) -> ChannelKey {
        ChannelKey { app: Arc::clone(&self.settings().id), channel: Arc::from(channel.as_str()) }
    }

    /// Returns the number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Counts one more connection, or returns the limit that it would exceed. `total_max` is the
    /// limit of all apps together.
    pub(crate) fn connect(
        self: &Arc<Self>,
        total_max: usize,
    ) -> Result<ConnectionQuota, QuotaExceeded> {
        // On an error, dropping `quota` restores the counts.
        let quota = ConnectionQuota(Arc::clone(self));
        let in_total = self.total.fetch_add(1, Ordering::Relaxed);
        let in_app = self.connections.fetch_add(1, Ordering::SeqCst);
        let app_max = self.settings().connections_max;
        if in_app >= app_max {
            return Err(QuotaExceeded::App);
        }
        if app_max < usize::MAX {
            self.share.check(in_app, app_max)?;
        }
        if in_total >= total_max {
            return Err(QuotaExceeded::Total);
        }
        Ok(quota)
    }
}

impl App {
    /// Returns whether the shared log is to be asked for a larger part of the limit of connections.
    pub(crate) fn needs_more_connections(&self) -> bool {
        let max = self.settings().connections_max;
        max < usize::MAX && self.share.needs_more(self.connections(), max)
    }
}

impl Drop for ConnectionQuota {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
        self.0.total.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AppSettings {
    /// Returns the app's key and secret.
    pub(crate) fn token(&self) -> Token<'_> {
        Token { key: &self.key, secret: &self.secret }
    }
}

/// All apps, found by key and by id.
#[derive(Debug, Default)]
pub(crate) struct Apps {
    by_key: HashMap<Arc<str>, Arc<App>>,
    by_id: HashMap<Arc<str>, Arc<App>>,
    /// Number of connections of all apps, including removed ones.
    connections: Arc<AtomicUsize>,
    /// The number of the app that is added next.
    next_number: u64,
}

impl Apps {
    /// Returns apps with these settings. An app whose id is in `before` keeps its state and gets
    /// the new settings.
    pub(crate) fn new(settings: Vec<AppSettings>, before: &Self) -> Self {
        let connections = Arc::clone(&before.connections);
        let mut apps = Self { connections, next_number: before.next_number, ..Self::default() };
        for settings in settings {
            let (id, key) = (Arc::clone(&settings.id), Arc::clone(&settings.key));
            let app = match before.by_id.get(&id) {
                Some(app) => {
                    app.settings.store(Arc::new(settings));
                    Arc::clone(app)
                }
                None => {
                    let number = AppNumber(apps.next_number);
                    apps.next_number += 1;
                    Arc::new(App::new(number, settings, Arc::clone(&apps.connections)))
                }
            };
            apps.by_key.insert(key, Arc::clone(&app));
            apps.by_id.insert(id, app);
        }
        apps
    }

    pub(crate) fn by_key(&self, key: &str) -> Option<&Arc<App>> {
        self.by_key.get(key)
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<&Arc<App>> {
        self.by_id.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<App>> {
        self.by_id.values()
    }
}
