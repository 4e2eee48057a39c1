//! `weir.toml` -> typed [`Settings`], once; all errors together. The only place that reads the
//! environment.
//!
//! - [`jobs`], [`front`], [`realtime`], [`gems`], [`observe`], [`workers`], [`process`]: the sections, as
//!   far as no part has them.
//! - [`checks`]: what involves several sections.
//! - [`reference`]: docs/reference/settings.md and the commented file of `weir init`; [`schema`]: for editors.

mod budget;
mod checks;
pub mod environment;
mod front;
mod gems;
mod job_shards;
mod jobs;
mod launch;
mod observe;
pub mod part;
mod pools;
mod process;
mod realtime;
mod realtime_shards;
mod redis;
pub mod reference;
pub mod run_folder;
pub mod schema;
pub mod source;
mod tls;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeTable;
use weir_autopilot::{JobSystem, WatchedSystem};
use weir_realtime::settings::{AppSettings, Settings as RealtimeSettings};
pub use weir_settings::renamed::rewrite;
use weir_settings::{Context, Renamed, Report, Section, SettingValue, TableReader};
pub use weir_settings::{SettingError, SettingErrors, secrets, suggestion, units};
use weir_supervisor::workers::{GROUPS_MAX, GroupSpec, spec_errors};

pub use self::budget::Budget;
pub use self::front::{App, Front, Processes, SharedSockets};
pub use self::gems::{Gems, Mirror, StoreKind, read_policy_file};
pub use self::jobs::Jobs;
pub use self::launch::Recycling;
pub use self::observe::Observe;
pub use self::pools::{format_pool, pool};
pub use self::process::{Admin, History, Log, LogFormat, LogLevel, Supervisor};
pub use self::realtime::{BrokerKind, Realtime};
pub use self::source::Source;
pub use self::workers::JobWorkers;
use crate::part::Part;
pub use weir_settings::Change;

/// Everything that an operator can set.
#[derive(Clone, Debug, Section)]
#[section(upgrade, check = Self::read_workers)]
pub struct Settings {
    /// Folder for everything that Weir stores; made when missing, for its user alone. Relative paths
    /// start at the folder of this file.
    #[setting(stop, default = PathBuf::from("data"))]
    pub data_dir: PathBuf,
    /// After SIGTERM, work in progress has this long to finish.
    // systemd waits 90 s before it kills; a fetch that waits ends after 2.
    #[setting(range = Duration::ZERO..=units::HOUR, default = Duration::from_secs(25))]
    pub shutdown_deadline: Duration,
    #[setting(section)]
    pub log: Log,
    #[setting(section)]
    pub jobs: Jobs,
    #[setting(section)]
    pub front: Front,
    #[setting(section)]
    pub realtime: Realtime,
    #[setting(with = gems::read_section)]
    pub gems: Gems,
    #[setting(section)]
    pub console: weir_console::settings::ConsoleSettings,
    #[setting(section)]
    pub history: History,
    #[setting(section)]
    pub admin: Admin,
    #[setting(section)]
    pub supervisor: Supervisor,
    #[setting(with = observe::read_section)]
    pub observe: Observe,
    #[setting(section)]
    pub autopilot: weir_autopilot::AutopilotSettings,
    #[setting(section)]
    pub traces: weir_traces::TraceSettings,
    #[setting(section)]
    pub budget: Budget,
    /// Processes that run jobs, by the names of their groups.
    #[setting(skip)]
    pub workers: BTreeMap<String, JobWorkers>,
}

/// A settings file that was read without errors.
#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// Every setting with its effective value.
    pub values: Vec<SettingValue>,
    /// Warnings about valid but risky settings.
    pub warnings: Vec<String>,
    /// Settings that the file has under their old names.
    pub renamed: Vec<Renamed>,
}

impl Settings {
    /// Returns the defaults, with everything in `data_dir`.
    pub fn in_data_dir(data_dir: &Path) -> Self {
        let mut settings = Self::default();
        settings.derive_paths(Some(data_dir));
        settings
    }

    /// Returns whether anything is served at `front.listen`.
    pub fn has_front(&self) -> bool {
        let is_proxied = |app: &front::App| app.sockets.is_none();
        let has_apps = !self.realtime.apps.is_empty() || self.front.apps.iter().any(is_proxied);
        let is_needed = has_apps || self.gems.mount().is_some();
        self.front.listen.is_some() && (self.front.is_listen_set || is_needed)
    }

    /// Returns the limit of realtime's connections. If it shares the front, it leaves a quarter to others.
    pub fn realtime_connections_max(&self) -> usize {
        let all = self.front.limits.connections_max;
        let is_shared = !self.front.apps.is_empty() || self.gems.is_enabled;
        let default = if is_shared { all - all / 4 } else { all };
        match self.realtime.settings.limits.connections_total_max {
            usize::MAX => default as usize,
            max => max.min(all as usize),
        }
    }

