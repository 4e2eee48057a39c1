//! A living app: its settings, which a reload replaces, and its channels and users, which stay.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};

use crate::channel::{Cache, Registry};
use crate::pusher::signature::Token;
use crate::settings::AppSettings;
use crate::users::Users;

/// One app.
#[derive(Debug)]
pub(crate) struct App {
    settings: ArcSwap<AppSettings>,
    pub(crate) channels: Registry,
    /// The last events of its cache channels.
    pub(crate) cache: Arc<Cache>,
    pub(crate) users: Users,
    connections: AtomicUsize,
}

/// A connection's place among those that the app may have. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace(Arc<App>);

impl App {
    fn new(settings: AppSettings) -> Self {
        Self {
            settings: ArcSwap::from_pointee(settings),
            channels: Registry::default(),
            cache: Arc::default(),
            users: Users::default(),
            connections: AtomicUsize::new(0),
        }
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Guard<Arc<AppSettings>> {
        self.settings.load()
    }

    /// How many connections it has.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// A place for one connection more, if there is one.
    pub(crate) fn connect(self: &Arc<Self>) -> Option<ConnectionPlace> {
        let place = ConnectionPlace(Arc::clone(self));
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        // Dropping the place takes it back.
        (before < self.settings().connections_max).then_some(place)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AppSettings {
    /// Key and secret.
    pub(crate) fn token(&self) -> Token<'_> {
        Token { key: &self.key, secret: &self.secret }
    }
}

/// All apps, found by key and by id.
#[derive(Debug, Default)]
pub(crate) struct Apps {
    by_key: HashMap<Arc<str>, Arc<App>>,
    by_id: HashMap<Arc<str>, Arc<App>>,
}

impl Apps {
    /// Apps with these settings. An app that was there before, by its id, keeps all but them.
    pub(crate) fn new(settings: Vec<AppSettings>, before: &Self) -> Self {
        let mut apps = Self::default();
        for settings in settings {
            let (id, key) = (Arc::clone(&settings.id), Arc::clone(&settings.key));
            let app = match before.by_id.get(&id) {
                Some(app) => {
                    app.settings.store(Arc::new(settings));
                    Arc::clone(app)
                }
                None => Arc::new(App::new(settings)),
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
