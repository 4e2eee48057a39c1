//! Reads replication slots and the WAL that they retain.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use weir_advisor::observation::{
    Fact, Missing, MissingReason, Replication, ReplicationSlot, SlotLimit, WalStatus,
};
use weir_advisor::sql::identifier;

use super::session::PostgresSession;

const WHAT: &str = "replication slots";
/// The default of `max_replication_slots` is 10. Slots with the most WAL come first.
const SLOTS_MAX: u32 = 100;

/// Every role may read all of it. `wal_status` exists since version 13, `inactive_since` and
/// `synced` since 17; they are read by name, so that the query also works in earlier versions. A
/// replica writes no WAL, so its received WAL is used. Slots copied from the primary (`synced`) are
/// skipped. Both settings are in MB.
const QUESTION: &str = "SELECT slot_name, active, to_jsonb(s) ->> 'wal_status' AS wal_status, \
    greatest(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() \
    THEN coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) \
    ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint AS held, \
    extract(epoch FROM clock_timestamp() - (to_jsonb(s) ->> 'inactive_since')::timestamptz)::bigint AS seconds, \
    (SELECT setting FROM pg_settings WHERE name = 'max_wal_size') AS wal_max, \
    (SELECT setting FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS keep_max \
    FROM pg_replication_slots s WHERE coalesce(to_jsonb(s) ->> 'synced', 'false') <> 'true' \
    ORDER BY held DESC NULLS LAST LIMIT ";

pub(super) async fn replication(session: &mut PostgresSession) -> Fact<Replication> {
    match session.query(&format!("{QUESTION}{SLOTS_MAX}")).await {
        Ok(rows) => Fact::Known(read(&rows)),
        Err(error) => Fact::Unknown(missing(session, session.missing(WHAT, &error))),
    }
}

/// Every role has this permission by default, so `pg_monitor` is not suggested as a remedy.
fn missing(session: &PostgresSession, missing: Missing) -> Missing {
    if missing.obstacle != MissingReason::NotAllowed {
        return missing;
    }
    let user = identifier(session.user().unwrap_or("USER"));
    Missing { remedy: Some(format!("GRANT SELECT ON pg_replication_slots TO {user};")), ..missing }
}

fn read(rows: &[SimpleQueryRow]) -> Replication {
    // Each row contains both settings. Without slots they do not matter.
    let setting = |name| rows.first()?.get(name);
    Replication {
        slots: rows.iter().filter_map(slot).collect(),
        wal_bytes_max: setting("wal_max").and_then(megabytes).unwrap_or_default(),
        limit: limit(setting("keep_max")),
    }
}

fn slot(row: &SimpleQueryRow) -> Option<ReplicationSlot> {
    let number = |name| row.get(name)?.parse::<u64>().ok();
    let active = row.get("active") == Some("t");
    Some(ReplicationSlot {
        name: row.get("slot_name")?.to_owned(),
        active,
        inactive_for: number("seconds")
            .filter(|seconds| !active && *seconds > 0)
            .map(Duration::from_secs),
        // A slot without reserved WAL, or with lost WAL, retains nothing.
        held_bytes: number("held").unwrap_or_default(),
        state: state(row.get("wal_status")),
    })
}

fn state(value: Option<&str>) -> WalStatus {
    match value {
        Some("lost") => WalStatus::Lost,
        Some("unreserved") => WalStatus::Unreserved,
        _ => WalStatus::Kept,
    }
}

fn limit(value: Option<&str>) -> SlotLimit {
    match value {
        None => SlotLimit::NotSupported,
        Some(value) => megabytes(value).map_or(SlotLimit::Unlimited, SlotLimit::Bytes),
    }
}

/// Parses a size. Returns `None` for -1.
fn megabytes(value: &str) -> Option<u64> {
    Some(value.parse::<u64>().ok()?.saturating_mul(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_version_does_not_tell_is_no_limit_and_no_loss() {
        assert_eq!(limit(None), SlotLimit::NotSupported);
        assert_eq!(limit(Some("-1")), SlotLimit::Unlimited);
        assert_eq!(limit(Some("1024")), SlotLimit::Bytes(1 << 30));
        assert_eq!(state(None), WalStatus::Kept);
        assert_eq!([state(Some("reserved")), state(Some("extended"))], [WalStatus::Kept; 2]);
        assert_eq!(state(Some("unreserved")), WalStatus::Unreserved);
        assert_eq!(state(Some("lost")), WalStatus::Lost);
    }
}
