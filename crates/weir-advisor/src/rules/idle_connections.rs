//! A service holds many idle connections while others may run short.

use std::collections::BTreeMap;

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, SessionState};
use crate::wording::{self, percent};

pub(crate) const NAME: &str = "idle-connections";

const HELD: &str = "They do nothing now and take the slots that others may need: once the rest is in use, \
                    new connections are rejected (SQLSTATE 53300).";
const AT_A_BUSY_TIME: &str = "Look again at a busy time before you make the pool smaller: then they may be \
                              needed.";

/// Minimum share of one service's idle sessions in all usable slots.
const IDLE_SHARE: f64 = 0.5;
/// Minimum share of all open sessions in the usable slots. Below it, connections are not scarce.
const OPEN_SHARE: f64 = 0.7;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let (Some(settings), Some(connections)) =
        (postgres.settings.known(), postgres.connections.known())
    else {
        return Vec::new();
    };
    let usable = f64::from(settings.usable_connections());
    if usable <= 0.0 || f64::from(connections.open()) < OPEN_SHARE * usable {
        return Vec::new();
    }
    let mut idle: BTreeMap<&str, u32> = BTreeMap::new();
    for sessions in connections.sessions.iter().filter(|it| it.state == SessionState::Idle) {
        *idle.entry(&sessions.service).or_default() += sessions.count;
    }
    let hoarding = idle.into_iter().filter(|(_, count)| f64::from(*count) >= IDLE_SHARE * usable);
    hoarding.map(|(service, idle)| found(observation, service, idle, usable)).collect()
}

fn found(observation: &Observation, service: &str, idle: u32, usable: f64) -> Finding {
    let share = percent(f64::from(idle) / usable);
    let number = wording::number(idle, "idle connection", "idle connections");
    let evidence = format!("{number}, {share} of all usable slots");
    let finding = Finding::new(NAME, Severity::Warning, service, evidence).leads_to(HELD);
    let pooler = observation.pooler.as_ref();
    if pooler.is_some_and(|it| it.name == service) {
        // PgBouncer's default is ten minutes.
        return finding.change(format!("{service}'s settings"), "server_idle_timeout = 60");
    }
    let services = observation.services.known().map(Vec::as_slice).unwrap_or_default();
    match services.iter().find(|known| known.name == service) {
        // The pools are smaller already, so reducing them would not help.
        Some(known) if idle > known.connections() => finding.leads_to(format!(
            "{HELD} Its pools hold at most \
             {}: it opens others in addition, or does not close those of threads that have ended.",
            known.connections()
        )),
        Some(known) => {
            let line = known.pool_line((known.pool / 2).max(1));
            finding
                .leads_to(format!("{HELD} {AT_A_BUSY_TIME}"))
                .change_and_restart(known.place(), line)
        }
        None => finding.next("weir plan"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::{self, sessions};
    use crate::observation::Pooler;

    fn with(idle: u32, active: u32) -> Vec<Finding> {
        let mut observation = healthy::observation();
        observation.services.known_mut()[0].pool = 60;
        observation.postgres.known_mut().connections.known_mut().sessions = vec![
            sessions("web", SessionState::Idle, idle),
            sessions("sidekiq", SessionState::Active, active),
        ];
        check(&observation)
    }

    #[test]
    fn who_hoards_is_named_with_the_line() {
        let finding = with(110, 60).remove(0);
        assert_eq!(finding.subject, "web");
        assert_eq!(finding.line_change().unwrap().line, "MAX_THREADS=30");
    }

    #[test]
    fn one_that_holds_more_than_its_pools_is_not_told_to_shrink_them() {
        let mut observation = healthy::observation();
        let leaked = sessions("sidekiq scheduler", SessionState::Idle, 150);
        observation.postgres.known_mut().connections.known_mut().sessions = vec![leaked];
        let finding = check(&observation).remove(0);
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
        assert!(finding.consequence.contains("Its pools hold at most 5"));
    }

    #[test]
    fn a_pooler_that_hoards_is_told_to_give_back() {
        let mut observation = healthy::observation();
        observation.pooler = Some(Pooler { name: "pgbouncer".to_owned(), ..Pooler::default() });
        let idle = sessions("pgbouncer", SessionState::Idle, 150);
        observation.postgres.known_mut().connections.known_mut().sessions = vec![idle];
        let change = check(&observation).remove(0).line_change().cloned().unwrap();
        assert_eq!((change.line.as_str(), change.restart), ("server_idle_timeout = 60", false));
    }

    #[test]
    fn idle_connections_are_fine_while_nobody_misses_them_or_many_share_them() {
        assert_eq!(with(110, 10), []);
        assert_eq!(with(90, 90), []);
    }
}
