//! PgBouncer's own statistics: its pools and the clients that wait for a connection.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

/// Output of `SHOW POOLS`, `SHOW DATABASES` and `SHOW CONFIG`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PgBouncer {
    /// One per database and user, longest wait first.
    pub pools: Vec<ConnectionPool>,
    /// Whether further pools were left out.
    pub has_more_pools: bool,
    /// Its databases, with the servers that they are on.
    pub databases: Vec<PooledDatabase>,
    /// Its settings.
    pub settings: PgBouncerSettings,
}

/// The connections that one user's clients share in one database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionPool {
    /// Name of the database as clients use it.
    pub database: String,
    /// The user.
    pub user: String,
    /// `pool_mode`: "transaction", "session" or "statement".
    pub mode: String,
    /// Clients with a connection, and idle clients (`cl_active`).
    pub clients_active: u32,
    /// Clients that are waiting for a connection (`cl_waiting`).
    pub clients_waiting: u32,
    /// How long the first of those has waited (`maxwait`).
    pub longest_wait: Duration,
    /// Connections in use by a client (`sv_active`).
    pub connections_active: u32,
    /// Idle connections (`sv_idle`).
    pub connections_idle: u32,
    /// All connections, including those being opened, tested or closed.
    pub connections: u32,
}

/// A database in PgBouncer's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PooledDatabase {
    /// Name as clients use it.
    pub name: String,
    /// Host of the server, or empty for a socket.
    pub host: String,
    /// Its port.
    pub port: String,
    /// Name of the database on that server.
    pub database: String,
    /// Maximum number of connections per pool.
    pub pool_size: u32,
    /// Additional connections per pool once clients have waited for long.
    pub reserve_pool_size: u32,
    /// Maximum number of connections of all its pools (`max_db_connections`); 0: no limit.
    pub connections_max: u32,
    /// Present number of connections.
    pub connections: u32,
    /// An operator has paused it (`PAUSE`).
    pub is_paused: bool,
}

/// Settings that limit the pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PgBouncerSettings {
    /// `default_pool_size`.
    pub default_pool_size: u32,
    /// `max_user_connections`; 0: no limit.
    pub max_user_connections: u32,
    /// Clients that wait longer are disconnected; zero: no timeout.
    pub query_wait_timeout: Duration,
}

impl ConnectionPool {
    /// Returns the number of connections that are being opened, tested or closed.
    #[must_use]
    pub fn connections_besides(&self) -> u32 {
        self.connections.saturating_sub(self.connections_active + self.connections_idle)
    }
}

impl PooledDatabase {
    /// Returns the maximum number of connections of one pool.
    #[must_use]
    pub const fn pool_max(&self) -> u32 {
        self.pool_size.saturating_add(self.reserve_pool_size)
    }

    /// Reports whether its pools have reached `connections_max`.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.connections_max > 0 && self.connections >= self.connections_max
    }

    fn server(&self) -> (&str, &str) {
        (&self.host, &self.port)
    }
}

impl PgBouncer {
    /// Returns the database of that name.
    #[must_use]
    pub fn database(&self, name: &str) -> Option<&PooledDatabase> {
        self.databases.iter().find(|database| database.name == name)
    }

    /// Returns the most connections that the pools open to the server with `database`, which is
    /// named as on the server or as in PgBouncer. Returns `None` if there is no pool yet, or if
    /// there are several servers and none is identified by that name.
    ///
    /// PgBouncer creates a pool for its first client, so only pools with clients so far are
    /// counted.
    #[must_use]
    pub fn connections_max(&self, database: Option<&str>) -> Option<u32> {
        if self.has_more_pools {
            return None;
        }
        let (host, port) = self.server_of(database)?;
        let is_there = |it: &&PooledDatabase| it.server() == (host, port);
        let databases = self.databases.iter().filter(is_there);
        let by_database = databases.clone().map(|it| self.most_of(it)).fold(0, u32::saturating_add);
        // `max_user_connections` limits the sum over all databases.
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

    /// Returns the only server that the pools connect to, or the only one that has the database.
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