    /// Returns realtime's settings, limited by the front's limits, and its apps.
    pub fn realtime_in_effect(&self) -> (RealtimeSettings, Vec<AppSettings>) {
        let mut settings = self.realtime.settings.clone();
        settings.limits.connections_total_max = self.realtime_connections_max();
        (settings, self.realtime.apps.clone())
    }

    /// Returns all TCP listening addresses by the names of their settings.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let front =
            self.front.listen.filter(|_| self.has_front()).map(|address| ("front.listen", address));
        let realtime = self.realtime.listen.map(|address| ("realtime.listen", address));
        let jobs = self.jobs.listen.map(|address| ("jobs.listen", address));
        let console = self.console.listen.map(|address| ("console.listen", address));
        let gems = self.gems.address().map(|address| ("gems.listen", address));
        let parts = [jobs, front, realtime, gems, console].into_iter().flatten();
        let apps = self.front.apps.iter().enumerate().filter_map(|(index, app)| {
            let sockets = app.sockets.as_ref()?;
            Some((format!("front.apps[{index}].listen"), sockets.listen))
        });
        parts.map(|(path, address)| (path.to_owned(), address)).chain(apps).collect()
    }

    /// Returns the parts that the settings disable.
    pub fn disabled_parts(&self) -> Vec<Part> {
        let jobs = self.jobs.listen.is_none().then_some(Part::Jobs);
        let console = self.console.listen.is_none().then_some(Part::Console);
        [jobs, console].into_iter().flatten().collect()
    }

    /// Returns the settings of the metrics history, with its folder.
    pub fn history(&self) -> weir_base::history::HistorySettings {
        self.history.within(self.data_dir.join("history"))
    }

    /// Returns the path of the file that stores realtime's switches.
    pub fn switches_file(&self) -> PathBuf {
        self.data_dir.join("switches.json")
    }

    /// Returns the path of the file that stores the tasks of the job server.
    pub fn tasks_file(&self) -> PathBuf {
        self.data_dir.join("job-tasks.json")
    }

    /// Returns the folder of the autopilot's journal.
    pub fn autopilot_folder(&self) -> PathBuf {
        self.data_dir.join("autopilot")
    }

    /// Returns the job system that the autopilot watches: what it may change, or what is set, or Sidekiq if a Redis is
    /// observed that is not the store of Weir's own jobs.
    pub fn autopilot_system(&self) -> JobSystem {
        let is_observed = || {
            let is_store = self.jobs.settings.store == weir_jobs::settings::StoreKind::External;
            !is_store && !self.observe.sources().redis.is_empty()
        };
        let manage = &self.autopilot.manage;
        let is_sidekiq = match self.autopilot.watch {
            _ if manage.iter().any(|managed| managed.group().is_some()) => true,
            WatchedSystem::Sidekiq => true,
            WatchedSystem::Jobs => false,
            WatchedSystem::Auto => manage.is_empty() && is_observed(),
        };
        if is_sidekiq { JobSystem::Sidekiq } else { JobSystem::JobServer }
    }

    /// Returns the folder of the audit log.
    pub fn audit_folder(&self) -> PathBuf {
        self.data_dir.join("audit")
    }

    /// Returns the path of the file with the name of this node.
    pub fn node_file(&self) -> PathBuf {
        self.data_dir.join("node_id")
    }

    /// Returns the path of realtime's histories, from a stop to the next start.
    pub fn histories_file(&self) -> PathBuf {
        self.data_dir.join("realtime-histories")
    }

    /// Returns the folder of the log of realtime's durable histories.
    pub fn durable_histories_folder(&self) -> PathBuf {
        self.data_dir.join("realtime-log")
    }

    /// Returns the path of realtime's histories while a backup copies them.
    pub fn backup_histories_file(&self) -> PathBuf {
        self.data_dir.join("backup-histories")
    }

    /// Returns the path of the file that stores which apps are paused or in maintenance.
    pub fn paused_apps_file(&self) -> PathBuf {
        self.data_dir.join("holds.json")
    }

    /// Returns the groups for a limited class of the jobs of `[workers.NAME]`, as far as there can be one.
    pub fn limited_groups(&self) -> Vec<GroupSpec> {
        let run_folder = self.run_folder();
        let is_taken = |name: &str| {
            self.workers.contains_key(name)
                || self.front.apps.iter().any(|app| app.settings.name == name)
        };
        let room = GROUPS_MAX.saturating_sub(self.workers.len() + self.front.apps.len());
        let groups = self.workers.iter().filter_map(|(name, workers)| {
            let group = workers.limited_group(name, &self.supervisor.restart)?;
            let can_be =
                !is_taken(group.name.as_str()) && spec_errors(&group, &run_folder).is_empty();
            can_be.then_some(group)
        });
        groups.take(room).collect()
    }

    /// Returns the path of the file that stores what operators have changed of workers at run time.
    pub fn worker_overrides_file(&self) -> PathBuf {
        self.data_dir.join("worker-overrides.json")
    }

    /// Returns the folder of the workers' sockets, as an absolute path, because workers have other working
    /// directories. For workers of another user it is outside of data_dir, which only Weir's user may access.
    pub fn run_folder(&self) -> PathBuf {
        if self.has_other_users() {
            self.outside_run_folder()
        } else {
            self.absolute_data_dir().join("run")
        }
    }

    /// Returns the folder of the workers' sockets outside of data_dir.
    pub fn outside_run_folder(&self) -> PathBuf {
        run_folder::outside_folder(&self.absolute_data_dir())
    }

    fn absolute_data_dir(&self) -> PathBuf {
        std::path::absolute(&self.data_dir).unwrap_or_else(|_| self.data_dir.clone())
    }

    /// Returns whether any command runs as another user.
    pub fn has_other_users(&self) -> bool {
        let of_apps =
            self.front.apps.iter().filter_map(|app| Some(&app.processes.as_ref()?.launch));
        let of_jobs = self.workers.values().map(|workers| &workers.launch);
        of_apps.chain(of_jobs).any(|launch| launch.user.is_some())
    }

    /// Returns the path of the admin API's socket.
    pub fn admin_socket(&self) -> PathBuf {
        self.data_dir.join("weir.sock")
    }
}

