//! Layouts in files of others: units of systemd, a docker-compose.yml, a Procfile, with what they name
//! (`env_file`, sidekiq.yml, puma.rb, database.yml, postgresql.conf).
//!
//! Nothing is run. What a file leaves to a default of Sidekiq, Puma, Rails or Postgres is taken as that default
//! and said to be assumed; what is filled in elsewhere (`$THREADS` that nobody sets) is unknown.

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

use self::database::Limits;
pub(super) use self::files::candidates;
use self::files::{Folder, Kind};
use self::process::{Judged, Started};

/// What others' files say, as a layout.
pub(super) struct Deployment {
    /// What was read: "docker-compose.yml".
    pub(super) files: Vec<String>,
    pub(super) layout: ProcessLayout,
    /// Those that must be served.
    pub(super) queues: Vec<String>,
    /// What no file says and is taken to be as it ships.
    pub(super) assumed: Vec<String>,
    /// Processes that may hold connections and are not recognised: the sum is unknown.
    pub(super) not_judged: Vec<String>,
    /// What does not run by default, is not the application's, or stands in a file that is not read.
    pub(super) not_counted: Vec<String>,
}

/// What is given beside the files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) max_connections: Option<u32>,
    pub(super) reserve: u32,
}

/// Whether it is a file of these kinds, whatever it starts.
pub(super) fn is_known(path: &Path, text: &str) -> bool {
    Kind::of(path, text).is_some()
}

/// Of a folder, or of one file; none: it is no such file, or nothing in it starts anything that may use a
/// database.
pub(super) fn read(path: &Path, given: Given) -> anyhow::Result<Option<Deployment>> {
    let Some((folder, kind)) = Folder::open(path)? else { return Ok(None) };
    let mut judged = Judged::default();
    let started = match kind {
        Kind::Units => unit::started(&folder)?,
        Kind::Compose => compose::started(&folder, &mut judged.not_counted)?,
        Kind::Procfile => procfile::started(&folder)?,
    };
    judged.not_counted.extend(folder.left_out());
    started.iter().for_each(|process| judged.add(&folder, process));
    Ok(deployment(&folder, &started, judged, given))
}

fn deployment(
    folder: &Folder,
    started: &[Started],
    judged: Judged,
    given: Given,
) -> Option<Deployment> {
    let Judged { workers, services, mut assumed, not_judged, not_counted } = judged;
    if workers.is_empty() && services.is_empty() {
        return None;
    }
    let limits = Limits::of(folder, started, given.max_connections);
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
