//! A replication slot has no reader or is far behind. Postgres retains all WAL for it until the
//! disk is full.

use crate::database_settings;
use crate::finding::{Finding, Severity};
use crate::observation::{
    DatabaseObservation, Observation, Replication, ReplicationSlot, SlotLimit, WalStatus,
};
use crate::{sql, wording};

pub(crate) const NAME: &str = "replication-slot";

/// `pg_monitor` allows observing slots, but not dropping them.
const RIGHT: &str = "Dropping it requires the attribute REPLICATION or a superuser: name one after \
                     -U.";
const SETTING: &str = "max_slot_wal_keep_size";
const GIB: u64 = 1 << 30;
/// Multiple of `max_wal_size` from which a slot is far behind. The size of the disk is unknown, but
/// this setting shows how much WAL is expected between checkpoints, and a restarting replica is
/// rarely further behind. Few disks are sized for ten times as much (10 GB by default).
const FAR: u64 = 10;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let Some(replication) = postgres.replication.known() else { return Vec::new() };
    let found = |slot: &ReplicationSlot| {
        let severity = severity(slot, replication)?;
        Some(found(observation, postgres, replication, (slot, severity)))
    };
    replication.slots.iter().filter_map(found).collect()
}

fn severity(slot: &ReplicationSlot, replication: &Replication) -> Option<Severity> {
    let times = |times: u64| replication.wal_bytes_max.max(1).saturating_mul(times);
    let is_far = slot.held_bytes >= times(FAR);
    match (slot.state, slot.active) {
        (WalStatus::Lost | WalStatus::Unreserved, _) => Some(Severity::Critical),
        // Without a limit, only a full disk stops it.
        (WalStatus::Kept, false) if is_far && !is_limited(replication) => Some(Severity::Critical),
        (WalStatus::Kept, false) if slot.held_bytes >= times(1) => Some(Severity::Warning),
        (WalStatus::Kept, true) if is_far => Some(Severity::Warning),
        (WalStatus::Kept, _) => None,
    }
}

const fn is_limited(replication: &Replication) -> bool {
    matches!(replication.limit, SlotLimit::Bytes(_))
}

fn found(
    observation: &Observation,
    postgres: &DatabaseObservation,
    replication: &Replication,
    (slot, severity): (&ReplicationSlot, Severity),
) -> Finding {
    let subject = format!("replication slot {}", slot.name);
    let evidence = format!("{}: {}", used(slot), held(slot, replication));
    let finding = Finding::new(NAME, severity, subject, evidence);
    let finding = finding.leads_to(consequence(slot, replication));
    let unused = slot.inactive_for.filter(|_| !slot.active).unwrap_or_default();
    let finding = finding.since(unused, "inactive_since in pg_replication_slots");
    let finding = match (slot.state, replication.limit) {
        (WalStatus::Kept, SlotLimit::Unlimited) => {
            let enough = format!("'{}GB'", enough_gib(slot, replication));
            database_settings::change(finding, postgres, (SETTING, &enough), false)
        }
        _ => finding,
    };
    if slot.active {
        return finding.next(observation.psql(
            "SELECT application_name, client_addr, state, replay_lag FROM pg_stat_replication",
        ));
    }
    // A replica that is temporarily down still needs the slot, which cannot be detected from here.
    let consequence = format!(
        "{} The command drops it: run it only if no client will come back for it. {RIGHT}",
        finding.consequence
    );
    let finding = finding.leads_to(consequence);
    let drop = format!("SELECT pg_drop_replication_slot({})", sql::literal(&slot.name));
    finding.next(observation.psql(&drop))
}

fn used(slot: &ReplicationSlot) -> String {
    match (slot.active, slot.inactive_for) {
        (true, _) => "it is in use".to_owned(),
        (false, Some(time)) => format!("it has not been used for {}", wording::duration(time)),
        (false, None) => "it is not in use".to_owned(),
    }
}

