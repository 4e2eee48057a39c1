//! Commits wait for a synchronous standby that is not connected.

use super::{NAME, WAIT_MIN};
use crate::finding::{Finding, Severity};
use crate::observation::{Observation, SynchronousCommit};
use crate::wording;

/// Returns the commits that wait for standbys of which too few are connected.
fn held_up(observation: &Observation) -> Option<&SynchronousCommit> {
    let commits = observation.postgres.known()?.synchronous.known()?;
    // A standby that connects again needs a moment.
    (commits.is_held_up() && commits.longest >= WAIT_MIN).then_some(commits)
}

/// Reports whether every commit waits for a standby that is not connected.
pub(super) fn holds_up(observation: &Observation) -> bool {
    held_up(observation).is_some()
}

pub(super) fn check(observation: &Observation) -> Option<Finding> {
    let commits = held_up(observation)?;
    let sessions = wording::number(commits.waiting, "session waits", "sessions wait");
    let evidence = format!(
        "{sessions} for a synchronous standby, the longest for {}; synchronous_standby_names is \
         '{}', and {}",
        wording::duration(commits.longest),
        commits.standby_names,
        connected(commits)
    );
    Some(
        Finding::new(NAME, Severity::Critical, "commits of Postgres", evidence)
            .since(commits.longest, "state_change in pg_stat_activity")
            .leads_to(
                "Every commit waits until such a standby confirms it, and jobs and requests with \
                 it. Start the standby, or wait until it has caught up. Only if it will not return \
                 soon, the command lets commits go on without it: until the setting is restored, what is committed is only on this \
                 server, and a loss of it, or a failover, loses it. Do not end the waiting \
                 sessions: their changes are committed here already, and Sidekiq would run their \
                 jobs a second time.",
            )
            .next(without_standby(observation)),
    )
}

fn connected(commits: &SynchronousCommit) -> String {
    let names = || wording::list(commits.connected.iter().map(String::as_str));
    match (commits.connected.len(), commits.confirming) {
        (0, _) => "no standby is connected".to_owned(),
        (1, 0) => format!(
            "{} is connected, but confirms no commits: it is not in the setting, or is still catching up",
            names()
        ),
        (_, 0) => format!(
            "{} are connected, but confirm no commits: they are not in the setting, or are still catching up",
            names()
        ),
        (_, some) => format!("{some} of {} that must confirm do so", commits.required()),
    }
}

/// Returns the command. `ALTER SYSTEM` must be alone in its option `-c`, because several statements
/// in one are a transaction.
fn without_standby(observation: &Observation) -> String {
    let alter = "ALTER SYSTEM SET synchronous_standby_names = ''";
    format!("{} -c 'SELECT pg_reload_conf()'", observation.psql_as_superuser(alter))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::healthy;

    fn waiting(names: &str, confirming: u32, connected: &[&str]) -> Observation {
        let mut observation = healthy::observation();
        *observation.postgres.known_mut().synchronous.known_mut() = SynchronousCommit {
            standby_names: names.to_owned(),
            confirming,
            connected: connected.iter().map(ToString::to_string).collect(),
            waiting: 10,
            longest: Duration::from_secs(262),
        };
        observation
    }

    fn evidence(names: &str, confirming: u32, connected: &[&str]) -> Option<String> {
        check(&waiting(names, confirming, connected)).map(|finding| finding.evidence)
    }

    #[test]
    fn commits_that_wait_for_a_standby_that_is_away_are_critical() {
        let finding = super::super::check(&waiting("standby1", 0, &[])).remove(0);
        assert_eq!(
            (finding.severity, finding.subject.as_str()),
            (Severity::Critical, "commits of Postgres")
        );
        let expected = "10 sessions wait for a synchronous standby, the longest for 4 min 22 s; \
                        synchronous_standby_names is 'standby1', and no standby is connected";
        assert_eq!(finding.evidence, expected);
        assert!(finding.consequence.contains("Do not end the waiting sessions"));
        let expected = "sudo -u postgres psql -c \"ALTER SYSTEM SET synchronous_standby_names = ''\" \
                        -c 'SELECT pg_reload_conf()'";
        assert_eq!(finding.next_step(), Some(expected));
    }

    #[test]
    fn as_many_standbys_must_confirm_as_the_setting_says() {
        assert_eq!(evidence("s1", 1, &["s1"]), None, "it is connected, if slow");
        assert_eq!(evidence("FIRST 1 (s1, s2)", 1, &["s1"]), None);
        let two = evidence("ANY 2 (s1, s2, s3)", 1, &["s1"]).unwrap();
        assert!(two.ends_with("and 1 of 2 that must confirm do so"), "{two}");
        let two = evidence("2 (s1, s2)", 1, &["s1"]).unwrap();
        assert!(two.ends_with("and 1 of 2 that must confirm do so"), "{two}");
        let other = evidence("s1", 0, &["backup"]).unwrap();
        assert!(other.ends_with("and backup is connected, but confirms no commits: it is not in the setting, or is still catching up"), "{other}");
        let mut observation = waiting("s1", 0, &[]);
        observation.postgres.known_mut().synchronous.known_mut().waiting = 0;
        assert_eq!(check(&observation), None, "no commit waits");
        observation.postgres.known_mut().synchronous.known_mut().waiting = 1;
        observation.postgres.known_mut().synchronous.known_mut().standby_names.clear();
        assert_eq!(check(&observation), None);
        let mut observation = waiting("s1", 0, &[]);
        observation.postgres.known_mut().synchronous.known_mut().longest = Duration::from_secs(9);
        assert_eq!(check(&observation), None, "a standby connects again");
    }
}
