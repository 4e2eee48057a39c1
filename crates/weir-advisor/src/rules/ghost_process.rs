//! Processes that ended without a word: killed, or out of memory.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, JobProcess, Jobs, Observation, Presence, RedisServer};
use crate::wording;

pub(crate) const NAME: &str = "ghost-process";

const KILLED: &str = "journalctl -k --grep 'killed process'";
/// Names that are printed; the rest is counted.
const NAMED_MAX: usize = 3;

/// What they had in hand is forgotten with their heartbeat: whether it was anything can't be told.
const CONSEQUENCE: &str = "They ended without a word: killed, or out of memory; what is next may say so. A job that \
    one had in hand then is lost. A Sidekiq that runs takes them off the list by itself, within some minutes.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let missing = jobs.processes.iter().filter(|process| !process.is_alive()).map(missing);
    let redis = observation.redis.first().and_then(Fact::known);
    let refusal = redis.and_then(RedisServer::refuses_writes);
    missing.chain(ghosts(jobs)).map(|finding| unless_refused(finding, refusal)).collect()
}

/// Of a Redis that takes no writes heartbeats end, whatever their processes do.
fn unless_refused(finding: Finding, refusal: Option<&str>) -> Finding {
    let Some(why) = refusal else { return finding };
    let finding = Finding { severity: Severity::Notice, next: None, ..finding };
    finding.leads_to(format!(
        "Redis takes no writes, heartbeats neither: {why}. Whether they still run can't be told until it does."
    ))
}

/// One whose heartbeat has not expired yet, and that beats no more: for this minute it tells what it had in
/// hand.
fn missing(process: &JobProcess) -> Finding {
    let in_hand = match process.busy {
        0 => "it had no job in hand".to_owned(),
        busy => format!("it had {} in hand", wording::number(busy, "job", "jobs")),
    };
    let evidence = format!("it {}; {in_hand}", process.why_it_takes_none());
    let subject = format!("process {}", process.identity);
    let finding = Finding::new(NAME, Severity::Warning, subject, evidence);
    if process.presence == Presence::Gone {
        return finding
            .leads_to("It ended without a word: killed, or out of memory; what is next may say so. What it had in hand is lost, unless its fetcher keeps it (Sidekiq Pro).")
            .next(KILLED);
    }
    // No signal is sent to it: its number may be another process' by now.
    finding.leads_to(format!(
        "It hangs, has ended without a word, or does not reach Redis: what it serves is not served for \
         now. Its log on {}, or the kernel's, tells which.",
        process.hostname
    ))
}

fn ghosts(jobs: &Jobs) -> Option<Finding> {
    if jobs.ghosts.is_empty() {
        return None;
    }
    let named = wording::list(jobs.ghosts.iter().take(NAMED_MAX).map(String::as_str));
    let more = match jobs.ghosts.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let ghosts = wording::number(
        jobs.ghosts.len() as u64,
        "process in the list has no heartbeat",
        "processes in the list have no heartbeat",
    );
    let evidence = format!("{ghosts}: {named}{more}");
    let finding =
        Finding::new(NAME, Severity::Warning, "Sidekiq processes", evidence).leads_to(CONSEQUENCE);
    Some(finding.next(KILLED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn ghosts_are_named_up_to_a_limit() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().ghosts = ["a:1:x", "a:2:x"].map(str::to_owned).to_vec();
        assert_eq!(
            check(&observation)[0].evidence,
            "2 processes in the list have no heartbeat: a:1:x and a:2:x"
        );
        let consequence = check(&observation).remove(0).consequence;
        assert!(consequence.contains("off the list by itself"), "no command is needed for that");
        observation.jobs.known_mut().ghosts.pop();
        let one = "1 process in the list has no heartbeat: a:1:x";
        assert_eq!(check(&observation)[0].evidence, one);
        observation.jobs.known_mut().ghosts = vec!["a:1:x".to_owned(); 5];
        assert!(check(&observation)[0].evidence.ends_with("and 2 more"));
    }

    #[test]
    fn one_that_beats_no_more_is_told_with_what_it_had_in_hand() {
        let found = |presence: Presence| {
            let mut observation = healthy::observation();
            let process = &mut observation.jobs.known_mut().processes[1];
            (process.presence, process.busy) = (presence, 3);
            process.beat_age = std::time::Duration::from_secs(24);
            check(&observation).pop()
        };
        assert_eq!(found(Presence::Seen), None);
        assert_eq!(found(Presence::Presumed), None);
        let gone = found(Presence::Gone).unwrap();
        let expected = "it is gone: shop has no process 2, whose last heartbeat was 24 s ago; it had 3 jobs in hand";
        assert_eq!(gone.evidence, expected);
        let silent = found(Presence::Silent).unwrap();
        assert!(silent.evidence.starts_with("it has missed its heartbeats, the last was 24 s ago"));
        assert_eq!(silent.next, None, "its number may be another process' by now");
    }

    #[test]
    fn where_redis_takes_no_writes_nobody_is_said_to_have_been_killed() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().ghosts = vec!["a:1:x".to_owned()];
        observation.redis[0].known_mut().persistence.last_append_ok = false;
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.next), (Severity::Notice, None));
        assert!(finding.consequence.starts_with("Redis takes no writes, heartbeats neither"));
    }
}
