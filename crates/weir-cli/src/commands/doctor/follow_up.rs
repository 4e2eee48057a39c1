//! Completes the commands that doctor suggests with its own options, without which they would not
//! find the same sources.

use weir_advisor::{Action, Advice, Finding, shell};

const DOCTOR: &str = "weir doctor";
const PLAN: &str = "weir plan";
const SET_ASIDE: &str = "weir sidekiq set-aside";

/// The options to pass on, as arguments.
#[derive(Debug, Default)]
pub(super) struct PassedOptions {
    pub(super) redis: Vec<String>,
    /// The options of each Redis separately.
    pub(super) shards: Vec<Vec<String>>,
    pub(super) postgres: Vec<String>,
    /// Queues that the application pushes to, on any Redis.
    pub(super) pushes: Vec<String>,
    pub(super) pooler: Vec<String>,
    /// Options of `weir plan` only.
    pub(super) plan: Vec<String>,
    /// Options of doctor only.
    pub(super) doctor: Vec<String>,
}

impl PassedOptions {
    /// Returns the options for an observation of all sources.
    fn observe_arguments(&self) -> Vec<String> {
        let Self { redis, postgres, pushes, pooler, doctor, .. } = self;
        [redis, postgres, pushes, pooler, doctor].map(Vec::as_slice).concat()
    }

    /// Returns the options for plans. A plan covers one Redis: the given one, or each of them in
    /// turn.
    fn plan_arguments(&self, redis_index: Option<usize>) -> Vec<Vec<String>> {
        let Self { redis, shards, postgres, pushes, pooler, plan, .. } = self;
        if shards.len() < 2 {
            return vec![[redis, postgres, pushes, pooler, plan].map(Vec::as_slice).concat()];
        }
        // It is unknown which of these queues are on this Redis.
        let of = |redis| [redis, postgres, pooler, plan].map(Vec::as_slice).concat();
        match redis_index.and_then(|redis_index| shards.get(redis_index)) {
            Some(own) => vec![of(own)],
            None => shards.iter().map(of).collect(),
        }
    }
}

/// Completes the commands in the advice. `shards` are the names of several Redis servers, in the
/// order of the options.
pub(super) fn complete_commands(
    mut advice: Advice,
    passed: &PassedOptions,
    shards: &[&str],
) -> Advice {
    for Finding { actions, shard, .. } in &mut advice.findings {
        let redis_index =
            shard.as_deref().and_then(|it| shards.iter().position(|shard| *shard == it));
        for action in actions {
            if let Action::Run { command } = action {
                *command = with_options(command, passed, redis_index);
            }
        }
    }
    // The verdict suggests the same as its first finding.
    advice.verdict.next = advice.findings.first().and_then(Finding::to_do);
    advice
}

/// Adds the options to a command. `redis_index` is the index of the Redis that it concerns.
fn with_options(command: &str, passed: &PassedOptions, redis_index: Option<usize>) -> String {
    let is = |name: &str| {
        let rest = command.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let (name, each) = if is(PLAN) {
        (PLAN, passed.plan_arguments(redis_index))
    } else if is(DOCTOR) {
        (DOCTOR, vec![passed.observe_arguments()])
    } else if is(SET_ASIDE) {
        // A queue of the same name on another Redis is a different queue.
        let own = redis_index.and_then(|redis_index| passed.shards.get(redis_index));
        (SET_ASIDE, vec![own.unwrap_or(&passed.redis).clone()])
    } else {
        return command.to_owned();
    };
    let rest = &command[name.len()..];
    let with = |options: &Vec<String>| {
        let words = options.iter().map(|word| format!(" {}", shell::word(word)));
        // Options go before the queue, whose name may begin with a hyphen, after `--`.
        format!("{name}{}{rest}", words.collect::<String>())
    };
    each.iter().map(with).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use weir_advisor::{LineChange, Observation, Severity, advise};

    use super::*;

    fn to_arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|it| (*it).to_owned()).collect()
    }

    fn given() -> PassedOptions {
        PassedOptions {
            redis: to_arguments(&["--redis", "redis://a", "--redis", "redis://b"]),
            shards: vec![
                to_arguments(&["--redis", "redis://a"]),
                to_arguments(&["--redis", "redis://b"]),
            ],
            postgres: to_arguments(&["--postgres", "postgres:///x?host=/run"]),
            pushes: to_arguments(&["--pushes", "default,push"]),
            pooler: to_arguments(&["--pgbouncer", "40"]),
            plan: to_arguments(&["--streaming", "2x10"]),
            doctor: to_arguments(&["--pool", "web=2x5"]),
        }
    }

    #[test]
    fn suggested_commands_use_the_sources_of_doctor() {
        let passed = given();
        let both = "--redis redis://a --redis redis://b";
        let database = "--postgres 'postgres:///x?host=/run'";
        let sources = format!("{both} {database} --pushes default,push --pgbouncer 40");
        let plan = |redis, rest| {
            format!("weir plan --redis {redis} {database} --pgbouncer 40 --streaming 2x10{rest}")
        };
        for (command, redis_index, expected) in [
            ("weir plan", Some(1), plan("redis://b", "")),
            (
                "weir plan --max-connections NUMBER",
                None,
                ["redis://a", "redis://b"]
                    .map(|redis| plan(redis, " --max-connections NUMBER"))
                    .join("; "),
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
            assert_eq!(with_options(command, &passed, redis_index), expected);
        }
        let redis = to_arguments(&["--redis", "redis://a"]);
        let alone = PassedOptions { shards: vec![redis.clone()], redis, ..passed };
        let expected = format!(
            "weir plan --redis redis://a {database} --pushes default,push --pgbouncer 40 --streaming 2x10"
        );
        assert_eq!(with_options("weir plan", &alone, None), expected);
    }

    #[test]
    fn the_verdict_suggests_the_command_of_its_finding() {
        let mut advice = advise(&Observation::default());
        let change = LineChange {
            place: "postgresql.conf".to_owned(),
            line: "max_connections = 300".to_owned(),
            restart: true,
            ..LineChange::default()
        };
        advice.verdict.next =
            Some("in postgresql.conf: max_connections = 300; then weir plan".to_owned());
        let finding = Finding::new("over-commit", Severity::Warning, "connection pools", "");
        let actions = vec![Action::SetLine(change), Action::Run { command: PLAN.to_owned() }];
        advice.findings = vec![Finding { actions, ..finding }];
        let passed = PassedOptions {
            redis: to_arguments(&["--redis", "redis://a"]),
            ..PassedOptions::default()
        };
        let completed = complete_commands(advice, &passed, &[]);
        let expected =
            "in postgresql.conf: max_connections = 300; then weir plan --redis redis://a";
        assert_eq!(completed.verdict.next.as_deref(), Some(expected));
    }
}
