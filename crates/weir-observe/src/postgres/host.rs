//! Determines the resources of the database if it runs on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use weir_advisor::observation::{DatabaseHost, Fact};
use weir_advisor::plan::postgres_share;

use super::session::PostgresSession;
use crate::memory;

const QUESTION: &str = "SELECT pg_backend_pid(), current_setting('port')";
/// Names of Postgres processes.
const NAMES: [&str; 2] = ["postgres", "postmaster"];
/// Mount point of control groups.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// A Postgres on this machine.
#[derive(Clone, Debug)]
pub(super) struct Local {
    proc: PathBuf,
    backend: u32,
    pub(super) port: u16,
}

impl Local {
    /// Creates one that is known to run here without a query.
    pub(super) fn on(proc: &Path, port: u16) -> Self {
        Self { proc: proc.to_owned(), backend: 0, port }
    }
}

/// Where the database runs, as far as known.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    /// Set if it runs on this machine.
    pub(super) local: Option<Local>,
    /// The port that it listens on, if it differs from the configured one, which then belongs to a
    /// pooler.
    pub(super) other_port: Option<u16>,
}

/// Finds out whether the session's server process is on this machine, by its process ID and name.
pub(super) async fn whereabouts(session: &mut PostgresSession, proc: Option<&Path>) -> Whereabouts {
    let Ok(rows) = session.query(QUESTION).await else { return Whereabouts::default() };
    let number = |column| rows.first()?.get(column)?.parse::<u32>().ok();
    let own_port = number(1).and_then(|port| u16::try_from(port).ok());
    let other_port = own_port.filter(|port| *port != session.port());
    // Its clients use its own port, even if this session does not.
    let port = own_port.unwrap_or(session.port());
    let local = proc.zip(number(0)).and_then(|(proc, backend)| {
        let name = fs::read_to_string(proc.join(backend.to_string()).join("comm")).ok()?;
        NAMES.contains(&name.trim()).then(|| Local { proc: proc.to_owned(), backend, port })
    });
    Whereabouts { local, other_port }
}

/// Returns the memory that other programs leave, or that its control group allows.
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
    // Other machines are not queried.
    seen.map_or(Fact::NotAsked, Fact::Known)
}
