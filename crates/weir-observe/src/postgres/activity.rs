//! Reads sessions with their service and state.
//!
//! `application_name` is empty in the most important cases (Mastodon clears it on purpose). Local
//! sessions are therefore assigned to the process that holds the socket, and remote ones to what
//! they report, or else to user, database and address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use weir_advisor::observation::{Fact, SessionState, SessionWait, Sessions};

use super::host::Local;
use super::session::PostgresSession;
use crate::{commands, sockets};

const WHAT: &str = "Postgres' sessions";

/// Selects sessions that use a slot of `max_connections`. Without `pg_monitor`, the types of other
/// users' sessions are NULL; those with a user and a database are selected. Statements are not
/// read, because they may contain user data.
const QUESTION: &str = "SELECT pid, usename, datname, application_name, host(client_addr) AS address, \
    client_port, state, wait_event_type, wait_event, \
    query = '<insufficient privilege>' AS hidden, \
    greatest(extract(epoch FROM clock_timestamp() - state_change), 0)::bigint AS seconds \
    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (backend_type = 'client backend' \
    OR (backend_type IS NULL AND datname IS NOT NULL AND usename IS NOT NULL)) LIMIT ";

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) pid: u32,
    pub(super) service: String,
    pub(super) client: Option<(IpAddr, u16)>,
    pub(super) state: SessionState,
    pub(super) since: Duration,
    /// The event that it is waiting for (`wait_event`).
    pub(super) event: Option<String>,
}

/// Returns all sessions, and the wait events of busy ones.
pub(super) async fn backends(
    session: &mut PostgresSession,
) -> (Fact<Vec<Backend>>, Fact<Vec<SessionWait>>) {
    let question = format!("{QUESTION}{}", session.limits().sessions_max);
    match session.query(&question).await {
        Ok(rows) => {
            let busy = rows.iter().filter(|row| row.get("state") == Some("active"));
            let waits = busy.filter_map(|row| {
                Some((row.get("wait_event_type")?.to_owned(), row.get("wait_event")?.to_owned()))
            });
            (Fact::Known(rows.iter().filter_map(backend).collect()), Fact::Known(counted(waits)))
        }
        Err(error) => {
            let missing = session.missing(WHAT, &error);
            (Fact::Unknown(missing.clone()), Fact::Unknown(missing))
        }
    }
}

/// Counts wait events, most frequent first. Postgres has some hundred.
fn counted(events: impl Iterator<Item = (String, String)>) -> Vec<SessionWait> {
    let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
    for event in events {
        *counts.entry(event).or_default() += 1;
    }
    let wait = |((kind, event), count)| SessionWait { kind, event, count };
    let mut waits: Vec<_> = counts.into_iter().map(wait).collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.count));
    waits
}

fn backend(row: &SimpleQueryRow) -> Option<Backend> {
    let is_hidden = row.get("hidden") == Some("t");
    let address: Option<IpAddr> = row.get("address").and_then(|it| it.parse().ok());
    let port = row.get("client_port").and_then(|it| it.parse().ok());
    let seconds = row.get("seconds").and_then(|it| it.parse().ok()).unwrap_or_default();
    let application_name = row.get("application_name").unwrap_or_default();
    let (user, database) =
        (row.get("usename").unwrap_or_default(), row.get("datname").unwrap_or_default());
    Some(Backend {
        pid: row.get("pid")?.parse().ok()?,
        service: service(application_name, user, database, address),
        client: address.zip(port),
        state: state(row.get("state"), is_hidden),
        since: Duration::from_secs(seconds),
        event: row.get("wait_event").map(str::to_owned),
    })
}

pub(super) fn state(state: Option<&str>, is_hidden: bool) -> SessionState {
    match state {
        None if is_hidden => SessionState::Hidden,
        Some("disabled") => SessionState::Untracked,
        Some("idle") => SessionState::Idle,
        Some("idle in transaction" | "idle in transaction (aborted)") => {
            SessionState::IdleInTransaction
        }
        // Active, a fast-path call, or a session that has just been accepted.
        _ => SessionState::Active,
    }
}

