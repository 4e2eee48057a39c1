//! All apps, shared by all cores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Clock;

use crate::address::UpstreamAddress;
use crate::app::ProxiedApp;
use crate::dispatch::Elsewhere;
use crate::metrics::FrontMetrics;
use crate::routes::Routes;
use crate::settings::AppSettings;
use crate::view::{AppView, OverdueView};

/// No app has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no app {0}")]
pub struct NoSuchApp(pub String);

/// All apps, shared by all cores.
#[derive(Debug)]
pub struct Apps {
    apps: Vec<Arc<ProxiedApp>>,
    routes: Routes,
    clock: Clock,
}

impl Apps {
    /// Those of `settings`.
    #[must_use]
    pub fn new(settings: Vec<AppSettings>, clock: &Clock, metrics: &FrontMetrics) -> Arc<Self> {
        let mut routes = Routes::default();
        let mut apps = Vec::new();
        for mut one in settings {
            let (hosts, paths) = (std::mem::take(&mut one.hosts), std::mem::take(&mut one.paths));
            let metrics = metrics.of(&one.name);
            let app = ProxiedApp::new(one, clock.clone(), metrics);
            routes.add(&hosts, &paths, &app);
            apps.push(app);
        }
        Arc::new(Self { apps, routes, clock: clock.clone() })
    }

    /// What an operator sees.
    #[must_use]
    pub fn view(&self) -> Vec<AppView> {
        self.apps.iter().map(|app| app.view()).collect()
    }

    /// Lets all requests of an app wait, within the limits of its queue.
    ///
    /// # Errors
    /// There is no such app.
    pub fn pause(&self, app: &str) -> Result<(), NoSuchApp> {
        self.app(app)?.pause();
        Ok(())
    }

    /// Serves requests that waited during a pause.
    ///
    /// # Errors
    /// There is no such app.
    pub fn resume(&self, app: &str) -> Result<(), NoSuchApp> {
        self.app(app)?.resume();
        Ok(())
    }

    /// Shows everybody an app's maintenance page, or no more.
    ///
    /// # Errors
    /// There is no such app.
    pub fn set_maintenance(&self, app: &str, is_on: bool) -> Result<(), NoSuchApp> {
        self.app(app)?.maintenance.set(is_on);
        Ok(())
    }

    /// The queues of jobs whose latency some app's requests depend on.
    #[must_use]
    pub fn watched_queues(&self) -> BTreeSet<String> {
        let rules = self.apps.iter().flat_map(|app| &app.shed);
        rules.map(|rule| rule.settings.queue.clone()).collect()
    }

    /// How long the first job of each queue has waited; a queue that is not there is not known.
    pub fn judge_queues(&self, latencies: &BTreeMap<String, Duration>) {
        for rule in self.apps.iter().flat_map(|app| &app.shed) {
            rule.judge(latencies.get(&rule.settings.queue).copied());
        }
    }

    /// Makes these the workers of an app: those that are new are added, those that are no more
    /// finish what they have.
    ///
    /// # Errors
    /// There is no such app.
    pub fn set_workers(&self, app: &str, addresses: &[UpstreamAddress]) -> Result<(), NoSuchApp> {
        self.app(app)?.set_workers(addresses);
        Ok(())
    }

    /// Whether a worker of an app is to get no new requests for now. Those in progress continue, and count
    /// against what it can take at once when it is given something again.
    ///
    /// # Errors
    /// There is no such app.
    pub fn hold_back(
        &self,
        app: &str,
        worker: &UpstreamAddress,
        is_held: bool,
    ) -> Result<(), NoSuchApp> {
        self.app(app)?.hold_back(worker, is_held);
        Ok(())
    }

    /// Whether none of an app's workers can be started: then its requests get 503 at once.
    ///
    /// # Errors
    /// There is no such app.
    pub fn set_no_program(&self, app: &str, has_none: bool) -> Result<(), NoSuchApp> {
        self.app(app)?.set_no_program(has_none);
        Ok(())
    }

    /// How many slots of a worker other service processes use, which were replaced and still have
    /// connections: they count against its limits.
    ///
    /// # Errors
    /// There is no such app.
    pub fn set_elsewhere(
        &self,
        app: &str,
        worker: &UpstreamAddress,
        elsewhere: Elsewhere,
    ) -> Result<(), NoSuchApp> {
        self.app(app)?.set_elsewhere(worker, elsewhere);
        Ok(())
    }

    /// How many slots of each worker of an app this process uses.
    #[must_use]
    pub fn used(&self, app: &str) -> Vec<(UpstreamAddress, Elsewhere)> {
        self.app(app).map(|app| app.used()).unwrap_or_default()
    }

    /// Whether a worker of an app is given requests, or still has some.
    #[must_use]
    pub fn has_worker(&self, app: &str, address: &UpstreamAddress) -> bool {
        self.app(app).is_ok_and(|app| app.has_worker(address))
    }

    /// Workers of an app with requests that run for `age` or longer.
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
