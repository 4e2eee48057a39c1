//! `weir.toml` -> typed [`Settings`], once; all errors together. The only place that reads the
//! environment.
//!
//! - [`keys`]: how one key is defined and read; everything else follows from those definitions.
//! - [`jobs`], [`console`], [`front`], [`realtime`], [`gems`], [`observe`], [`workers`], [`process`]: the
//!   sections.
//! - [`checks`]: what no single key can tell.
//! - [`reference`]: docs/reference/settings.md and the commented file of `weir init`.

mod change;
mod checks;
mod console;
pub mod environment;
mod front;
mod gems;
mod jobs;
mod keys;
mod launch;
mod observe;
pub mod part;
mod pools;
mod process;
mod realtime;
pub mod reference;
pub mod run_folder;
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
use weir_realtime::settings::{AppSettings, Settings as RealtimeSettings};
use weir_settings::{Context, Report, Section, SettingValue};
pub use weir_settings::{SettingError, SettingErrors, did_you_mean, secrets, units};

pub use self::change::{change_of, without_reload};
pub use self::front::{App, Front, Processes, SharedSockets};
pub use self::gems::{Gems, Mirror, StoreKind, read_policy_file};
pub use self::jobs::Jobs;
use self::keys::{Key, Keys};
pub use self::launch::Recycling;
pub use self::observe::Observe;
pub use self::pools::{format_pool, pool};
pub use self::process::{Admin, Log, LogFormat, LogLevel, Supervisor};
pub use self::realtime::Realtime;
pub use self::source::Source;
pub use self::workers::JobWorkers;
use crate::part::Part;
pub use weir_settings::Change;

/// Everything that an operator can set.
#[derive(Clone, Debug)]
pub struct Settings {
    pub data_dir: PathBuf,
    pub shutdown_deadline: Duration,
    pub log: Log,
    pub supervisor: Supervisor,
    pub admin: Admin,
    pub jobs: Jobs,
    pub front: Front,
    pub realtime: Realtime,
    pub gems: Gems,
    pub observe: Observe,
    /// Processes that work off jobs, by the names of their groups.
    pub workers: BTreeMap<String, JobWorkers>,
    pub console: weir_console::settings::Settings,
    /// `console.listen` is not `"off"`.
    pub has_console: bool,
    pub history: weir_base::history::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("data"),
            // systemd waits 90 s before it kills; a fetch that waits ends after 2.
            shutdown_deadline: Duration::from_secs(25),
            log: Log::default(),
            supervisor: Supervisor::default(),
            admin: Admin::default(),
            jobs: Jobs::default(),
            front: Front::default(),
            realtime: Realtime::default(),
            gems: Gems::default(),
            observe: Observe::default(),
            workers: BTreeMap::new(),
            console: weir_console::settings::Settings::default(),
            has_console: true,
            history: weir_base::history::Settings::default(),
        }
    }
}

/// A file that was read without a mistake.
#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// Every setting, as it is in effect.
    pub values: Vec<SettingValue>,
    /// Sound, but worth a thought.
    pub warnings: Vec<String>,
}

impl Settings {
    /// The defaults, with everything in `data_dir`.
    pub fn in_data_dir(data_dir: &Path) -> Self {
        let mut settings = Self::default();
        settings.settle(Some(data_dir));
        settings
    }

    /// Whether there is anything to serve at `front.listen`.
    pub fn has_front(&self) -> bool {
        let is_proxied = |app: &front::App| app.sockets.is_none();
        let has_apps = !self.realtime.apps.is_empty() || self.front.apps.iter().any(is_proxied);
        let is_needed = has_apps || self.gems.mount().is_some();
        !self.front.is_off && (self.front.is_listen_set || is_needed)
    }

    /// How many connections realtime may have: what it shares with others leaves some to them.
    pub fn realtime_connections_max(&self) -> usize {
        let all = self.front.limits.connections_max;
        let is_shared = !self.front.apps.is_empty() || self.gems.is_enabled;
        let default = if is_shared { all - all / 4 } else { all };
        self.realtime.connections_total_max.map_or(default, |max| max.min(all)) as usize
    }

    /// Realtime's settings and apps, with what the file leaves to the front's.
    pub fn realtime_in_effect(&self) -> (RealtimeSettings, Vec<AppSettings>) {
        let (mut settings, mut apps) = (self.realtime.settings.clone(), self.realtime.apps.clone());
        let max = self.realtime_connections_max();
        settings.limits.connections_total_max = max;
        for app in &mut apps {
            app.connections_max = app.connections_max.min(max);
        }
        (settings, apps)
    }

