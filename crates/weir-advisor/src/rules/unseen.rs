//! Facts that could not be determined, with the remedies.

use std::collections::BTreeMap;

use crate::finding::{Finding, Severity};
use crate::observation::{Missing, MissingReason, Observation, SessionState, SidekiqObservation};
use crate::rules::{redis_refuses, unreachable};
use crate::sql;
use crate::wording;

pub(crate) const NAME: &str = "unseen";

const HIDDEN: &str = "Idle and stuck transactions cannot be distinguished from busy ones.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    // Other rules report exhausted slots and connections, a Redis that rejects all commands, and
    // sources that could not be read at all.
    let is_said = |it: &Missing| {
        matches!(it.obstacle, MissingReason::SlotsExhausted | MissingReason::LimitReached)
            || redis_refuses::says(it.obstacle)
            || unreachable::says(observation, it)
    };
    let states = hidden(observation).into_iter().chain(untracked(observation));
    let missing = observation.missing().filter(|it| !is_said(it));
    by_reason(missing).into_iter().map(found).chain(states).chain(cut(observation)).collect()
}

/// Joins the facts that have one reason: a grant that makes several visible is reported once.
fn by_reason<'a>(missing: impl Iterator<Item = &'a Missing>) -> Vec<Missing> {
    let mut joined: Vec<Missing> = Vec::new();
    let mut names: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for fact in missing {
        let is_same = |it: &Missing| it.reason == fact.reason && it.remedy == fact.remedy;
        let place = joined.iter().position(is_same).unwrap_or(joined.len());
        if place == joined.len() {
            joined.push(fact.clone());
        }
        let names = names.entry(place).or_default();
        if !names.contains(&fact.what.as_str()) {
            names.push(&fact.what);
        }
    }
    for (place, names) in names {
        joined[place].what = wording::list(names);
    }
    joined
}

/// Reports limits of the observer that truncated the observation.
fn cut(observation: &Observation) -> Option<Finding> {
    let limits = wording::list(observation.cut.iter().map(String::as_str));
    (!limits.is_empty()).then(|| {
        let evidence = format!("unknown: there is more than the limits of a sample: {limits}");
        let has_more = |jobs: &SidekiqObservation| jobs.has_more_processes;
        let served = match observation.each_jobs().any(|it| it.1.known().is_some_and(has_more)) {
            true => " It is unknown whether every queue is served.",
            false => "",
        };
        let consequence = "Data beyond a limit was not examined; the problem may be there.";
        Finding::new(NAME, Severity::Unknown, "the rest of Sidekiq", evidence)
            .leads_to(format!("{consequence}{served}"))
    })
}

fn found(missing: Missing) -> Finding {
    let finding =
        Finding::new(NAME, Severity::Unknown, missing.what, format!("unknown: {}", missing.reason))
            .leads_to("It is unknown whether there is a problem.");
    match (missing.remedy, missing.obstacle) {
        (Some(remedy), MissingReason::NotAllowed) => {
            finding.change("the source, as its administrator", remedy)
        }
        (Some(remedy), _) => finding.advise(remedy),
        (None, _) => finding,
    }
}

/// Reports sessions with hidden states: Postgres shows them only with `pg_monitor`.
fn hidden(observation: &Observation) -> Option<Finding> {
    let postgres = observation.postgres.known()?;
    let connections = postgres.connections.known()?;
    let hidden = connections.in_state(SessionState::Hidden);
    (hidden > 0)
        .then(|| {
            let evidence = format!(
                "unknown: the states of {hidden} of {} are hidden",
                wording::number(connections.open(), "session", "sessions")
            );
            Finding::new(NAME, Severity::Unknown, "states of connections", evidence)
                .leads_to(HIDDEN)
        })
        .map(|finding| match postgres.user.as_deref() {
            Some(user) => finding.change("psql, as a superuser", grant(user)),
            None => finding.leads_to(format!(
                "{HIDDEN} Grant pg_monitor to the user that doctor connects as."
            )),
        })
}