/// Returns the service from the session's own name, or else "user@database from address".
pub(super) fn service(
    application_name: &str,
    user: &str,
    database: &str,
    address: Option<IpAddr>,
) -> String {
    if !application_name.is_empty() {
        return commands::service(application_name);
    }
    match address {
        Some(address) => format!("{user}@{database} from {address}"),
        None => format!("{user}@{database}"),
    }
}

/// Sets the service of local sessions to that of the process with the socket. Returns the services
/// by process ID.
pub(super) fn name(
    backends: &mut [Backend],
    local: Option<&Local>,
    proc: Option<&Path>,
    names: &BTreeMap<u32, String>,
) -> BTreeMap<u32, String> {
    let mut named = BTreeMap::new();
    let Some(proc) = proc else { return named };
    let port = local.map(|local| local.port);
    // Loopback addresses count only if the database is on this machine.
    let ours = |client: &(IpAddr, u16)| local.is_some() || !client.0.is_loopback();
    let clients: BTreeSet<_> = backends.iter().filter_map(|it| it.client).filter(ours).collect();
    let owners = sockets::owners(proc, &clients, port);
    for backend in backends {
        let owner = backend.client.and_then(|client| owners.get(&client));
        if let Some(owner) = owner {
            let known = names.get(owner).cloned();
            let name = known.or_else(|| commands::service_of(proc, *owner));
            backend.service = name.unwrap_or_else(|| backend.service.clone());
            named.insert(*owner, backend.service.clone());
        }
    }
    named
}

/// Groups the sessions by service and state.
pub(super) fn sessions(backends: &[Backend]) -> Vec<Sessions> {
    let mut groups: BTreeMap<(&str, SessionState), (u32, Duration)> = BTreeMap::new();
    for Backend { service, state, since, .. } in backends {
        let (count, longest) = groups.entry((service, *state)).or_default();
        *count = count.saturating_add(1);
        *longest = (*longest).max(*since);
    }
    let of = |((service, state), (count, longest)): ((&str, SessionState), (u32, Duration))| {
        Sessions { service: service.to_owned(), state, count, longest }
    };
    groups.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_told_and_what_is_hidden_is_not_idle() {
        assert_eq!(state(Some("idle"), false), SessionState::Idle);
        assert_eq!(
            state(Some("idle in transaction (aborted)"), false),
            SessionState::IdleInTransaction
        );
        assert_eq!(state(None, true), SessionState::Hidden);
        assert_eq!(state(Some("disabled"), false), SessionState::Untracked);
        assert_eq!(state(None, false), SessionState::Active);
    }

    #[test]
    fn a_session_is_put_down_to_what_is_known_of_it() {
        let address = Some("10.0.0.5".parse().unwrap());
        assert_eq!(service("", "app", "shop", address), "app@shop from 10.0.0.5");
        assert_eq!(service("", "app", "shop", None), "app@shop");
        assert_eq!(service("sidekiq 7.3.9 shop [2 of 5 busy]", "app", "shop", address), "sidekiq");
    }

    #[test]
    fn waits_are_counted_by_what_for() {
        let event = |kind: &str, event: &str| (kind.to_owned(), event.to_owned());
        let events = [event("IO", "DataFileRead"), event("Lock", "tuple"), event("Lock", "tuple")];
        let waits = counted(events.into_iter());
        assert_eq!((waits[0].event.as_str(), waits[0].count, waits.len()), ("tuple", 2, 2));
    }

    #[test]
    fn sessions_of_one_service_in_one_state_are_one_line() {
        let backend = |service: &str, state, seconds| Backend {
            pid: 1,
            service: service.to_owned(),
            client: None,
            state,
            since: Duration::from_secs(seconds),
            event: None,
        };
        let (idle, active) = (SessionState::Idle, SessionState::Active);
        let all = [backend("web", idle, 3), backend("web", idle, 9), backend("web", active, 1)];
        let sessions = sessions(&all);
        assert_eq!(sessions.len(), 2);
        let of_idle = sessions.iter().find(|it| it.state == idle).unwrap();
        assert_eq!((of_idle.count, of_idle.longest.as_secs()), (2, 9));
    }
}
