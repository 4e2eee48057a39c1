//! `weir up`: the process that stays. It locks the data directory, binds the listening sockets,
//! starts the service process with them and supervises it; it serves nothing itself.

mod applied_settings;
mod handover;
mod listeners;
mod port;
mod salvage;
mod shared_sockets;
mod takeover;
mod upgrade;
mod workers;

use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::{Context, bail};
use weir_cli::data_dir::lock::{self, Lock};
use weir_cli::{Exit, output};
use weir_supervisor::carried::{CarriedSupervisor, Carrier};
use weir_supervisor::notify::Notify;
use weir_supervisor::requests::Requests;
use weir_supervisor::workers::FailedGroup;
use weir_supervisor::{ChildSpec, Events, SupervisionOutcome, Supervisor};

use self::applied_settings::AppliedSettings;
pub(crate) use self::handover::{DESCRIPTOR, Flags, Handover};
use self::listeners::Listeners;
pub(crate) use self::listeners::{ADMIN, FRONT, GEMS, REALTIME, core_socket_name};
use self::shared_sockets::Groups;
pub(crate) use self::shared_sockets::{address, adopt};
pub(crate) use self::takeover::{check, resume};
use self::upgrade::{Carried, Program};
use crate::logging;
use weir_config::part::Part;
use weir_config::{Loaded, Settings, environment};

/// The name of the descriptor of the parent's log, for a service that outlives the parent.
pub(crate) const LOG: &str = "log";

/// The service runs this very program, even if the file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";

/// Runs until it is asked to stop. `salvage`: first repair the job store.
pub(crate) fn run(handover: Handover, salvage: bool) -> anyhow::Result<Exit> {
    // First: signals must be blocked in this thread before another one exists.
    let requests = Requests::signals().context("cannot receive signals")?;
    let loaded = handover.load(&environment::variable)?;
    let settings = &loaded.settings;
    let only = handover.only(settings)?;
    if salvage && !Part::Jobs.is_among(&only) {
        bail!("--salvage repairs the job store, but --only or jobs.listen = \"off\" excludes it");
    }
    let log = logging::start(&settings.log, logging::stderr_is_coloured());
    log_warnings(&handover, &loaded);

    let wait = settings.supervisor.orphan_wait;
    let lock = Lock::take(&settings.data_dir, wait)?;
    weir_cli::data_dir::check_restored(&settings.data_dir)?;
    if salvage {
        salvage::run(&settings.jobs.settings)?;
    }
    let listeners = Listeners::bind(settings, &only)?;
    let groups = Groups::bind(settings, &only, wait, |_| None).inspect_err(|_| {
        let _ = std::fs::remove_file(settings.admin_socket());
    })?;
    let ready_line = listeners.ready_line() + &groups.ready_words();
    let addresses = listeners.urls().into_iter().chain(groups.urls()).collect();
    let text = handover::SettingsFile::new(&handover)?;
    let child = service_spec(settings, listeners, &groups, &lock, &text)?;
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    let mut parent = Parent {
        handover,
        previous: None,
        applied: AppliedSettings::from_settings(settings),
        program: Program::running()?,
        text,
        log,
        ready_line,
        addresses,
    };
    let supervisor = Supervisor::new(vec![child], requests, notify()?, stderr);
    let fleet = workers::fleet(settings, &only, &groups)?;
    let supervisor = supervisor.with_workers(fleet).adopting_orphans()?;
    let deadline = settings.supervisor.replace_deadline;
    let outcome = supervisor.replacing_service_within(deadline).run(&mut parent);
    Ok(finish(&outcome, settings, lock))
}

fn finish(outcome: &SupervisionOutcome, settings: &Settings, lock: Lock) -> Exit {
    // The service is gone; a stale socket file would be confusing.
    let _ = std::fs::remove_file(settings.admin_socket());
    workers::remove_run_folder(settings);
    drop(lock);
    match outcome {
        SupervisionOutcome::Stopped => Exit::Fine,
        SupervisionOutcome::Killed => Exit::Failed,
        // The reason is in the log.
        SupervisionOutcome::GaveUp(_) => Exit::Failed,
    }
}

