//! `[budget]`: how many connections to the database there are.

use weir_settings::Section;

/// Connections to the database.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(upgrade, path = "budget")]
pub struct Budget {
    /// Connections that the database accepts: its max_connections, or what the pooler permits. The
    /// processes of all [workers.NAME] together never have more than this less reserve, also while
    /// they are replaced. None: connections are not counted.
    #[setting(range = 1..=CONNECTIONS_MAX)]
    pub database_connections: Option<u32>,
    /// Of these, connections for everything else: web workers, consoles, migrations, backups.
    #[setting(range = 0..=CONNECTIONS_MAX, default = 15)]
    pub reserve: u32,
}

/// More than any database or pooler accepts.
const CONNECTIONS_MAX: u64 = 1_000_000;

impl Budget {
    /// Returns the connections that all job workers together may have. None: they are not counted.
    pub fn of_job_workers(&self) -> Option<u32> {
        self.database_connections.map(|all| all.saturating_sub(self.reserve))
    }
}
