//! Removes lines that would set a setting to another value than an earlier line of the same report.
//!
//! Rules do not know of each other: one may want a smaller pool and another a larger one. Whoever types
//! both lines undoes the first. The line of the worse finding stays; the other finding says so.

use std::collections::BTreeMap;

use crate::action::{Action, Assignment};
use crate::finding::Finding;

/// Places that begin with these name the owner of the setting after it.
const OWNERS: [&str; 3] =
    ["the command line of ", "the command that starts ", "the environment of "];
const ALONE: &str = " alone";
const THREADS: &str = "threads";

/// A setting with its place, and the value that a finding gives it.
type SettingValue = (String, String);

/// Returns the findings, sorted by severity, without lines that contradict earlier ones.
pub(crate) fn without(findings: Vec<Finding>) -> Vec<Finding> {
    let mut set: BTreeMap<String, (String, String)> = BTreeMap::new();
    let resolve = |finding: Finding| {
        let values = values(&finding);
        let other = values.iter().find_map(|(setting, value)| {
            let (earlier, subject) = set.get(setting)?;
            (earlier != value).then(|| subject.clone())
        });
        match other {
            Some(subject) => without_line(finding, &subject),
            None => {
                for (setting, value) in values {
                    set.entry(setting).or_insert((value, finding.subject.clone()));
                }
                finding
            }
        }
    };
    findings.into_iter().map(resolve).collect()
}

fn without_line(finding: Finding, subject: &str) -> Finding {
    let why = format!(
        "No line is suggested here: it would set what the line for {subject} sets, to another value. \
         Apply that one first, then run doctor again."
    );
    finding.adding(why).without_actions()
}

/// Returns all settings that the lines of a finding set.
pub(crate) fn values(finding: &Finding) -> Vec<SettingValue> {
    let of_action = |action: &Action| match action {
        Action::SetLine(it) => of_line(&it.place, &it.line),
        Action::Run { command } => of_redis(command),
        Action::Advise { .. } => Vec::new(),
    };
    let of_actions = finding.actions.iter().flat_map(of_action);
    of_actions.chain(finding.assignments().filter_map(of_process)).collect()
}

/// Returns the list of queues that a capsule gets.
fn of_process(assignment: &Assignment) -> Option<SettingValue> {
    match assignment {
        Assignment::Queues { process, capsule, queues } => {
            Some((format!("queues of {process} {capsule}"), queues.join(" ")))
        }
        Assignment::Stop { .. } | Assignment::Start { .. } => None,
    }
}

/// Parses the forms of lines that findings have: `name = value`, `NAME=value`, `-c 5`,
/// `ALTER .. CONNECTION LIMIT 5;`, "5 threads (..)" and "at most 5 threads (..), and NAME=value".
fn of_line(place: &str, line: &str) -> Vec<SettingValue> {
    let owner = owner(place);
    let of = |name: &str, value: &str| (format!("{name} of {owner}"), value.to_owned());
    if let Some(rest) = line.strip_prefix("at most ") {
        let (threads, other) = rest.split_once(", and ").unwrap_or((rest, ""));
        let other = of_line(place, other);
        return threads_of(threads).map(|it| of(THREADS, it)).into_iter().chain(other).collect();
    }
    if let Some(threads) = line.strip_prefix("-c ").filter(|it| is_number(it)) {
        return vec![of(THREADS, threads)];
    }
    if let Some((before, limit)) = line.split_once(" CONNECTION LIMIT ") {
        return vec![(format!("{before} CONNECTION LIMIT"), limit.to_owned())];
    }
    if let Some(threads) = threads_of(line) {
        return vec![of(THREADS, threads)];
    }
    let pair = line.split_once(" = ").or_else(|| line.split_once('='));
    let is_name = |name: &str| !name.is_empty() && !name.starts_with("-q");
    pair.filter(|(name, _)| is_name(name))
        .map(|(name, value)| of(name, value))
        .into_iter()
        .collect()
}