fn log_warnings(handover: &Handover, loaded: &Loaded) {
    if handover.source.is_default {
        let folder = std::env::current_dir().unwrap_or_default();
        tracing::info!(folder = %folder.display(), "no weir.toml found; using the defaults");
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
}

fn service_spec(
    settings: &Settings,
    listeners: Listeners,
    groups: &Groups,
    lock: &Lock,
    text: &handover::SettingsFile,
) -> anyhow::Result<ChildSpec> {
    let mut descriptors = listeners.into_descriptors();
    descriptors.extend(groups.descriptors()?);
    descriptors.push((handover::DESCRIPTOR.to_owned(), text.descriptor()?));
    // A service that briefly outlives its parent still holds the lock.
    descriptors.push((lock::DESCRIPTOR.to_owned(), lock.descriptor()?));
    // The parent writes what the service logs; without a parent, the service does.
    descriptors.push((LOG.to_owned(), std::io::stderr().as_fd().try_clone_to_owned()?));
    Ok(ChildSpec {
        name: "service".to_owned(),
        program: PathBuf::from(PROGRAM),
        arguments: vec!["service".into()],
        environment: Vec::new(),
        descriptors,
        restart: settings.supervisor.restart.clone(),
        unresponsive_after: settings.supervisor.unresponsive_after(),
        stop_deadline: settings.shutdown_deadline + settings.supervisor.kill_after,
        old_processes_max: Some(settings.supervisor.old_processes_max),
    })
}

fn notify() -> anyhow::Result<Notify> {
    match environment::systemd() {
        Some((socket, watchdog)) => {
            Notify::connect(&socket, watchdog).context("NOTIFY_SOCKET can't be used")
        }
        None => Ok(Notify::disabled()),
    }
}

/// The parent's callbacks of the lifecycle.
struct Parent {
    handover: Handover,
    /// The settings of the service that is being replaced, to be restored if the new one fails.
    previous: Option<Handover>,
    applied: AppliedSettings,
    program: Program,
    text: handover::SettingsFile,
    log: logging::Logging,
    ready_line: String,
    /// The same addresses for people.
    addresses: Vec<String>,
}

impl Events for Parent {
    fn ready(&mut self, failed: &[FailedGroup]) {
        for address in &self.addresses {
            tracing::info!("{address}");
        }
        // In one write: a reader of one line may close the pipe before a second write.
        output::raw(&ready_text(&self.ready_line, failed));
    }

    /// Only valid settings reach the service, also when it is restarted. For invalid ones, the
    /// service gets the previous settings, marked as such.
    fn reload(&mut self) -> bool {
        match self.reread() {
            Ok(loaded) => {
                self.log.set_level(loaded.settings.log.level);
                self.previous = None;
                true
            }
            Err(error) => {
                tracing::error!(
                    "settings not reloaded, the previous ones stay in effect: {error:#}"
                );
                let previous = Handover { is_previous: true, ..self.handover.clone() };
                if let Err(error) = self.text.replace(&previous) {
                    tracing::error!("cannot restore the previous settings: {error:#}");
                }
                false
            }
        }
    }

    /// Passes the current settings to the new process.
    fn replacing(&mut self) -> Result<(), String> {
        self.prepare_replacement().map_err(|error| format!("{error:#}"))
    }

    fn upgrade(&mut self, state: &CarriedSupervisor, carrier: Carrier) -> String {
        let (handover, data_dir) = (self.handover.clone(), self.applied.data_dir.clone());
        let carried = Carried::new(handover, data_dir, &self.applied, state);
        format!("{:#}", self.program.reexec(&carried, carrier))
    }

    fn replaced(&mut self, is_done: bool) {
        let Some(previous) = self.previous.take().filter(|_| !is_done) else { return };
        match self.text.replace(&previous) {
            Ok(()) => self.handover = previous,
            Err(error) => tracing::error!("cannot restore the previous settings: {error:#}"),
        }
    }
}

impl Parent {
    fn reread(&mut self) -> anyhow::Result<Loaded> {
        let fresh = self.handover.reread()?;
        let loaded = fresh.load(&environment::variable)?;
        self.text.replace(&fresh)?;
        self.handover = fresh;
        Ok(loaded)
    }

    fn prepare_replacement(&mut self) -> anyhow::Result<()> {
        let fresh = self.handover.reread()?;
        let loaded = fresh.load(&environment::variable)?;
        let differences =
            self.applied.differences(&AppliedSettings::from_settings(&loaded.settings));
        if !differences.is_empty() {
            let changed = differences.join("; ");
            bail!(
                "settings of the parent process changed ({changed}); apply them with `weir upgrade` (data_dir and the sockets of an existing app need a stop and a start)"
            );
        }
        self.text.replace(&fresh)?;
        self.previous = Some(std::mem::replace(&mut self.handover, fresh));
        self.log.set_level(loaded.settings.log.level);
        Ok(())
    }
}

/// Returns the line that scripts read, followed by the groups that do not run.
fn ready_text(ready_line: &str, failed: &[FailedGroup]) -> String {
    let names: Vec<&str> = failed.iter().map(|group| group.name.as_str()).collect();
    let field =
        if names.is_empty() { String::new() } else { format!(" failed={}", names.join(",")) };
    let why = failed.iter().map(|group| format!("{} does not run: {}\n", group.name, group.reason));
    format!("{ready_line}{field}\n{}", why.collect::<String>())
}
