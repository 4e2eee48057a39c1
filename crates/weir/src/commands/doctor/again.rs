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
    pub(super) postgres: Vec<String>,
    /// What `weir plan` and doctor take.
    pub(super) plan: Vec<String>,
}

/// The advice with commands that work as they stand.
pub(super) fn complete(mut advice: Advice, given: &Given) -> Advice {
    let nexts = advice.findings.iter_mut().map(|finding| &mut finding.next);
    for next in nexts.chain([&mut advice.verdict.next]).flatten() {
        *next = with_options(next, given);
    }
    advice
}

fn with_options(command: &str, given: &Given) -> String {
    let both = [PLAN, DOCTOR].into_iter().find(|name| command.starts_with(name));
    let (name, options) = if let Some(name) = both {
        (name, [&given.redis[..], &given.postgres, &given.plan].concat())
    } else if command.starts_with(SET_ASIDE) {
        (SET_ASIDE, given.redis.clone())
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
            redis: words(&["--redis", "redis://a"]),
            postgres: words(&["--postgres", "postgres:///x?host=/run"]),
            plan: words(&["--pushes", "default,push"]),
        };
        for (command, expected) in [
            (
                "weir plan",
                "weir plan --redis redis://a --postgres 'postgres:///x?host=/run' --pushes default,push",
            ),
            ("weir sidekiq set-aside -- -rf", "weir sidekiq set-aside --redis redis://a -- -rf"),
            ("kill -TTIN 7", "kill -TTIN 7"),
        ] {
            assert_eq!(with_options(command, &given), expected);
        }
    }
}
