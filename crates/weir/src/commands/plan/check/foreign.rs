//! Layouts in files of others: units of systemd, a docker-compose.yml, a Procfile, with what they name
//! (`env_file`, sidekiq.yml, puma.rb, database.yml, postgresql.conf).
//!
//! Nothing is run. What a file leaves to a default of Sidekiq, Puma, Rails or Postgres is taken as that default
//! and said to be assumed; what is filled in elsewhere (`$THREADS` that nobody sets) is unknown.

mod command;
mod compose;
mod database;
mod environment;
mod evaluate;
mod files;
mod process;
mod procfile;
mod sidekiq;
mod unit;
mod web;
mod yaml;

use std::path::Path;

use weir_advisor::plan::{Layout, RESERVED_CONNECTIONS};

use self::database::Limits;
pub(super) use self::files::candidates;
use self::files::{Folder, Kind};
use self::process::{Judged, Started};

/// What others' files say, as a layout.
pub(super) struct Deployment {
    /// What was read: "docker-compose.yml".
    pub(super) files: Vec<String>,
    pub(super) layout: Layout,
    /// Those that must be served.
    pub(super) queues: Vec<String>,
    /// What no file says and is taken to be as it ships.
    pub(super) assumed: Vec<String>,
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

/// Of a folder, or of one file; none: it is no such file, or nothing in it starts anything that uses a
/// database.
pub(super) fn read(path: &Path, given: Given) -> anyhow::Result<Option<Deployment>> {
    let Some((folder, kind)) = Folder::open(path)? else { return Ok(None) };
    let (started, mut assumed) = match kind {
        Kind::Units => (unit::started(&folder)?, Vec::new()),
        Kind::Compose => compose::started(&folder)?,
        Kind::Procfile => (procfile::started(&folder)?, Vec::new()),
    };
    assumed.extend(folder.left_out());
    Ok(deployment(&folder, &started, assumed, given))
}

fn deployment(
    folder: &Folder,
    started: &[Started],
    mut assumed: Vec<String>,
    given: Given,
) -> Option<Deployment> {
    let limits = Limits::of(folder, started, given.max_connections);
    let mut layout = Layout {
        max_connections: limits.max_connections,
        reserve: given.reserve,
        reserved_connections: limits.reserved.unwrap_or(RESERVED_CONNECTIONS),
        ..Layout::default()
    };
    let mut images = Vec::new();
    for process in started {
        match process::judge(folder, process, &mut assumed) {
            Judged::Worker(worker) => layout.workers.push(worker),
            Judged::Service(service) => layout.services.push(service),
            Judged::Nothing => continue,
        }
        images.push(process.image.as_str());
    }
    let silent = started.iter().filter(|it| it.words.is_empty() && !it.image.is_empty());
    // One of the application's image that others connect to is its web.
    let (webs, others): (Vec<_>, Vec<_>) =
        silent.partition(|it| it.has_ports && images.contains(&it.image.as_str()));
    layout.services.extend(webs.into_iter().map(process::of_image));
    if !others.is_empty() {
        let names: Vec<_> = others.iter().map(|it| it.name.as_str()).collect();
        assumed.push(format!("{}: no command is here, and nothing is counted", names.join(", ")));
    }
    if layout.workers.is_empty() && layout.services.is_empty() {
        return None;
    }
    assumed.extend(limits.assumed);
    let mut queues: Vec<_> = layout.workers.iter().flat_map(|it| it.queues.clone()).collect();
    queues.sort();
    queues.dedup();
    Some(Deployment { files: folder.names(), layout, queues, assumed })
}

#[cfg(test)]
mod tests;