/// Reports sessions whose states Postgres does not record. Waits for locks are known nevertheless.
fn untracked(observation: &Observation) -> Option<Finding> {
    let connections = observation.postgres.known()?.connections.known()?;
    let untracked = connections.in_state(SessionState::Untracked);
    (untracked > 0).then(|| {
        let evidence = format!(
            "unknown: the states of {untracked} of {} are not recorded: track_activities is off for \
             them",
            wording::number(connections.open(), "session", "sessions")
        );
        Finding::new(NAME, Severity::Unknown, "states of connections", evidence)
            .leads_to(HIDDEN)
            .change(
                "postgresql.conf, or the role or database that has it off; then SELECT \
                 pg_reload_conf()",
                "track_activities = on",
            )
    })
}

fn grant(user: &str) -> String {
    format!("GRANT pg_monitor TO {};", sql::identifier(user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::{self, sessions};
    use crate::observation::Fact;

    fn missing(obstacle: MissingReason) -> Missing {
        Missing {
            what: "cache hits".to_owned(),
            obstacle,
            reason: "permission denied".to_owned(),
            remedy: Some("GRANT pg_monitor TO weir_mon;".to_owned()),
        }
    }

    #[test]
    fn a_refused_fact_is_unknown_with_its_grant_and_never_fine() {
        let mut observation = healthy::observation();
        observation.postgres.known_mut().cache_hit_ratio =
            Fact::Unknown(missing(MissingReason::NotAllowed));
        observation.postgres.known_mut().lock_waits =
            Fact::Unknown(missing(MissingReason::NotAllowed));
        let findings = check(&observation);
        assert_eq!(findings.len(), 1, "said once: {findings:?}");
        assert_eq!(findings[0].subject, "cache hits");
        assert_eq!(findings[0].severity, Severity::Unknown);
        assert_eq!(findings[0].line_change().unwrap().line, "GRANT pg_monitor TO weir_mon;");
    }

    #[test]
    fn facts_that_one_grant_makes_visible_are_reported_together() {
        let mut observation = healthy::observation();
        let upkeep = Missing { what: "dead rows".to_owned(), ..missing(MissingReason::NotAllowed) };
        let postgres = observation.postgres.known_mut();
        postgres.cache_hit_ratio = Fact::Unknown(missing(MissingReason::NotAllowed));
        postgres.lock_waits = Fact::Unknown(upkeep);
        let findings = check(&observation);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            ["cache hits and dead rows", "dead rows and cache hits"]
                .contains(&findings[0].subject.as_str()),
            "{findings:?}"
        );
    }

    #[test]
    fn redis_that_refuses_its_slow_log_is_unknown_too() {
        let mut observation = healthy::observation();
        observation.redis[0].known_mut().slow_commands =
            Fact::Unknown(missing(MissingReason::NotAllowed));
        assert_eq!(check(&observation).len(), 1);
    }

    #[test]
    fn a_part_of_sidekiq_that_can_not_be_read_is_unknown() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().unread = vec![missing(MissingReason::NotSupported)];
        assert_eq!(check(&observation).len(), 1);
    }

    #[test]
    fn states_that_postgres_does_not_record_need_no_right() {
        let mut observation = healthy::observation();
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions.push(sessions("sidekiq", SessionState::Untracked, 7));
        let finding = check(&observation).remove(0);
        assert!(finding.evidence.contains("7 of "), "{}", finding.evidence);
        assert_eq!(finding.line_change().unwrap().line, "track_activities = on");
    }

    #[test]
    fn hidden_states_ask_for_pg_monitor() {
        let mut observation = healthy::observation();
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions.push(sessions("?", SessionState::Hidden, 30));
        observation.postgres.known_mut().user = Some("a\"b".to_owned());
        let finding = check(&observation).remove(0);
        assert_eq!(finding.evidence, "unknown: the states of 30 of 50 sessions are hidden");
        assert_eq!(finding.line_change().unwrap().line, r#"GRANT pg_monitor TO "a""b";"#);
    }

    #[test]
    fn exhausted_slots_are_another_finding() {
        let mut observation = healthy::observation();
        observation.postgres = Fact::Unknown(missing(MissingReason::SlotsExhausted));
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn what_a_limit_has_cut_off_is_unknown() {
        let mut observation = healthy::observation();
        observation.cut = vec!["queues_max (1000)".to_owned(), "threads_max (200)".to_owned()];
        let found = check(&observation);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Unknown));
        assert!(found[0].evidence.ends_with("queues_max (1000) and threads_max (200)"));
    }
}
