//! What PgBouncer says of itself: its pools, and who waits at them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

/// `SHOW POOLS`, `SHOW DATABASES` and `SHOW CONFIG`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PgBouncer {
    /// One for each database and user; those with the longest wait first.
    pub pools: Vec<ConnectionPool>,
    /// There are more.
    pub has_more_pools: bool,
    /// Where its databases lead to.
    pub databases: Vec<PooledDatabase>,
    /// What it was told.
    pub settings: PgBouncerSettings,
}

/// Connections that the clients of one user in one database share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionPool {
    /// As clients name it.
    pub database: String,
    /// Whose.
    pub user: String,
    /// `pool_mode`: "transaction", "session" or "statement".
    pub mode: String,
    /// Clients that have a connection, or do nothing (`cl_active`).
    pub clients_active: u32,
    /// Clients that wait for one (`cl_waiting`).
    pub clients_waiting: u32,
    /// How long the first of them has waited (`maxwait`).
    pub longest_wait: Duration,
    /// Connections that a client has (`sv_active`).
    pub connections_active: u32,
    /// Connections that are free (`sv_idle`).
    pub connections_idle: u32,
    /// All of them, also those that are being opened, tested or ended.
    pub connections: u32,
}

/// One of its databases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PooledDatabase {
    /// As clients name it.
    pub name: String,
    /// The server that it leads to; empty: a socket.
    pub host: String,
    /// Its port.
    pub port: String,
    /// The database there.
    pub database: String,
    /// Connections that each pool may have.
    pub pool_size: u32,
    /// Connections that a pool may have beside those once its clients have waited for long.
    pub reserve_pool_size: u32,
    /// Connections that its pools may have together (`max_db_connections`); 0: there is no such limit.
    pub connections_max: u32,
    /// Connections that they have.
    pub connections: u32,
    /// Somebody has told it to wait (`PAUSE`).
    pub is_paused: bool,
}

/// Settings that say what its pools may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PgBouncerSettings {
    /// `default_pool_size`.
    pub default_pool_size: u32,
    /// `max_user_connections`; 0: there is no such limit.
    pub max_user_connections: u32,
    /// After that a client that waits is refused; zero: never.
    pub query_wait_timeout: Duration,
}

impl ConnectionPool {
    /// Connections that are being opened, tested or ended.
    #[must_use]
    pub fn connections_besides(&self) -> u32 {
        self.connections.saturating_sub(self.connections_active + self.connections_idle)
    }
}

impl PooledDatabase {
    /// Connections that one pool of it has at most.
    #[must_use]
    pub const fn pool_max(&self) -> u32 {
        self.pool_size.saturating_add(self.reserve_pool_size)
    }

    /// Whether its pools have all connections that they may have together.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.connections_max > 0 && self.connections >= self.connections_max
    }

    fn server(&self) -> (&str, &str) {
        (&self.host, &self.port)
    }
}

impl PgBouncer {
    /// The database that a pool is of.
    #[must_use]
    pub fn database(&self, name: &str) -> Option<&PooledDatabase> {
        self.databases.iter().find(|database| database.name == name)
    }

    /// Connections that its pools open at most to the server which has `database`, by its name there or here.
    /// None: it has no pool yet, or leads to several servers and not to one of them by that name.
    ///
    /// A pool is there from its first client on, so this is what those open who have come up to now.
    #[must_use]
    pub fn connections_max(&self, database: Option<&str>) -> Option<u32> {
        if self.has_more_pools {
            return None;
        }
        let (host, port) = self.server_of(database)?;
        let is_there = |it: &&PooledDatabase| it.server() == (host, port);
        let databases = self.databases.iter().filter(is_there);
        let by_database = databases.clone().map(|it| self.most_of(it)).fold(0, u32::saturating_add);
        // No user has more than this in all of them together.
        let by_user = match self.settings.max_user_connections {
            0 => u32::MAX,
            most => {
                let names: BTreeSet<&str> = databases.map(|it| it.name.as_str()).collect();
                let of_names = self.pools.iter().filter(|it| names.contains(it.database.as_str()));
                let users: BTreeSet<&str> = of_names.map(|it| it.user.as_str()).collect();
                u32::try_from(users.len()).unwrap_or(u32::MAX).saturating_mul(most)
            }
        };
        Some(by_database.min(by_user))
    }

    fn most_of(&self, database: &PooledDatabase) -> u32 {
        let pools = self.pools.iter().filter(|pool| pool.database == database.name).count();
        let pools = u32::try_from(pools).unwrap_or(u32::MAX).saturating_mul(database.pool_max());
        match database.connections_max {
            0 => pools,
            most => pools.min(most),
        }
    }

    /// The only one that its pools lead to, or the only one that has the database.
    fn server_of(&self, database: Option<&str>) -> Option<(&str, &str)> {
        let used = self.databases.iter().filter(|it| self.most_of(it) > 0);
        let mut servers: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for it in used {
            let is_named = database.is_some_and(|name| it.name == name || it.database == name);
            *servers.entry(it.server()).or_default() |= is_named;
        }
        let is_only = servers.len() == 1;
        let mut chosen = servers.into_iter().filter(|(_, is_named)| is_only || *is_named);
        let (server, _) = chosen.next()?;
        chosen.next().is_none().then_some(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(name: &str, host: &str, connections_max: u32) -> PooledDatabase {
        PooledDatabase {
            name: name.to_owned(),
            host: host.to_owned(),
            port: "5432".to_owned(),
            database: format!("{name}_production"),
            pool_size: 20,
            connections_max,
            ..PooledDatabase::default()
        }
    }

    fn pool(database: &str, user: &str) -> ConnectionPool {
        let (database, user) = (database.to_owned(), user.to_owned());
        ConnectionPool { database, user, ..ConnectionPool::default() }
    }

    fn pgbouncer() -> PgBouncer {
        PgBouncer {
            pools: vec![pool("shop", "web"), pool("shop", "jobs"), pool("mail", "web")],
            databases: vec![
                database("shop", "a", 30),
                database("mail", "a", 0),
                database("unused", "b", 0),
            ],
            ..PgBouncer::default()
        }
    }

    #[test]
    fn each_pool_has_its_size_and_all_of_a_database_have_its_limit() {
        let mut pgbouncer = pgbouncer();
        assert_eq!(pgbouncer.connections_max(None), Some(30 + 20));
        pgbouncer.databases[0].connections_max = 0;
        assert_eq!(pgbouncer.connections_max(None), Some(40 + 20));
        pgbouncer.databases[1].reserve_pool_size = 5;
        assert_eq!(pgbouncer.connections_max(None), Some(40 + 25));
        pgbouncer.settings.max_user_connections = 12;
        assert_eq!(pgbouncer.connections_max(None), Some(24), "web and jobs");
    }

    #[test]
    fn of_several_servers_the_one_that_has_the_database_counts() {
        let mut pgbouncer = pgbouncer();
        pgbouncer.pools.push(pool("unused", "web"));
        assert_eq!(pgbouncer.connections_max(None), None);
        assert_eq!(pgbouncer.connections_max(Some("elsewhere")), None);
        assert_eq!(pgbouncer.connections_max(Some("shop_production")), Some(50));
        assert_eq!(pgbouncer.connections_max(Some("unused")), Some(20), "by its name here");
    }

    #[test]
    fn what_has_no_pool_yet_or_was_not_seen_whole_has_no_number() {
        let mut pgbouncer = pgbouncer();
        pgbouncer.has_more_pools = true;
        assert_eq!(pgbouncer.connections_max(None), None);
        assert_eq!(PgBouncer::default().connections_max(None), None);
    }
}
