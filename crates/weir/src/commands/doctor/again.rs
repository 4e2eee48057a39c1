//! Commands that doctor says come next, with the options that it was given itself: without them they
//! would not find what it has looked at.

use weir_advisor::{Advice, Finding, shell};

const DOCTOR: &str = "weir doctor";
const PLAN: &str = "weir plan";
const SET_ASIDE: &str = "weir sidekiq set-aside";

/// The options that commands are to be given again, as words.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) redis: Vec<String>,
    /// The same for each Redis alone.
    pub(super) shards: Vec<Vec<String>>,
    pub(super) postgres: Vec<String>,
    /// What `weir plan` and doctor take.
    pub(super) both: Vec<String>,
    /// What only `weir plan` takes.
    pub(super) plan: Vec<String>,
    /// What only doctor takes.
    pub(super) doctor: Vec<String>,
}

/// The advice with commands that work as they stand. `shards` are the names of several Redis servers, in
/// the order in which they were given.
pub(super) fn complete(mut advice: Advice, given: &Given, shards: &[&str]) -> Advice {
    for Finding { next, shard, .. } in &mut advice.findings {
        let place = shard.as_deref().and_then(|it| shards.iter().position(|shard| *shard == it));
        if let Some(command) = next {
            *command = with_options(command, given, place);
        }
    }
    // What the verdict says next is what its first finding does, where that stands in the line or not.
    advice.verdict.next = advice.findings.first().and_then(Finding::to_do);
    advice
}

/// `place`: of the one Redis that it is about.
fn with_options(command: &str, given: &Given, place: Option<usize>) -> String {
    let is = |name: &str| {
        let rest = command.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let Given { redis, shards, postgres, both, plan, doctor } = given;
    let (name, options) = if is(PLAN) {
        (PLAN, [&redis[..], postgres, both, plan].concat())
    } else if is(DOCTOR) {
        (DOCTOR, [&redis[..], postgres, both, doctor].concat())
    } else if is(SET_ASIDE) {
        // The queue of that name on another one is another queue.
        let own = place.and_then(|place| shards.get(place));
        (SET_ASIDE, own.unwrap_or(redis).clone())
    } else {
        return command.to_owned();
    };
    let words = options.iter().map(|word| format!(" {}", shell::word(word))).collect::<String>();
    // Before the queue: its name may begin with a hyphen, behind `--`.
    format!("{name}{words}{}", &command[name.len()..])
}

#[cfg(test)]
mod tests {
    use weir_advisor::finding::Change;
    use weir_advisor::{Observation, Severity, advise};

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|it| (*it).to_owned()).collect()
    }

    fn given() -> Given {
        Given {
            redis: words(&["--redis", "redis://a", "--redis", "redis://b"]),
            shards: vec![words(&["--redis", "redis://a"]), words(&["--redis", "redis://b"])],
            postgres: words(&["--postgres", "postgres:///x?host=/run"]),
            both: words(&["--pushes", "default,push"]),
            plan: words(&["--streaming", "2x10"]),
            doctor: words(&["--pool", "web=2x5"]),
        }
    }

    #[test]
    fn what_comes_next_looks_where_doctor_looked() {
        let given = given();
        let both = "--redis redis://a --redis redis://b";
        let sources = format!("{both} --postgres 'postgres:///x?host=/run' --pushes default,push");
        for (command, place, expected) in [
            ("weir plan", None, format!("weir plan {sources} --streaming 2x10")),
            (
                "weir plan --max-connections NUMBER",
                None,
                format!("weir plan {sources} --streaming 2x10 --max-connections NUMBER"),
            ),
            (
                "weir doctor --postgres-memory SIZE",
                None,
                format!("weir doctor {sources} --pool web=2x5 --postgres-memory SIZE"),
            ),
            (
                "weir sidekiq set-aside -- -rf",
                None,
                format!("weir sidekiq set-aside {both} -- -rf"),
            ),
            (
                "weir sidekiq set-aside push",
                Some(1),
                "weir sidekiq set-aside --redis redis://b push".to_owned(),
            ),
            ("kill -TTIN 7", None, "kill -TTIN 7".to_owned()),
            ("weir planner", None, "weir planner".to_owned()),
        ] {
            assert_eq!(with_options(command, &given, place), expected);
        }
    }

    #[test]
    fn a_verdict_has_the_command_of_its_finding_also_behind_a_line_to_change() {
        let mut advice = advise(&Observation::default());
        let change = Change {
            place: "postgresql.conf".to_owned(),
            line: "max_connections = 300".to_owned(),
            restart: true,
        };
        advice.verdict.next =
            Some("in postgresql.conf: max_connections = 300; then weir plan".to_owned());
        advice.findings = vec![Finding {
            rule: "over-commit",
            severity: Severity::Warning,
            subject: "connection pools".to_owned(),
            evidence: String::new(),
            consequence: String::new(),
            change: Some(change),
            next: Some(PLAN.to_owned()),
            shard: None,
        }];
        let given = Given { redis: words(&["--redis", "redis://a"]), ..Given::default() };
        let completed = complete(advice, &given, &[]);
        let expected =
            "in postgresql.conf: max_connections = 300; then weir plan --redis redis://a";
        assert_eq!(completed.verdict.next.as_deref(), Some(expected));
    }
}
