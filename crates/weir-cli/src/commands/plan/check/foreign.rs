//! Layouts in deployment files: systemd units, docker-compose.yml, Procfile, with the files that
//! they refer to (`env_file`, sidekiq.yml, puma.rb, database.yml, postgresql.conf).
//!
//! Nothing is executed. Values that a file leaves to a default of Sidekiq, Puma, Rails or Postgres
//! use that default and are listed as assumed; values set elsewhere (an undefined `$THREADS`) are
//! unknown.

mod command;
mod compose;
mod condition;
mod database;
mod environment;
mod evaluate;
mod files;
mod idle;
mod package;
mod process;
mod procfile;
mod sidekiq;
mod unit;
mod web;
mod words;
mod yaml;

use std::path::Path;

use weir_advisor::plan::{ProcessLayout, RESERVED_CONNECTIONS};

use self::database::ServerLimits;
pub(super) use self::files::candidates;
use self::files::{Folder, Kind};
use self::process::{JudgedProcesses, StartedProcess};

/// A deployment as a layout.
pub(super) struct Deployment {
    /// The files that were read, such as "docker-compose.yml".
    pub(super) files: Vec<String>,
    pub(super) layout: ProcessLayout,
    /// Queues that must be served.
    pub(super) queues: Vec<String>,
    /// Values that use a default.
    pub(super) assumed: Vec<String>,
    /// Unrecognised processes that may hold connections, so that the sum is unknown.
    pub(super) not_judged: Vec<String>,
    /// Processes that do not run by default, are not part of the application, or are in an unread
    /// file.
    pub(super) not_counted: Vec<String>,
}

/// Values given in addition to the files.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatabaseLimits {
    pub(super) max_connections: Option<u32>,
    pub(super) reserve: u32,
}

/// Returns whether it is a file of these kinds, whatever it starts.
pub(super) fn is_known(path: &Path, text: &str) -> bool {
    Kind::detect(path, text).is_some()
}

/// Reads a folder or a file. None: it is no such file, or it starts nothing that may use a
/// database.
pub(super) fn read(path: &Path, given: DatabaseLimits) -> anyhow::Result<Option<Deployment>> {
    let Some((folder, kind)) = Folder::open(path)? else { return Ok(None) };
    let mut judged = JudgedProcesses::default();
    let started = match kind {
        Kind::Units => unit::started(&folder)?,
        Kind::Compose => compose::started(&folder, &mut judged.not_counted)?,
        Kind::Procfile => procfile::started(&folder)?,
    };
    judged.not_counted.extend(folder.describe_skipped());
    started.iter().for_each(|process| judged.add(&folder, process));
    Ok(deployment(&folder, &started, judged, given))
}

fn deployment(
    folder: &Folder,
    started: &[StartedProcess],
    judged: JudgedProcesses,
    given: DatabaseLimits,
) -> Option<Deployment> {
    let JudgedProcesses { workers, services, mut assumed, not_judged, not_counted } = judged;
    if workers.is_empty() && services.is_empty() {
        return None;
    }
    let limits = ServerLimits::from_files(folder, started, given.max_connections);
    assumed.extend(limits.assumed);
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
    Some(Deployment { files: folder.names(), layout, queues, assumed, not_judged, not_counted })
}

#[cfg(test)]
mod tests;