    /// What is listened on over TCP, by the names of the settings.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let front = self.has_front().then_some(("front.listen", self.front.listen));
        let realtime = self.realtime.listen.map(|address| ("realtime.listen", address));
        let jobs = self.jobs.listen.map(|address| ("jobs.listen", address));
        let console = self.has_console.then_some(("console.listen", self.console.listen));
        let gems = self.gems.address().map(|address| ("gems.listen", address));
        let parts = [jobs, front, realtime, gems, console].into_iter().flatten();
        let apps = self.front.apps.iter().enumerate().filter_map(|(index, app)| {
            let sockets = app.sockets.as_ref()?;
            Some((format!("front.apps[{index}].listen"), sockets.listen))
        });
        parts.map(|(path, address)| (path.to_owned(), address)).chain(apps).collect()
    }

    /// The parts that are off by their settings.
    pub fn parts_off(&self) -> Vec<Part> {
        let jobs = self.jobs.listen.is_none().then_some(Part::Jobs);
        let console = (!self.has_console).then_some(Part::Console);
        [jobs, console].into_iter().flatten().collect()
    }

    /// Where it is kept what is switched off.
    pub fn switches_file(&self) -> PathBuf {
        self.data_dir.join("switches.json")
    }

    /// Where it is kept which apps are paused or in maintenance.
    pub fn holds_file(&self) -> PathBuf {
        self.data_dir.join("holds.json")
    }

    /// Where the workers have their sockets. In full, for they run elsewhere. Those of other users
    /// could not pass through data_dir, which is nobody else's business.
    pub fn run_folder(&self) -> PathBuf {
        if self.has_other_users() {
            self.outside_run_folder()
        } else {
            self.whole_data_dir().join("run")
        }
    }

    /// Where they have them while some command runs as somebody else.
    pub fn outside_run_folder(&self) -> PathBuf {
        run_folder::outside_of(&self.whole_data_dir())
    }

    fn whole_data_dir(&self) -> PathBuf {
        std::path::absolute(&self.data_dir).unwrap_or_else(|_| self.data_dir.clone())
    }

    /// Whether some command runs as somebody else.
    pub fn has_other_users(&self) -> bool {
        let of_apps =
            self.front.apps.iter().filter_map(|app| Some(&app.processes.as_ref()?.launch));
        let of_jobs = self.workers.values().map(|workers| &workers.launch);
        of_apps.chain(of_jobs).any(|launch| launch.user.is_some())
    }

    /// Where the admin API listens.
    pub fn admin_socket(&self) -> PathBuf {
        self.data_dir.join("weir.sock")
    }
}

/// Parses the text of `source`.
pub fn parse(
    source: &Source,
    environment: secrets::Environment<'_>,
) -> Result<Loaded, SettingErrors> {
    let (settings, report) = read(source, environment, false);
    if report.errors.is_empty() {
        let warnings = checks::warnings(&settings);
        return Ok(Loaded { settings, values: report.values, warnings });
    }
    let mut errors = report.errors;
    errors.sort();
    errors.dedup();
    Err(SettingErrors { file: source.name.clone(), errors })
}

fn read(
    source: &Source,
    environment: secrets::Environment<'_>,
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
        let context = Context { folder: &source.folder, environment, describe };
        let mut keys = Keys::new(Some(table.get_ref()), &mut report, context);
        read_all(&mut keys, &mut settings);
        keys.reject_unknown();
        settings.settle(source.data_dir.as_deref());
        report.begin_checks();
        checks::check(&settings, &mut report);
    }
    (settings, report)
}

/// That setting alone, for commands that need no other: what else is wrong is none of their business.
pub fn data_dir(source: &Source) -> Result<PathBuf, SettingErrors> {
    let mut report = Report::new(&source.text);
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let mut data_dir = source.folder.join(Settings::default().data_dir);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        report.errors.push(SettingError::at(&source.text, &span, error.message().to_owned()));
    }
    if report.errors.is_empty() {
        let context = Context { folder: &source.folder, environment: &|_| None, describe: false };
        Keys::new(Some(table.get_ref()), &mut report, context).path(DATA_DIR, &mut data_dir);
    }
    if report.errors.is_empty() {
        return Ok(data_dir);
    }
    Err(SettingErrors { file: source.name.clone(), errors: report.errors })
}

const DATA_DIR: weir_settings::Setting = Key::fixed(
    "data_dir",
    "Folder for everything that Weir keeps; made when missing, for its user alone. Relative paths start at the folder of this file.",
);

fn read_all(keys: &mut Keys<'_>, settings: &mut Settings) {
    keys.path(DATA_DIR, &mut settings.data_dir);
    keys.duration(
        Key::fixed("shutdown_deadline", "After SIGTERM, work in hand has this long to finish."),
        Duration::ZERO..=units::HOUR,
        &mut settings.shutdown_deadline,
    );
    keys.section("log", |keys| settings.log.read(keys));
    keys.section("jobs", |keys| settings.jobs.read(keys));
    keys.section("front", |keys| settings.front.read(keys));
    keys.section("realtime", |keys| settings.realtime.read(keys));
    settings.gems.is_enabled = keys.is_set("gems");
    keys.section("gems", |keys| settings.gems.read(keys));
    let apps: Vec<String> =
        settings.front.apps.iter().map(|app| app.settings.name.clone()).collect();
    settings.workers = workers::read(keys, &apps);
    keys.section("console", |keys| {
        settings.has_console = console::read(keys, &mut settings.console);
    });
    keys.section("history", |keys| process::read_history(keys, &mut settings.history));
    keys.section("admin", |keys| settings.admin.read(keys));
    keys.section("supervisor", |keys| settings.supervisor.read(keys));
    settings.observe.is_enabled = keys.is_set("observe");
    keys.section("observe", |keys| settings.observe.read(keys));
    keys.later(&["budget"]);
}

impl Settings {
    /// Derives what depends on other settings. `data_dir`: the flag, which wins over the file.
    fn settle(&mut self, data_dir: Option<&Path>) {
        if let Some(data_dir) = data_dir {
            self.data_dir = data_dir.to_owned();
        }
        self.jobs.settings.directory = self.data_dir.join("jobs");
        self.history.directory = self.data_dir.join("history");
        self.gems.settle(&self.data_dir);
    }
}