fn held(slot: &ReplicationSlot, replication: &Replication) -> String {
    let held = wording::bytes(slot.held_bytes);
    match (slot.state, replication.limit) {
        (WalStatus::Lost, _) => "WAL that it needs has been removed (wal_status is \
                                 lost)"
            .to_owned(),
        (WalStatus::Unreserved, _) => format!(
            "the next checkpoint will remove some of the {held} of WAL that it needs (wal_status \
             is unreserved)"
        ),
        (WalStatus::Kept, limit) => {
            let own = wording::bytes(replication.wal_bytes_max);
            let limit = match limit {
                SlotLimit::Bytes(limit) => format!("{SETTING} is {}", wording::bytes(limit)),
                SlotLimit::Unlimited => format!("{SETTING} sets no limit"),
                SlotLimit::NotSupported => "there is no limit".to_owned(),
            };
            format!("{held} of WAL are kept for it, and max_wal_size is {own}; {limit}")
        }
    }
}

fn consequence(slot: &ReplicationSlot, replication: &Replication) -> String {
    let who = "(a replica, a subscription, a backup)";
    let end = match (slot.state, is_limited(replication)) {
        (WalStatus::Lost, _) => {
            return format!(
                "Its client {who} cannot continue and must be set up again; the slot keeps no WAL \
                 any more."
            );
        }
        (WalStatus::Unreserved, _) => format!(
            "After that, its client {who} must be set up again. It can continue if it catches up \
             first, or if you raise {SETTING} and the disk has room."
        ),
        (WalStatus::Kept, true) => format!(
            "Beyond that limit Postgres removes the WAL, and the slot's client {who} must be set \
             up again."
        ),
        (WalStatus::Kept, false) => {
            "Postgres keeps all WAL from that position, until the disk is full and Postgres \
             stops."
                .to_owned()
        }
    };
    let start = match slot.active {
        true => {
            " Its client reads more slowly than Postgres writes: check its load and the network to \
             it."
        }
        false => " Start its client, or drop the slot.",
    };
    let bound = match (slot.state, replication.limit) {
        (WalStatus::Kept, SlotLimit::Unlimited) => {
            " With the change, a client that falls further behind must be set up again, and \
             Postgres continues to run."
        }
        _ => "",
    };
    format!("{end}{start}{bound}")
}

