//! Commands that doctor says come next, with the options that it was given itself: without them they
//! would not find what it has looked at.

use weir_advisor::{Advice, shell};

const DOCTOR: &str = "weir doctor";
const PLAN: &str = "weir plan";
const SET_ASIDE: &str = "weir sidekiq set-aside";

/// The options that other commands take as well, as words.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) redis: Vec<String>,
    /// The same for each Redis alone.
    pub(super) shards: Vec<Vec<String>>,
    pub(super) postgres: Vec<String>,
    /// What `weir plan` and doctor take.
    pub(super) plan: Vec<String>,
}

/// The advice with commands that work as they stand. `shards` are the names of several Redis servers, in
/// the order in which they were given.
pub(super) fn complete(mut advice: Advice, given: &Given, shards: &[&str]) -> Advice {
    // What the verdict says next is what its first finding does.
    let whose = advice.findings.first().and_then(|finding| finding.shard.clone());
    let nexts = advice.findings.iter_mut().map(|it| (&mut it.next, &it.shard));
    for (next, shard) in nexts.chain([(&mut advice.verdict.next, &whose)]) {
        let place = shard.as_deref().and_then(|it| shards.iter().position(|shard| *shard == it));
        if let Some(command) = next {
            *command = with_options(command, given, place);
        }
    }
    advice
}

/// `place`: of the one Redis that it is about.
fn with_options(command: &str, given: &Given, place: Option<usize>) -> String {
    let both = [PLAN, DOCTOR].into_iter().find(|name| command.starts_with(name));
    let (name, options) = if let Some(name) = both {
        (name, [&given.redis[..], &given.postgres, &given.plan].concat())
    } else if command.starts_with(SET_ASIDE) {
        // The queue of that name on another one is another queue.
        let own = place.and_then(|place| given.shards.get(place));
        (SET_ASIDE, own.unwrap_or(&given.redis).clone())
    } else {
        return command.to_owned();
    };
    let words = options.iter().map(|word| format!(" {}", shell::word(word))).collect::<String>();
    // Before the queue: its name may begin with a hyphen, behind `--`.
    format!("{name}{words}{}", &command[name.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_next_looks_where_doctor_looked() {
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let given = Given {
            redis: words(&["--redis", "redis://a", "--redis", "redis://b"]),
            shards: vec![words(&["--redis", "redis://a"]), words(&["--redis", "redis://b"])],
            postgres: words(&["--postgres", "postgres:///x?host=/run"]),
            plan: words(&["--pushes", "default,push"]),
        };
        let both = "--redis redis://a --redis redis://b";
        let plan =
            format!("weir plan {both} --postgres 'postgres:///x?host=/run' --pushes default,push");
        for (command, place, expected) in [
            ("weir plan", None, plan),
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
        ] {
            assert_eq!(with_options(command, &given, place), expected);
        }
    }
}
