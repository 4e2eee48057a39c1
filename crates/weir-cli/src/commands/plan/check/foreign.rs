//! Layouts in deployment files: systemd units, docker-compose.yml, Procfile, with the files that
//! they refer to (`env_file`, sidekiq.yml, puma.rb, database.yml, postgresql.conf).
//!
//! Nothing is executed. Values that a file leaves to a default of Sidekiq, Puma, Rails or Postgres
//! use that default and are listed as assumed; values set elsewhere (an undefined `$THREADS`) are
//! unknown.

pub(in crate::commands) mod command;
pub(in crate::commands) mod compose;
mod condition;
mod database;
pub(in crate::commands) mod environment;
mod evaluate;
pub(in crate::commands) mod files;
mod idle;
mod package;
mod process;
mod procfile;
mod sidekiq;
pub(in crate::commands) mod unit;
mod web;
pub(in crate::commands) mod words;
pub(in crate::commands) mod yaml;

use std::path::{Path, PathBuf};

use weir_advisor::plan::{ProcessLayout, RESERVED_CONNECTIONS};

use self::command::Program;
use self::database::ServerLimits;
use self::environment::Environment;
pub(super) use self::files::candidates;
use self::files::{Folder, Kind};
use self::process::{JudgedProcesses, StartedProcess};

/// A deployment as a layout.
pub(in crate::commands) struct Deployment {
    /// The files that were read, such as "docker-compose.yml".
    pub(in crate::commands) files: Vec<String>,
    pub(in crate::commands) layout: ProcessLayout,
    /// The program of each process of the layout, by its name.
    pub(in crate::commands) programs: Vec<(String, Program)>,
    /// The database's `max_connections`, if a file or an option names it.
    pub(in crate::commands) max_connections: Option<u32>,
    /// Queues that must be served.
    pub(in crate::commands) queues: Vec<String>,
    /// Values that use a default.
    pub(in crate::commands) assumed: Vec<String>,
    /// Unrecognised processes that may hold connections, so that the sum is unknown.
    pub(in crate::commands) not_judged: Vec<String>,
    /// Processes that do not run by default, are not part of the application, or are in an unread
    /// file.
    pub(in crate::commands) not_counted: Vec<String>,
}

/// Values given in addition to the files.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct DatabaseLimits {
    pub(in crate::commands) max_connections: Option<u32>,
    pub(in crate::commands) reserve: u32,
}

/// Returns whether it is a file of these kinds, whatever it starts.
pub(super) fn is_known(path: &Path, text: &str) -> bool {
    Kind::detect(path, text).is_some()
}

/// Reads a folder or a file. None: it is no such file, or it starts nothing that may use a
/// database.
pub(in crate::commands) fn read(
    path: &Path,
    given: DatabaseLimits,
) -> anyhow::Result<Option<Deployment>> {
    let Some((folder, kind)) = Folder::open(path)? else { return Ok(None) };
    let mut judged = JudgedProcesses::default();
    let started = match kind {
        Kind::Units => unit::started(&folder)?,
        Kind::Compose => compose::started(&folder, &mut judged.not_counted)?,
        Kind::Procfile => procfile::started(&folder)?,
    };
    judged.not_counted.extend(folder.describe_skipped());
    Ok(judge(&folder, &started, judged, given))
}

/// Reads some units of a folder.
pub(in crate::commands) fn read_units(
    folder: &Path,
    units: Vec<PathBuf>,
    given: DatabaseLimits,
) -> anyhow::Result<Option<Deployment>> {
    let folder = Folder::with_files(folder, units);
    let started = unit::started(&folder)?;
    Ok(judge(&folder, &started, JudgedProcesses::default(), given))
}

/// Reads a compose file with its override.
pub(in crate::commands) fn read_compose(
    folder: &Path,
    files: Vec<PathBuf>,
    given: DatabaseLimits,
) -> anyhow::Result<Option<Deployment>> {
    let folder = Folder::with_files(folder, files);
    let mut judged = JudgedProcesses::default();
    let started = compose::started(&folder, &mut judged.not_counted)?;
    Ok(judge(&folder, &started, judged, given))
}

/// Reads what commands would start in the folder of an application. None: nothing that may use a database.
pub(in crate::commands) fn read_commands(
    folder: &Path,
    commands: &[(&str, &str)],
    environment: &Environment,
    given: DatabaseLimits,
) -> Option<Deployment> {
    let folder = Folder::with_files(folder, Vec::new());
    let process = |(name, command): &(&str, &str)| StartedProcess {
        name: (*name).to_owned(),
        processes: Some(1),
        words: words::split(command).unwrap_or_default(),
        environment: environment.clone(),
        is_unit: true,
        ..StartedProcess::default()
    };
    let started: Vec<StartedProcess> = commands.iter().map(process).collect();
    judge(&folder, &started, JudgedProcesses::default(), given)
}

fn judge(
    folder: &Folder,
    started: &[StartedProcess],
    mut judged: JudgedProcesses,
    given: DatabaseLimits,
) -> Option<Deployment> {
    started.iter().for_each(|process| judged.add(folder, process));
    deployment(folder, started, judged, given)
}

fn deployment(
    folder: &Folder,
    started: &[StartedProcess],
    judged: JudgedProcesses,
    given: DatabaseLimits,
) -> Option<Deployment> {
    let JudgedProcesses { workers, services, programs, mut assumed, not_judged, not_counted } =
        judged;
    if workers.is_empty() && services.is_empty() {
        return None;
    }
    let limits = ServerLimits::from_files(folder, started, given.max_connections);
    assumed.extend(limits.assumed.clone());
    let mut queues: Vec<_> = workers.iter().flat_map(|it| it.queues.clone()).collect();
    queues.sort();
    queues.dedup();
    let layout = ProcessLayout {
        services,
        workers,
        max_connections: limits.max_connections,
        reserve: given.reserve,
        reserved_connections: limits.reserved.unwrap_or(RESERVED_CONNECTIONS),
        ..ProcessLayout::default()
    };
    Some(Deployment {
        files: folder.names(),
        max_connections: limits.assumed.is_none().then_some(limits.max_connections),
        layout,
        programs,
        queues,
        assumed,
        not_judged,
        not_counted,
    })
}

#[cfg(test)]
mod tests;
