//! Sessions hold a transaction open and do nothing.

use std::time::Duration;

use crate::database_settings;
use crate::finding::{Finding, Severity};
use crate::observation::{
    DatabaseObservation, Observation, SessionState, Sessions, SettingException,
};
use crate::rules::lock_waits;
use crate::wording;

pub(crate) const NAME: &str = "idle-in-transaction";

/// Longer than any call to another service inside a transaction should take.
const LONGEST: Duration = Duration::from_secs(60);
/// Ends those that have been idle for [`LONGEST`].
const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE state LIKE 'idle in transaction%' AND now() - state_change >= '1 min'";
const SETTING: &str = "idle_in_transaction_session_timeout";
/// The timeout that the suggested line sets.
const ENOUGH: Duration = Duration::from_secs(300);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(postgres) = observation.postgres.known() else { return Vec::new() };
    let sessions =
        postgres.connections.known().map(|it| it.sessions.as_slice()).unwrap_or_default();
    sessions.iter().filter(|it| is_stuck(it)).map(|it| found(observation, postgres, it)).collect()
}

fn found(
    observation: &Observation,
    postgres: &DatabaseObservation,
    sessions: &Sessions,
) -> Finding {
    let longest = wording::duration(sessions.longest);
    let oldest = if sessions.count == 1 { "" } else { "the oldest " };
    let sessions_are = wording::number(sessions.count, "session is", "sessions are");
    let evidence = format!("{sessions_are} idle in transaction, {oldest}for {longest}");
    let finding = Finding::new(NAME, Severity::Warning, sessions.service.as_str(), evidence)
        .since(sessions.longest, "state_change in pg_stat_activity")
        .leads_to(
            "They keep their locks and slots, and may keep VACUUM from removing dead rows. The line \
             ends sessions that are idle in a transaction for more than 5 min, and rolls back what \
             they have not committed: a job that waits longer inside a transaction fails. Sessions that \
             are idle already keep the old value.",
        );
    let finding = database_settings::change(finding, postgres, (SETTING, "'5min'"), false);
    // Roles and databases with a longer timeout of their own keep it, whatever the server's is.
    let is_longer =
        |it: &&SettingException| it.duration().is_none_or(|it| it.is_zero() || it > ENOUGH);
    let others = database_settings::others(postgres, SETTING).into_iter();
    let lines: Vec<_> = others.filter(is_longer).map(|it| it.line("5min")).collect();
    match lines.is_empty() {
        true => ended(observation, finding, postgres),
        false => finding.next(observation.psql(&lines.join(" "))),
    }
}

/// Adds the command that ends what is idle now, unless it could end the transaction of a job in progress.
fn ended(observation: &Observation, finding: Finding, postgres: &DatabaseObservation) -> Finding {
    let sessions = postgres.connections.known().map(|it| it.sessions.as_slice());
    let mut stuck = sessions.unwrap_or_default().iter().filter(|it| is_stuck(it));
    if stuck.any(|it| lock_waits::may_be_job(observation, &it.service, it.longest)) {
        return finding;
    }
    finding
        .adding(format_args!(
            "The command ends all that have been idle in a transaction for a minute. {}",
            lock_waits::RIGHT
        ))
        .next(observation.psql(END))
}

fn is_stuck(sessions: &Sessions) -> bool {
    sessions.state == SessionState::IdleInTransaction && sessions.longest >= LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn what_is_idle_now_is_ended_unless_it_may_be_a_job() {
        let mut observation = healthy::observation();
        let sessions = &mut observation.postgres.known_mut().connections.known_mut().sessions[0];
        (sessions.state, sessions.longest) = (SessionState::IdleInTransaction, LONGEST);
        "web".clone_into(&mut sessions.service);
        let next = |it: &Observation| check(it)[0].next_step().map(str::to_owned);
        let since = check(&observation).remove(0).since.unwrap();
        let expected = "state_change in pg_stat_activity";
        assert_eq!((since.ago(), &*since.source), (LONGEST, expected));
        assert!(next(&observation).unwrap().contains("pg_terminate_backend(pid)"));
        observation.jobs = crate::observation::Fact::NotAsked;
        let sessions = &mut observation.postgres.known_mut().connections.known_mut().sessions[0];
        "sidekiq".clone_into(&mut sessions.service);
        assert_eq!(next(&observation), None);
    }

    #[test]
    fn one_session_is_one() {
        let mut observation = healthy::observation();
        let sessions = &mut observation.postgres.known_mut().connections.known_mut().sessions[0];
        (sessions.state, sessions.count) = (SessionState::IdleInTransaction, 1);
        sessions.longest = LONGEST;
        let expected = "1 session is idle in transaction, for 1 min";
        assert_eq!(check(&observation)[0].evidence, expected);
    }

    #[test]
    fn a_minute_is_too_long() {
        for (state, seconds, findings) in [
            (SessionState::IdleInTransaction, 60, 1),
            (SessionState::IdleInTransaction, 59, 0),
            (SessionState::Idle, 6_000, 0),
        ] {
            let mut observation = healthy::observation();
            let sessions = &mut observation.postgres.known_mut().connections.known_mut().sessions;
            (sessions[0].state, sessions[0].longest) = (state, Duration::from_secs(seconds));
            let found = check(&observation);
            assert_eq!(found.len(), findings, "{state:?} {seconds}");
            if let Some(finding) = found.first() {
                let expected = "8 sessions are idle in transaction, the oldest for 1 min";
                assert_eq!(finding.evidence, expected);
            }
        }
    }
}
