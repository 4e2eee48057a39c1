//! The registry of all apps, shared by all cores.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Clock;

use crate::address::UpstreamAddress;
use crate::app::ProxiedApp;
use crate::dispatch::ExternalLoad;
use crate::metrics::FrontMetrics;
use crate::routes::Routes;
use crate::settings::AppSettings;
use crate::shed::{LatencySample, ShedState, WatchedQueue};
use crate::view::{AppView, OverdueView};

/// The error for an app name that is not configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no app {0}")]
pub struct NoSuchApp(pub String);

/// All apps with their routes, shared by all cores.
#[derive(Debug)]
pub struct Apps {
    apps: Vec<Arc<ProxiedApp>>,
    routes: Routes,
    clock: Clock,
}

impl Apps {
    /// Creates the apps of `settings` with their routes and metrics.
    #[must_use]
    pub fn new(settings: Vec<AppSettings>, clock: &Clock, metrics: &FrontMetrics) -> Arc<Self> {
        let mut routes = Routes::default();
        let mut apps = Vec::new();
        for mut app_settings in settings {
            let (hosts, paths) =
                (std::mem::take(&mut app_settings.hosts), std::mem::take(&mut app_settings.paths));
            let metrics = metrics.for_app(&app_settings.name);
            let app = ProxiedApp::new(app_settings, clock.clone(), metrics);
            routes.add(&hosts, &paths, &app);
            apps.push(app);
        }
        Arc::new(Self { apps, routes, clock: clock.clone() })
    }

    /// Returns a snapshot of each app for operators.
    #[must_use]
    pub fn view(&self) -> Vec<AppView> {
        self.apps.iter().map(|app| app.view()).collect()
    }

    /// Pauses an app: its requests wait in the queue, within the queue's limits.
    ///
    /// # Errors
    /// Fails if there is no such app.
    pub fn pause(&self, app: &str) -> Result<(), NoSuchApp> {
        self.app(app)?.pause();
        Ok(())
    }

    /// Resumes a paused app and serves the requests that waited.
    ///
    /// # Errors
    /// Fails if there is no such app.
    pub fn resume(&self, app: &str) -> Result<(), NoSuchApp> {
        self.app(app)?.resume();
        Ok(())
    }

    /// Switches an app's maintenance page on or off for all clients.
    ///
    /// # Errors
    /// Fails if there is no such app.
    pub fn set_maintenance(&self, app: &str, is_on: bool) -> Result<(), NoSuchApp> {
        self.app(app)?.maintenance.set(is_on);
        Ok(())
    }

    /// Returns the job queues whose latency is an input to some app's shed rules.
    #[must_use]
    pub fn watched_queues(&self) -> BTreeSet<WatchedQueue> {
        let rules = self.apps.iter().flat_map(|app| &app.shed);
        rules.map(|rule| rule.settings.queue.clone()).collect()
    }

    /// Updates all shed rules. `samples` returns what is known of a queue, from each server that may
    /// have it. Without a fresh sample, the rule of a queue rejects nothing.
    pub fn update_shed_rules(&self, samples: impl Fn(&WatchedQueue) -> Vec<LatencySample>) {
        self.apps.iter().for_each(|app| app.update_shed_rules(&samples));
    }

    /// Returns the job queues of rules that reject nothing because the latency is not known.
    #[must_use]
    pub fn queues_of_unknown_latency(&self) -> BTreeSet<WatchedQueue> {
        let rules = self.apps.iter().flat_map(|app| &app.shed);
        let unknown = rules.filter(|rule| rule.state() == ShedState::Unknown);
        unknown.map(|rule| rule.settings.queue.clone()).collect()
    }

    /// Makes all shed rules inactive, because no samples follow.
    pub fn end_shedding(&self) {
        self.apps.iter().for_each(|app| app.end_shedding());
    }

    /// Replaces the workers of an app: adds those that are new, and drains those that are no
    /// longer listed.
    ///
    /// # Errors
    /// Fails if there is no such app.
    pub fn set_workers(&self, app: &str, addresses: &[UpstreamAddress]) -> Result<(), NoSuchApp> {
        self.app(app)?.set_workers(addresses);
        Ok(())
    }

    /// Stops or resumes sending new requests to a worker of an app. Requests in progress continue
    /// and still count against the worker's slots when it is resumed.
    ///
    /// # Errors
    /// Fails if there is no such app.
    pub fn hold_back(
        &self,
        app: &str,
        worker: &UpstreamAddress,
        is_held: bool,
    ) -> Result<(), NoSuchApp> {
        self.app(app)?.hold_back(worker, is_held);
        Ok(())
    }

    /// Sets whether none of an app's workers can be started. While it is set, the app's requests
    /// get 503 at once.
    ///
    /// # Errors
    /// Fails if there is no such app.
    pub fn set_no_program(&self, app: &str, has_none: bool) -> Result<(), NoSuchApp> {
        self.app(app)?.set_no_program(has_none);
        Ok(())
    }

    /// Sets how many slots of a worker are used by replaced service processes that still have
    /// connections. These slots count against the worker's limits.
    ///
    /// # Errors
    /// Fails if there is no such app.
    pub fn set_external_load(
        &self,
        app: &str,
        worker: &UpstreamAddress,
        external: ExternalLoad,
    ) -> Result<(), NoSuchApp> {
        self.app(app)?.set_external_load(worker, external);
        Ok(())
    }

    /// Returns how many slots of each worker of an app this process uses.
    #[must_use]
    pub fn used(&self, app: &str) -> Vec<(UpstreamAddress, ExternalLoad)> {
        self.app(app).map(|app| app.used()).unwrap_or_default()
    }

    /// Returns whether a worker of an app receives requests or still has some in progress.
    #[must_use]
    pub fn has_worker(&self, app: &str, address: &UpstreamAddress) -> bool {
        self.app(app).is_ok_and(|app| app.has_worker(address))
    }

    /// Returns the workers of an app with requests that have been running for `age` or longer.
    #[must_use]
    pub fn overdue(&self, app: &str, age: Duration) -> Vec<OverdueView> {
        self.app(app).map(|app| app.overdue(age)).unwrap_or_default()
    }

    fn app(&self, name: &str) -> Result<&Arc<ProxiedApp>, NoSuchApp> {
        let found = self.apps.iter().find(|app| app.name == name);
        found.ok_or_else(|| NoSuchApp(name.to_owned()))
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.apps.is_empty()
    }

    pub(crate) fn find(&self, host: &[u8], path: &str) -> Option<&Arc<ProxiedApp>> {
        self.routes.find(host, path)
    }

    pub(crate) fn tick(&self) {
        for app in &self.apps {
            app.tick();
        }
    }
}
