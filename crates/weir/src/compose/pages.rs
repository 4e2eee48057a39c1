//! The interfaces for people and scripts: the admin API on its socket, the console on its port.

use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use prometheus_client::registry::Registry;
use weir_access::AuditLog;
use weir_autopilot::AutopilotHandle;
use weir_base::clock::Clock;
use weir_base::shutdown::ShutdownToken;
use weir_console::live::Live;
use weir_console::observed::{ObservedSnapshot, ObservedSnapshots};
use weir_console::sampler::Sampler;
use weir_console::{Accounts, DemoControl, Deps, Histories, Routes};
use weir_jobs::handle::Handle;
use weir_net::Listener;
use weir_supervisor::inherited::Inherited;

use super::tcp_listener;
use crate::http::{self, Endpoint};
use crate::parent::ADMIN;
use weir_admin::gems::OperatedGems;
use weir_admin::measured::{self, Measured};
use weir_admin::observed::{self, Observed};
use weir_admin::restart::Restart;
use weir_admin::status::{self, CurrentVerdict, Facts, StatusSources};
use weir_config::Settings;
use weir_config::part::Part;

mod front;

/// The data sources of the pages.
pub(super) struct Pages<'a> {
    pub(super) settings: &'a Settings,
    pub(super) clock: Clock,
    /// The handles of the job server and of realtime, where they are served.
    pub(super) jobs: Option<Handle>,
    pub(super) realtime: Option<weir_admin::realtime::Realtime>,
    pub(super) gems: Option<OperatedGems>,
    pub(super) autopilot: Option<AutopilotHandle>,
    pub(super) front: weir_admin::workers::Front,
    /// None: nothing is observed.
    pub(super) observed: Option<Observed>,
    pub(super) measured: Measured,
    pub(super) restart: Restart,
    pub(super) facts: Facts,
    pub(super) only: Vec<Part>,
    pub(super) live: Live,
    pub(super) verdict: CurrentVerdict,
    pub(super) registry: Registry,
    pub(super) accounts: Accounts,
    pub(super) audit: AuditLog,
}

impl Pages<'_> {
    /// Serves the pages until `http` ends.
    pub(super) fn serve(
        self,
        inherited: &mut Inherited,
        http: &ShutdownToken,
    ) -> anyhow::Result<()> {
        let settings = self.settings;
        let listener = tcp_listener(inherited, Part::Console)?;
        let (socket_routes, deps) = self.routes(listener.as_ref())?;
        let admin = Listener::adopt(ADMIN, inherited.expect(ADMIN)?)?;
        http::serve(admin, Endpoint::admin(socket_routes, &settings.admin), http)?;
        // Also without a console: its verdict is in `weir status` and in the metrics.
        http.spawn(Sampler::new(&deps).run(http.clone()));
        let Some(listener) = listener else { return Ok(()) };
        let endpoint = Endpoint::console(weir_console::router(deps), &settings.admin);
        http::serve(Listener::Tcp(listener), endpoint, http)?;
        Ok(())
    }

    /// Returns the routes of the socket, and what those of the console are made from.
    pub(super) fn routes(self, listener: Option<&TcpListener>) -> anyhow::Result<(Router, Deps)> {
        let Self { settings, clock, jobs, realtime, gems, facts, live, .. } = self;
        let jobs_url = jobs_url(&facts, settings);
        let has_apps = Part::Front.is_among(&self.only);
        let apps = has_apps.then(|| Arc::new(front::ConsoleApps(self.front.clone())));
        let index = gems.as_ref().map(|gems| Arc::clone(&gems.index));
        let public_routes = status::public_routes(jobs.clone(), index);
        let metrics = status::metrics_route(Arc::new(self.registry));
        let api = status::api(
            jobs.clone(),
            realtime.clone(),
            gems.clone(),
            self.front,
            self.restart,
            StatusSources { facts, verdict: self.verdict },
            settings.admin.body_bytes_max,
        )
        .merge(observed::json::router(self.observed.clone()))
        .merge(measured::router(self.measured))
        .merge(weir_admin::autopilot::router(self.autopilot.clone()))
        .merge(weir_admin::audit::router(self.audit.clone()));

        let socket_routes = Router::new()
            .nest("/v1", api.clone())
            .merge(public_routes.clone())
            .merge(metrics.clone());
        let socket_routes = weir_admin::audit::record_changes(socket_routes, self.audit.clone());
        let deps = Deps {
            jobs: jobs.map(|handle| console_jobs(handle, settings, &jobs_url, &live)),
            observed: self.observed.map(|observed| console_observed(observed, settings, &live)),
            live,
            clock,
            settings: console_settings(listener, settings)?,
            accounts: self.accounts,
            audit: self.audit,
            realtime: realtime.map(|operated| console_realtime(operated, settings)),
            gems: gems.map(|gems| gems.index as _),
            autopilot: self.autopilot,
            demo: DemoControl {
                worker_label: weir_demo::WORKER_LABEL,
                flood_job: weir_demo::FloodRequest::default_job,
            },
            front: apps
                .map(|apps| weir_console::front::FrontSource::new(apps, &settings.history())),
            routes: Routes { api, metrics, open: public_routes },
        };
        Ok((socket_routes, deps))
    }
}

/// Returns the URL that Faktory clients connect to.
fn jobs_url(facts: &Facts, settings: &Settings) -> String {
    let scheme = if settings.jobs.tls.is_some() { "tcp+tls" } else { "tcp" };
    let address = facts.jobs_listen.or(settings.jobs.listen);
    address.map(|address| format!("{scheme}://{address}")).unwrap_or_default()
}

/// Returns the console's view of jobs, with charts.
fn console_jobs(
    handle: Handle,
    settings: &Settings,
    jobs_url: &str,
    live: &Live,
) -> weir_console::JobsSource {
    let limits = settings.jobs.settings.limits.clone();
    weir_console::JobsSource::new(handle, limits, jobs_url, histories(settings, live))
}

/// Returns the console's view of realtime, with its charts.
fn console_realtime(
    operated: weir_admin::realtime::Realtime,
    settings: &Settings,
) -> weir_console::RealtimeSource {
    let weir_admin::realtime::Realtime { hub, switches, .. } = operated;
    weir_console::RealtimeSource::new(hub, switches, &settings.history())
}

/// Reads observed data for the console.
#[derive(Debug)]
struct ConsoleObserved(Observed);

impl ObservedSnapshots for ConsoleObserved {
    fn latest(&self) -> Option<Arc<ObservedSnapshot>> {
        self.0.latest()
    }
}

/// Returns the console's view of observed systems, with its charts.
fn console_observed(
    observed: Observed,
    settings: &Settings,
    live: &Live,
) -> weir_console::observed::ObservedSource {
    let history_kept = settings.observe.history_kept;
    let observed = Arc::new(ConsoleObserved(observed));
    weir_console::observed::ObservedSource::new(observed, histories(settings, live), history_kept)
}

fn histories<'a>(settings: &'a Settings, live: &'a Live) -> Histories<'a> {
    Histories {
        settings: settings.history(),
        queues_max: settings.console.limits.chart_queues_max,
        metrics: live.metrics(),
    }
}

/// Returns the console's settings, with the actual port if the system chose it.
fn console_settings(
    listener: Option<&TcpListener>,
    settings: &Settings,
) -> std::io::Result<weir_console::settings::ConsoleSettings> {
    let listen = listener.map(TcpListener::local_addr).transpose()?;
    Ok(weir_console::settings::ConsoleSettings { listen, ..settings.console.clone() })
}