/// Parses the text of `source`.
pub fn parse(
    source: &Source,
    environment: secrets::Environment<'_>,
) -> Result<Loaded, SettingErrors> {
    finish(source, read(source, environment, None, false))
}

/// Parses settings for commands that need no secrets: secrets that are only in the service's environment are not
/// errors.
pub fn parse_without_secrets(
    source: &Source,
    environment: secrets::Environment<'_>,
) -> Result<Loaded, SettingErrors> {
    finish(source, read(source, environment, Some(MISSING_SECRET), false))
}

/// Placeholder for a secret. Long enough for any.
const MISSING_SECRET: &str = "a secret that only the service knows, and no command needs";

fn finish(source: &Source, read: (Settings, Report)) -> Result<Loaded, SettingErrors> {
    let (settings, mut report) = read;
    if report.errors.is_empty() {
        report.renamed.sort_by_key(|it| it.line);
        let mut warnings: Vec<String> = report.renamed.iter().map(ToString::to_string).collect();
        warnings.extend(report.removed.iter().map(ToString::to_string));
        warnings.extend(checks::collect_warnings(&settings, &report.values));
        let Report { values, renamed, .. } = report;
        return Ok(Loaded { settings, values, warnings, renamed });
    }
    let mut errors = report.errors;
    errors.sort();
    errors.dedup();
    Err(SettingErrors { file: source.name.clone(), errors })
}

fn read(
    source: &Source,
    environment: secrets::Environment<'_>,
    missing_secret: Option<&str>,
    describe: bool,
) -> (Settings, Report) {
    let mut report = Report::new(&source.text);
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        report.errors.push(SettingError::at(&source.text, &span, error.message().to_owned()));
    }
    let mut settings = Settings::default();
    settings.data_dir = source.folder.join(settings.data_dir);
    if report.errors.is_empty() {
        let context = Context { folder: &source.folder, environment, missing_secret, describe };
        let mut keys = TableReader::new(Some(table.get_ref()), &mut report, context);
        settings.read(&mut keys);
        keys.reject_unknown();
        settings.derive_paths(source.data_dir.as_deref());
        report.begin_checks();
        checks::check(&settings, &mut report);
    }
    (settings, report)
}

/// Reads only `data_dir`, for commands that need no other setting. Other errors are ignored.
pub fn data_dir(
    source: &Source,
    environment: secrets::Environment<'_>,
) -> Result<PathBuf, SettingErrors> {
    let mut report = Report::new(&source.text);
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let mut data_dir = source.folder.join(Settings::default().data_dir);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        report.errors.push(SettingError::at(&source.text, &span, error.message().to_owned()));
    }
    if report.errors.is_empty() {
        let context =
            Context { folder: &source.folder, environment, missing_secret: None, describe: false };
        TableReader::new(Some(table.get_ref()), &mut report, context)
            .path(Settings::DATA_DIR, &mut data_dir);
    }
    if report.errors.is_empty() {
        return Ok(data_dir);
    }
    Err(SettingErrors { file: source.name.clone(), errors: report.errors })
}

impl Settings {
    fn read_workers(&mut self, table: &mut TableReader<'_>) {
        let apps: Vec<String> =
            self.front.apps.iter().map(|app| app.settings.name.clone()).collect();
        self.workers = workers::read(table, &apps);
    }

    /// Derives paths from other settings. `data_dir`: the flag, which takes precedence over the file.
    fn derive_paths(&mut self, data_dir: Option<&Path>) {
        if let Some(data_dir) = data_dir {
            self.data_dir = data_dir.to_owned();
        }
        self.jobs.settings.directory = self.data_dir.join("jobs");
        self.jobs.settings.store_servers = self.jobs.servers_text();
        // Jobs in memory do not outlive the process, so their tasks do not either.
        let is_kept = self.jobs.settings.store != weir_jobs::settings::StoreKind::Memory;
        self.jobs.settings.tasks_file = is_kept.then(|| self.tasks_file());
        self.gems.derive_paths(&self.data_dir);
    }
}
