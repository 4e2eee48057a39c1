//! Lists the holders of connections by the titles of local Postgres processes, for use when no slot
//! is free for a query.
//!
//! A title is "postgres: 15/main: shop app 127.0.0.1(40312) idle": user, database, client and
//! state.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use weir_advisor::observation::DatabaseConnections;

use super::activity::{self, Backend};
use super::host::Local;
use crate::{memory, sockets};

/// States of a session before it is accepted.
const NOT_IN_YET: [&str; 3] = ["initializing", "startup", "authentication"];

/// Returns a line such as "web 10 (10 idle), sidekiq 5", or `None` if no process is visible.
pub(super) fn ledger(proc: &Path, port: u16) -> Option<String> {
    let clients = sockets::clients_of(proc, port);
    let titles = memory::processes(proc).filter_map(|pid| Some((pid, title(proc, pid)?)));
    let mut backends: Vec<Backend> = titles
        .filter(|(_, title)| title.client.is_some_and(|client| clients.contains(&client)))
        .map(|(pid, title)| title.backend(pid))
        .collect();
    let local = Local::on(proc, port);
    activity::name(&mut backends, Some(&local), Some(proc), &BTreeMap::new());
    let connections = DatabaseConnections { sessions: activity::sessions(&backends) };
    (!backends.is_empty()).then(|| connections.ledger())
}

/// The parsed title of a process.
#[derive(Debug, PartialEq, Eq)]
struct Title {
    user: String,
    database: String,
    client: Option<sockets::SocketEnd>,
    state: String,
}

impl Title {
    fn backend(self, pid: u32) -> Backend {
        let Self { user, database, client, state } = self;
        let address = client.map(|(address, _)| address);
        Backend {
            pid,
            service: activity::service("", &user, &database, address),
            client,
            state: activity::state(Some(&state), false),
            since: Duration::ZERO,
            event: None,
        }
    }
}

fn title(proc: &Path, pid: u32) -> Option<Title> {
    let line = fs::read(proc.join(pid.to_string()).join("cmdline")).ok()?;
    parse(String::from_utf8_lossy(&line).trim_end_matches('\0'))
}

fn parse(line: &str) -> Option<Title> {
    let mut words = line.strip_prefix("postgres: ")?.split_whitespace().peekable();
    // Skips the cluster's name, if there is one.
    words.next_if(|word| word.ends_with(':'));
    let (user, database, client) = (words.next()?, words.next()?, words.next()?);
    let (address, port) = client.strip_suffix(')')?.rsplit_once('(')?;
    let client = address.parse::<IpAddr>().ok().zip(port.parse().ok());
    let state = words.collect::<Vec<_>>().join(" ");
    // A session that is about to be rejected, such as the observer's, holds no slot.
    if NOT_IN_YET.contains(&state.as_str()) {
        return None;
    }
    let (user, database) = (user.to_owned(), database.to_owned());
    Some(Title { user, database, client, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_told_from_postgres_own_processes() {
        let idle = parse("postgres: 15/main: shop app 127.0.0.1(40312) idle").unwrap();
        assert_eq!((idle.user.as_str(), idle.database.as_str()), ("shop", "app"));
        assert_eq!(idle.client, Some(("127.0.0.1".parse().unwrap(), 40_312)));
        let stuck = parse("postgres: shop app ::1(7) idle in transaction").unwrap();
        assert_eq!(stuck.state, "idle in transaction");
        assert_eq!(
            parse("postgres: shop app 127.0.0.1(40312) startup"),
            None,
            "it is let in or not"
        );
        for other in ["postgres: checkpointer ", "postgres: shop app [local] idle", "ruby x y z(1)"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_port_without_clients_has_no_ledger() {
        assert!(sockets::clients_of(Path::new("/proc"), 1).is_empty());
        assert_eq!(ledger(Path::new("/proc"), 1), None);
    }
}
