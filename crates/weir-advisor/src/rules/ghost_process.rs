//! Processes that ended without a word: killed, or out of memory.

use crate::finding::{Finding, Severity};
use crate::observation::Observation;
use crate::wording;

pub(crate) const NAME: &str = "ghost-process";

/// Names that are printed; the rest is counted.
const NAMED_MAX: usize = 3;

/// What they had in hand is forgotten with their heartbeat: whether it was anything can't be told.
const CONSEQUENCE: &str = "They ended without a word: killed, or out of memory; what is next may say so. A job that \
    one had in hand then is lost. A Sidekiq that runs takes them off the list by itself, within some minutes.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    if jobs.ghosts.is_empty() {
        return Vec::new();
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
    vec![finding.next("journalctl -k --grep 'killed process'")]
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
}