/// Returns "5" of "5 threads (MAX_THREADS)".
fn threads_of(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once(' ')?;
    (is_number(number) && rest.starts_with("thread")).then_some(number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the service of a place, so that its command line and its environment are one.
fn owner(place: &str) -> &str {
    let owner = OWNERS.iter().find_map(|start| place.strip_prefix(start));
    owner.map_or(place, |owner| owner.strip_suffix(ALONE).unwrap_or(owner))
}

/// Returns what `redis-cli .. CONFIG SET name value` sets, for each such command.
fn of_redis(command: &str) -> Vec<SettingValue> {
    const SET: &str = " CONFIG SET ";
    let parts: Vec<&str> = command.split(SET).collect();
    let pairs = parts.windows(2).filter_map(|pair| {
        let cli = pair[0].rfind("redis-cli").map(|at| &pair[0][at..])?;
        let mut words = pair[1].split(' ');
        Some((format!("{} of {cli}", words.next()?), words.next()?.to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::healthy::{self, service};
    use crate::observation::Fact;

    fn finding(place: &str, line: &str) -> Finding {
        Finding::new("rule", Severity::Warning, line, "").change(place, line)
    }

    fn kept(lines: &[(&str, &str)]) -> usize {
        let findings = lines.iter().map(|(place, line)| finding(place, line)).collect();
        without(findings).iter().filter(|it| it.line_change().is_some()).count()
    }

    #[test]
    fn the_second_of_two_values_is_removed_and_an_equal_one_stays() {
        for (one, other) in [
            (("postgresql.conf", "work_mem = 4MB"), ("postgresql.conf", "work_mem = 8MB")),
            (
                ("the command line of sidekiq", "-c 5"),
                ("the environment of sidekiq alone", "at most 3 threads (-c), and DB_POOL=3"),
            ),
            (
                ("the environment of web alone", "DB_POOL=5"),
                ("the environment of web alone", "DB_POOL=9"),
            ),
            (
                ("the command that starts web", "5 threads (MAX_THREADS)"),
                ("the command that starts web", "1 thread (MAX_THREADS)"),
            ),
            (
                ("psql, as a superuser", "ALTER ROLE \"a\" CONNECTION LIMIT 5;"),
                ("psql", "ALTER ROLE \"a\" CONNECTION LIMIT 6;"),
            ),
        ] {
            assert_eq!(kept(&[one, other]), 1, "{one:?} {other:?}");
            assert_eq!(kept(&[one, one]), 2, "{one:?}");
        }
        let apart =
            [("postgresql.conf", "a = 1"), ("postgresql.conf", "b = 2"), ("weir.toml", "a = 2")];
        assert_eq!(kept(&apart), 3);
        let queues = [("all queues of a", "-q x=1 -q y"), ("all queues of a", "-q x=2 -q y")];
        assert_eq!(kept(&queues), 2, "names of queues are no settings");
    }

    #[test]
    fn what_redis_is_told_twice_is_told_once() {
        let next = |value: &str| {
            let cli = "redis-cli -h a -p 1";
            let command = format!("{cli} CONFIG SET maxmemory {value} && {cli} CONFIG REWRITE");
            Finding::new("rule", Severity::Warning, "Redis a:1", "").next(command)
        };
        let findings = without(vec![next("150mb"), next("200mb")]);
        assert!(findings[0].next_step().is_some() && findings[1].next_step().is_none());
        assert!(findings[1].consequence.contains("the line for Redis a:1 sets"), "{findings:?}");
    }

    #[test]
    fn a_pool_is_not_made_larger_and_smaller_in_one_report() {
        let mut observation = healthy::observation();
        let services = observation.services.known_mut();
        services[0] = service("web", 60, 4, "DB_POOL=");
        services[0].threads = Some(6);
        let findings = crate::advise(&observation).findings;
        let rules: Vec<_> =
            findings.iter().map(|it| (&*it.rule, it.line_change().is_some())).collect();
        assert!(rules.contains(&("over-commit", true)), "{rules:?}");
        assert!(rules.contains(&("small-pool", false)), "{rules:?}");
    }

    #[test]
    fn a_process_that_is_split_keeps_its_queues() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        let process = &mut jobs.processes[0];
        (process.cores_used, process.busy) = (Fact::Known(0.95), 25);
        process.capsules[0].queues.retain(|it| it.name != "push");
        let findings = crate::advise(&observation).findings;
        let with_line = |rule: &str| {
            findings.iter().find(|it| it.rule == rule).is_some_and(|it| it.line_change().is_some())
        };
        assert!(with_line("unserved-queue") && !with_line("idle-cores"), "{findings:?}");
    }
}
