//! weir.toml by a plan: the front's apps, the groups of workers, the budget, and what is observed.

use weir_advisor::plan::{Plan, PlanInput, ServiceLayout, WorkerLayout, queue_words};

use super::commands::{RubyCommand, puma, sidekiq, streaming, unicorn};
use super::layout;
use super::ruby_app::{RubyApp, RubyKind};
use crate::commands::init::app::compose::ComposeApp;
use crate::commands::init::app::findings::Findings;
use crate::commands::init::app::settings::{FrontApp, JobGroup, Observed, SettingsText};
use crate::commands::init::app::today::RunBy;
use crate::commands::plan::planned::Planned;

/// Sidekiq gives its jobs 25 s (`-t`); it needs some more to push back those that are not done.
const STOP_AFTER_TIMEOUT_SECONDS: u32 = 10;

impl RubyApp<'_> {
    /// Returns the text of weir.toml.
    pub(in crate::commands::init) fn settings(
        &self,
        planned: &Planned,
        findings: &mut Findings,
    ) -> String {
        let Planned { plan, input, .. } = planned;
        let layout = &plan.layout;
        let services: u32 = layout
            .services
            .iter()
            .map(|it| it.processes.saturating_mul(it.pool))
            .fold(layout.reserve, u32::saturating_add);
        let is_compose = self.today.run_by == RunBy::Compose;
        let is_direct = layout.pooler_connections.is_none() && !is_compose;
        let groups = match is_compose {
            true => Vec::new(),
            false => self.groups(plan, findings),
        };
        let apps = match is_compose {
            true => layout::upstreams(self, plan, findings),
            false => self.apps(plan, findings),
        };
        SettingsText {
            head: self.head(),
            folder: self.folder.shown(),
            listen: self.options.listen.to_string(),
            apps,
            groups,
            budget: is_direct.then_some((layout.max_connections, services)),
            observed: Some(self.observed(plan, input, findings)),
        }
        .text()
    }

    fn head(&self) -> Vec<String> {
        let (name, folder) = (self.kind.name(), self.folder.shown());
        let redis = self.redis.as_ref().map_or("redis://127.0.0.1:6379/0", |it| it.url.as_str());
        vec![
            format!(
                "{}. Written by `weir init {name}`; weir-steps.txt has the steps and the way back.",
                self.title()
            ),
            "The number of processes and threads is that of `weir plan`. With measured figures:"
                .to_owned(),
            format!("  weir init {name} {folder} --force -- --redis {redis} --window 2m"),
            "After each upgrade of the application, for queues that no process serves:".to_owned(),
            format!("  weir init {name} {folder} --check"),
        ]
    }

    fn groups(&self, plan: &Plan, findings: &mut Findings) -> Vec<JobGroup> {
        let command = sidekiq(&self.today, findings);
        let RubyCommand { words, environment, timeout_seconds } = command;
        let group = |worker: &WorkerLayout| {
            let own = layout::pool_variables(self.kind, worker.concurrency, worker.pool);
            let is_scheduler = worker.queues.iter().any(|queue| queue == "scheduler");
            JobGroup {
                name: worker.name.clone(),
                command: words.clone(),
                environment: [environment.clone(), own].concat(),
                queues: queue_words(worker),
                processes: worker.processes,
                concurrency: Some(worker.concurrency),
                stop_deadline_seconds: timeout_seconds.saturating_add(STOP_AFTER_TIMEOUT_SECONDS),
                dump_signal: Some("TTIN"),
                comment: is_scheduler.then(|| {
                    "Never more than one: two would enqueue scheduled jobs twice.".to_owned()
                }),
            }
        };
        plan.layout.workers.iter().map(group).collect()
    }

    fn apps(&self, plan: &Plan, findings: &mut Findings) -> Vec<FrontApp> {
        let mut apps = Vec::new();
        for service in plan.layout.services.iter().filter(|it| it.processes > 0) {
            let app = match service.name.as_str() {
                "web" => self.web(service, findings),
                _ if self.kind == RubyKind::Mastodon => self.streaming(service, findings),
                _ => continue,
            };
            apps.push(app);
        }
        apps
    }

    /// Returns the app of the web processes.
    pub(in crate::commands::init) fn web(
        &self,
        service: &ServiceLayout,
        findings: &mut Findings,
    ) -> FrontApp {
        let is_unicorn = self.gems.has("unicorn") && !self.gems.has("puma");
        let command = match is_unicorn {
            true => unicorn(&self.today, findings),
            false => puma(&self.today, service.threads, findings),
        };
        let own = layout::pool_variables(self.kind, service.threads, service.pool);
        FrontApp {
            name: "web",
            command: command.words,
            environment: [command.environment, own].concat(),
            workers: service.processes,
            concurrency: if is_unicorn { 1 } else { service.threads },
            is_blocked_by_streams: true,
            ready_path: self.ready_path(),
            stop_signal: is_unicorn.then_some("QUIT"),
            ..FrontApp::default()
        }
    }

    fn streaming(&self, service: &ServiceLayout, findings: &mut Findings) -> FrontApp {
        let command = streaming(&self.today, service.pool, findings);
        FrontApp {
            name: "streaming",
            paths: vec![layout::STREAMING_PATH],
            command: command.words,
            environment: command.environment,
            workers: service.processes,
            concurrency: layout::STREAMING_CONCURRENCY,
            ready_path: Some("/api/v1/streaming/health"),
            ..FrontApp::default()
        }
    }

    /// Returns the path that responds as soon as the application is ready.
    fn ready_path(&self) -> Option<&'static str> {
        if self.kind == RubyKind::Mastodon {
            return Some("/health");
        }
        let routes = self.folder.read("config/routes.rb", &mut Findings::default())?;
        let is_usual = |line: &str| line.contains("rails/health#show") && line.contains("\"up\"");
        routes.lines().any(is_usual).then_some("/up")
    }

    fn observed(&self, plan: &Plan, input: &PlanInput, findings: &mut Findings) -> Observed {
        let pool = |it: &ServiceLayout| {
            let threads = if it.name == "web" { format!("/{}", it.threads) } else { String::new() };
            format!("{}={}x{}{threads}", it.name, it.processes, it.pool)
        };
        let services = plan.layout.services.iter().filter(|it| it.processes > 0);
        let published = |app: &ComposeApp| {
            app.with_image(&["redis", "valkey"]).and_then(|name| app.published(name, 6_379))
        };
        let in_compose = self.today.compose.as_ref().map(published);
        let (redis, off) = match (&self.redis, in_compose) {
            (_, Some(Some(address))) => (format!("redis://{address}/0"), None),
            (_, Some(None)) => (
                "redis://127.0.0.1:6379/0".to_owned(),
                Some("the compose file publishes no port of Redis on this machine".to_owned()),
            ),
            (Ok(place), None) if place.has_password => (
                place.url.clone(),
                Some(
                    "it has a password; put it into a file, and add password = { file = \"PATH\" }"
                        .to_owned(),
                ),
            ),
            (Ok(place), None) => (place.url.clone(), None),
            (Err(why), None) => ("redis://127.0.0.1:6379/0".to_owned(), Some(why.clone())),
        };
        if let Some(why) = &off {
            findings.not_managed.push(format!("[observe] is commented out: {why}"));
        }
        Observed {
            redis,
            off,
            pools: services.map(pool).collect(),
            pushes: input.queues.iter().map(|it| it.name.clone()).collect(),
            database: self.database.name.clone(),
        }
    }
}
