//! What the database runs on, where that is this machine.

use std::fs;
use std::path::{Path, PathBuf};

use weir_advisor::observation::{DatabaseHost, Fact};
use weir_advisor::plan::postgres_share;

use super::session::PostgresSession;
use crate::memory;

const QUESTION: &str = "SELECT pg_backend_pid(), current_setting('port')";
/// The kernel's name of a process of Postgres.
const NAMES: [&str; 2] = ["postgres", "postmaster"];
/// Where control groups are mounted.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// A Postgres on this machine.
#[derive(Clone, Debug)]
pub(super) struct Local {
    proc: PathBuf,
    backend: u32,
    pub(super) port: u16,
}

impl Local {
    /// One that is known to be here without being asked.
    pub(super) fn on(proc: &Path, port: u16) -> Self {
        Self { proc: proc.to_owned(), backend: 0, port }
    }
}

/// Where it runs, as far as it tells.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    /// It runs on this machine.
    pub(super) local: Option<Local>,
    /// The port that it listens on, where the address that was given has another one: what answers there
    /// passes connections on.
    pub(super) other_port: Option<u16>,
}

/// Its own process answers: if there is one of that number and name here, this is where it runs.
pub(super) async fn whereabouts(session: &mut PostgresSession, proc: Option<&Path>) -> Whereabouts {
    let Ok(rows) = session.query(QUESTION).await else { return Whereabouts::default() };
    let number = |column| rows.first()?.get(column)?.parse::<u32>().ok();
    let own_port = number(1).and_then(|port| u16::try_from(port).ok());
    let other_port = own_port.filter(|port| *port != session.port());
    // Its clients connect to its own port, whatever way this session came.
    let port = own_port.unwrap_or(session.port());
    let local = proc.zip(number(0)).and_then(|(proc, backend)| {
        let name = fs::read_to_string(proc.join(backend.to_string()).join("comm")).ok()?;
        NAMES.contains(&name.trim()).then(|| Local { proc: proc.to_owned(), backend, port })
    });
    Whereabouts { local, other_port }
}

/// What other programs leave it of the machine, or its control group allows.
pub(super) fn host(local: Option<&Local>) -> Fact<DatabaseHost> {
    let seen = local.and_then(|local| {
        let left = memory::left_for(&local.proc, &NAMES)?;
        let total = memory::total(&local.proc)?;
        let limit = memory::group_limit(&local.proc, local.backend, Path::new(CONTROL_GROUPS));
        let limit = limit.filter(|limit| *limit < total);
        Some(DatabaseHost {
            memory_bytes: limit.map_or(left, |limit| left.min(limit)),
            share_bytes: limit.unwrap_or_else(|| postgres_share(total)),
            is_said: false,
        })
    });
    // Of another machine nobody was asked.
    seen.map_or(Fact::NotAsked, Fact::Known)
}
