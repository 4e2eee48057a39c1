//! What runs the application today: systemd units, docker compose, or commands that someone starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use weir_advisor::observation::{
    Capsule, JobProcess, ProcessPresence, SidekiqObservation, WeightedQueue,
};
use weir_advisor::plan::{Gap, ProcessLayout, ServiceLayout, WorkerLayout};

use super::compose::ComposeApp;
use super::findings::Findings;
use super::folder::AppFolder;
use super::units::{self, AppUnit};
use crate::commands::plan::check::foreign::command::Program;
use crate::commands::plan::check::foreign::environment::Environment;
use crate::commands::plan::check::foreign::{
    self, DatabaseLimits, Deployment, read_commands, read_units,
};

/// Processes of a kind that are taken from files; more would be a mistake.
const PROCESSES_MAX: u32 = 200;
/// Threads of a Sidekiq whose number is unknown, its default.
const CONCURRENCY: u32 = 5;
/// Left free, as by `weir plan`.
const RESERVE: u32 = 15;
/// Folders that are there only if the application was installed on this machine.
const INSTALLED: [&str; 4] = ["vendor/bundle", "node_modules", ".bundle", "public/packs"];

/// What runs the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunBy {
    /// Units in /etc/systemd/system (or --units)
    Systemd,
    /// The compose file in the folder
    Compose,
    /// Neither: a Procfile, or commands
    Commands,
}

/// The processes of today.
pub(super) struct Today {
    pub(super) run_by: RunBy,
    pub(super) units: Vec<AppUnit>,
    pub(super) compose: Option<ComposeApp>,
    /// None: no file says what runs.
    pub(super) deployment: Option<Deployment>,
}

impl Today {
    /// Reads the files of `run_by`, or of what the folder shows.
    pub(super) fn read(
        folder: &AppFolder,
        units_folder: &Path,
        run_by: Option<RunBy>,
        commands: &[(&str, &str)],
        findings: &mut Findings,
    ) -> anyhow::Result<Self> {
        let units = match run_by {
            None | Some(RunBy::Systemd) => units::find(units_folder, folder, findings),
            _ => Vec::new(),
        };
        let is_installed = INSTALLED.iter().any(|name| folder.has(name));
        let run_by = run_by.unwrap_or_else(|| {
            let (run_by, why) = if !units.is_empty() {
                return RunBy::Systemd;
            } else if folder.first(&foreign::files::COMPOSE).is_none() {
                (RunBy::Commands, "there is neither a unit for this folder nor a compose file")
            } else if is_installed {
                (RunBy::Commands, "there is a compose file, but the application is installed here")
            } else {
                (
                    RunBy::Compose,
                    "there is a compose file, and the application is not installed here",
                )
            };
            let name = run_by.to_possible_value().map(|it| it.get_name().to_owned());
            findings.assumed.push(format!("--from {}: {why}", name.unwrap_or_default()));
            run_by
        });
        let compose = match run_by {
            RunBy::Compose => ComposeApp::read(folder)?,
            _ => None,
        };
        let deployment =
            deployment(folder, units_folder, run_by, &units, compose.as_ref(), commands)?;
        let today = Self { run_by, units, compose, deployment };
        today.note(findings);
        Ok(today)
    }

    /// Adds what was read, and what was not.
    fn note(&self, findings: &mut Findings) {
        let Some(Deployment { files, assumed, not_judged, .. }) = &self.deployment else { return };
        if self.run_by != RunBy::Systemd && !files.is_empty() {
            findings.read.push(files.join(", "));
        }
        // The plan has a limit of its own, and says so.
        let of_processes = assumed.iter().filter(|it| !it.starts_with("max_connections"));
        findings.assumed.extend(of_processes.cloned());
        let name = |it: &String| it.split(": ").next().unwrap_or_default().to_owned();
        findings.not_managed.extend(not_judged.iter().map(|it| {
            format!("{}: what it starts is not known; it keeps running as it does", name(it))
        }));
    }

    pub(super) fn layout(&self) -> Option<&ProcessLayout> {
        self.deployment.as_ref().map(|it| &it.layout)
    }

    /// Returns the services of a program.
    pub(super) fn services(&self, program: Program) -> impl Iterator<Item = &ServiceLayout> {
        let programs = self.deployment.iter().flat_map(|it| &it.programs);
        let names: BTreeSet<&str> =
            programs.filter(|(_, it)| *it == program).map(|(name, _)| name.as_str()).collect();
        let services = self.layout().into_iter().flat_map(|it| &it.services);
        services.filter(move |it| names.contains(it.name.as_str()))
    }

    pub(super) fn workers(&self) -> impl Iterator<Item = &WorkerLayout> {
        self.layout().into_iter().flat_map(|it| &it.workers)
    }

    /// Returns the unit whose process the layout has under this name.
    pub(super) fn unit_of(&self, program: Program) -> Option<&AppUnit> {
        let programs = self.deployment.iter().flat_map(|it| &it.programs);
        let mut names = programs.filter(|(_, it)| *it == program).map(|(name, _)| name.as_str());
        names.find_map(|name| {
            let units = self.units.iter().filter(|unit| unit.plain_name() == name);
            // Not the unit that only wants instances of this one, and runs /bin/true.
            units.max_by_key(|unit| unit.words.len())
        })
    }

    /// Returns what Redis would show of the processes of Sidekiq. Those whose queues are unknown serve all of `queues`.
    pub(super) fn jobs(&self, queues: &[String]) -> SidekiqObservation {
        let process = |(pid, worker): (u32, &WorkerLayout)| {
            let is_unknown = worker.gaps.contains(&Gap::Queues);
            let names = if is_unknown { queues } else { &worker.queues };
            let weighted = |name: &String| WeightedQueue { name: name.clone(), weight: 0 };
            let is_counted = !worker.gaps.contains(&Gap::Threads);
            JobProcess {
                identity: format!("{}:{pid}:0", worker.name),
                pid,
                capsules: vec![Capsule {
                    name: "default".to_owned(),
                    concurrency: if is_counted { worker.concurrency } else { CONCURRENCY },
                    ordering: worker.ordering,
                    queues: names.iter().map(weighted).collect(),
                }],
                presence: ProcessPresence::Seen,
                ..JobProcess::default()
            }
        };
        let each = self
            .workers()
            .flat_map(|worker| (0..worker.processes.min(PROCESSES_MAX)).map(move |_| worker));
        SidekiqObservation {
            processes: (1..).zip(each).map(process).collect(),
            ..SidekiqObservation::default()
        }
    }
}

fn deployment(
    folder: &AppFolder,
    units_folder: &Path,
    run_by: RunBy,
    units: &[AppUnit],
    compose: Option<&ComposeApp>,
    commands: &[(&str, &str)],
) -> anyhow::Result<Option<Deployment>> {
    let given = DatabaseLimits { max_connections: None, reserve: RESERVE };
    match run_by {
        RunBy::Systemd => {
            read_units(units_folder, units.iter().map(|unit| unit.file.clone()).collect(), given)
        }
        RunBy::Compose => {
            let files = compose.into_iter().flat_map(|app| &app.files);
            let files: Vec<PathBuf> = files.map(|file| folder.path.join(file)).collect();
            foreign::read_compose(&folder.path, files, given)
        }
        RunBy::Commands => {
            let procfile = folder.path.join("Procfile");
            if procfile.is_file()
                && let Some(deployment) = foreign::read(&procfile, given)?
            {
                return Ok(Some(deployment));
            }
            let mut environment = Environment::default();
            environment.set("RAILS_ENV", "production");
            Ok(read_commands(&folder.path, commands, &environment, given))
        }
    }
}