/// A limit below the retained WAL would invalidate the slot at once, although its client may come
/// back.
fn enough_gib(slot: &ReplicationSlot, replication: &Replication) -> u64 {
    let usual = replication.wal_bytes_max.saturating_mul(FAR);
    usual.max(slot.held_bytes.saturating_mul(2)).div_ceil(GIB).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::healthy;

    fn with(limit: SlotLimit, change: impl FnOnce(&mut ReplicationSlot)) -> Option<Finding> {
        let mut observation = healthy::observation();
        let replication = observation.postgres.known_mut().replication.known_mut();
        replication.limit = limit;
        let slot = &mut replication.slots[0];
        slot.active = false;
        change(slot);
        check(&observation).pop()
    }

    fn severity(limit: SlotLimit, active: bool, held_bytes: u64) -> Option<Severity> {
        let finding = with(limit, |it| (it.active, it.held_bytes) = (active, held_bytes));
        finding.map(|finding| finding.severity)
    }

    #[test]
    fn what_is_kept_is_measured_by_what_postgres_keeps_by_itself() {
        let limited = SlotLimit::Bytes(100 * GIB);
        for (limit, active, held_bytes, expected) in [
            (SlotLimit::Unlimited, false, GIB - 1, None),
            (SlotLimit::Unlimited, false, GIB, Some(Severity::Warning)),
            (SlotLimit::Unlimited, false, 10 * GIB - 1, Some(Severity::Warning)),
            (SlotLimit::Unlimited, false, 10 * GIB, Some(Severity::Critical)),
            (SlotLimit::NotSupported, false, 10 * GIB, Some(Severity::Critical)),
            (limited, false, 10 * GIB, Some(Severity::Warning)),
            (SlotLimit::Unlimited, true, 10 * GIB - 1, None),
            (SlotLimit::Unlimited, true, 10 * GIB, Some(Severity::Warning)),
            (limited, true, 10 * GIB, Some(Severity::Warning)),
        ] {
            assert_eq!(
                severity(limit, active, held_bytes),
                expected,
                "{limit:?} {active} {held_bytes}"
            );
        }
    }

    #[test]
    fn one_that_nobody_uses_is_bounded_above_what_it_holds_and_dropped_if_nobody_needs_it() {
        let finding = with(SlotLimit::Unlimited, |it| it.held_bytes = 7 * GIB).unwrap();
        assert_eq!(finding.subject, "replication slot standby");
        let expected = "it is not in use: 7 GB of WAL are kept for it, and max_wal_size is 1 GB; \
                        max_slot_wal_keep_size sets no limit";
        assert_eq!(finding.evidence, expected);
        assert!(finding.consequence.contains("until the disk is full"), "{finding:?}");
        assert_eq!(finding.line_change().unwrap().line, "max_slot_wal_keep_size = '14GB'");
        let expected = "psql -c \"SELECT pg_drop_replication_slot('standby')\"";
        assert_eq!(finding.next_step(), Some(expected));
        let finding = with(SlotLimit::Unlimited, |it| it.held_bytes = GIB).unwrap();
        assert_eq!(finding.line_change().unwrap().line, "max_slot_wal_keep_size = '10GB'");
    }

    #[test]
    fn since_when_and_the_limit_that_there_is_are_told() {
        let limit = SlotLimit::Bytes(5 * GIB);
        let finding = with(limit, |it| {
            it.inactive_for = Some(Duration::from_secs(200_000));
            it.held_bytes = 2 * GIB;
        });
        let finding = finding.unwrap();
        let expected = "it has not been used for 2 days 7 h: 2 GB of WAL are kept for it, and max_wal_size is \
                        1 GB; max_slot_wal_keep_size is 5 GB";
        assert_eq!(finding.evidence, expected);
        assert_eq!(finding.since.as_ref().unwrap().seconds_ago, 200_000);
        assert_eq!(finding.line_change(), None, "it has one");
        let old = with(SlotLimit::NotSupported, |it| it.held_bytes = 2 * GIB).unwrap();
        assert_eq!(old.line_change(), None, "there is no such setting");
    }

    #[test]
    fn one_that_is_in_use_is_nobodys_to_drop() {
        let finding = with(SlotLimit::Unlimited, |it| {
            (it.active, it.held_bytes) = (true, 20 * GIB);
        });
        let finding = finding.unwrap();
        assert!(finding.evidence.starts_with("it is in use: 20 GB of WAL"), "{finding:?}");
        assert!(finding.next_step().unwrap().contains("pg_stat_replication"));
        assert_eq!(finding.line_change().unwrap().line, "max_slot_wal_keep_size = '40GB'");
    }

    #[test]
    fn what_is_lost_or_nearly_is_critical_however_little_it_holds() {
        let limit = SlotLimit::Bytes(GIB);
        let lost = with(limit, |it| (it.state, it.held_bytes) = (WalStatus::Lost, 0)).unwrap();
        assert_eq!(lost.severity, Severity::Critical);
        let expected = "it is not in use: WAL that it needs has been removed (wal_status is lost)";
        assert_eq!(lost.evidence, expected);
        assert!(lost.next_step().unwrap().contains("pg_drop_replication_slot"));
        assert!(lost.consequence.ends_with(RIGHT), "{}", lost.consequence);
        let nearly = with(limit, |it| it.state = WalStatus::Unreserved).unwrap();
        assert_eq!(nearly.severity, Severity::Critical);
        assert!(nearly.consequence.contains("raise max_slot_wal_keep_size"), "{nearly:?}");
        assert_eq!(nearly.line_change(), None);
    }
}
