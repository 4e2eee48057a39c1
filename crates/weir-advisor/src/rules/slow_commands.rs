//! Commands that take Redis many milliseconds are called repeatedly. The slow log may be off, and has no
//! commands that a script runs; the counters of commands have both.

use std::time::Duration;

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{CommandRate, Fact, Observation, RedisOperations, RedisServer};
use crate::wording::{self, percent};

pub(crate) const NAME: &str = "slow-commands";

/// Commands of Sidekiq take some microseconds, and those that read a hundred jobs less than a millisecond.
const MEAN_MIN: Duration = Duration::from_millis(10);
/// Fewer calls may be those of an operator.
const CALLS_MIN: f64 = 3.0;
/// In that time a busy machine may have run other programs than Redis.
const TOTAL_MIN: Duration = Duration::from_millis(300);
const SHARE_MIN: f64 = 0.03;
/// From this mean on, each call delays pushes and fetches noticeably.
const HARMFUL_MEAN: Duration = Duration::from_millis(50);
const HARMFUL_SHARE: f64 = 0.2;
/// Share of a script's time that a command must take to be the cause.
const CAUSE_SHARE: f64 = 0.5;

/// Commands that run others, whose time Redis counts for both.
const SCRIPTS: [&str; 6] = ["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"];
/// Commands that the observer sends, and those that wait without running.
const OTHERS: [&str; 5] = ["INFO", "CLIENT LIST", "SLOWLOG GET", "MEMORY USAGE", "EXEC"];

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().filter_map(Fact::known);
    servers.filter_map(|redis| found(observation, redis)).collect()
}

fn found(observation: &Observation, redis: &RedisServer) -> Option<Finding> {
    let lately = redis.lately.known()?;
    let is_other = |it: &CommandRate| OTHERS.contains(&it.command.as_str());
    let slow = || lately.commands.iter().filter(|it| !is_other(it) && is_slow(it, lately));
    let by_share = |one: &&CommandRate, other: &&CommandRate| one.share.total_cmp(&other.share);
    let script = slow().filter(|it| is_script(it)).max_by(by_share);
    let command = slow().filter(|it| !is_script(it)).max_by(by_share);
    // A command that takes most of a script's time explains the script.
    let of_script = script.zip(command).filter(|(script, command)| {
        command.share >= CAUSE_SHARE * script.share && command.share <= script.share * 1.1
    });
    let worst = of_script.map(|(_, command)| command).or_else(|| slow().max_by(by_share))?;
    let is_harmful = worst.mean >= HARMFUL_MEAN || worst.share >= HARMFUL_SHARE;
    let severity = if is_harmful { Severity::Warning } else { Severity::Notice };
    let calls = wording::number(calls(worst, lately), "call", "calls");
    let by = of_script.map(|(script, _)| format!(", most likely within {}", script.command));
    let evidence = format!(
        "{calls} of {} in {} took {} each, {} of its time{}",
        worst.command,
        wording::duration(lately.window),
        wording::duration(worst.mean),
        percent(worst.share),
        by.unwrap_or_default()
    );
    let finding =
        Finding::new(NAME, severity, format!("Redis {}", redis.name), evidence).leads_to(format!(
            "Redis runs one command at a time: pushes and fetches wait that long. {}",
            advice(worst)
        ));
    let finding = if of_script.is_some() || is_script(worst) {
        finding.with_confidence(Confidence::Likely)
    } else {
        finding
    };
    // Of each client, Redis lists the last command, and a script as a whole.
    let shown = of_script.map_or(worst, |(script, _)| script).command.to_ascii_lowercase();
    let shown = shown.replace(' ', "|");
    let command = |cli: &str| format!("{cli} CLIENT LIST | grep -F cmd={shown}");
    Some(finding.next(observation.redis_command(&redis.name, command)))
}

fn is_slow(command: &CommandRate, lately: &RedisOperations) -> bool {
    let total = command.share * lately.window.as_secs_f64();
    command.mean >= MEAN_MIN
        && command.share >= SHARE_MIN
        && total >= TOTAL_MIN.as_secs_f64()
        && command.per_second * lately.window.as_secs_f64() > CALLS_MIN - 0.5
}

fn is_script(command: &CommandRate) -> bool {
    SCRIPTS.contains(&command.command.as_str())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of calls, which 64 bits hold"
)]
fn calls(command: &CommandRate, lately: &RedisOperations) -> u64 {
    (command.per_second * lately.window.as_secs_f64()).round().max(0.0) as u64
}

/// Says what the command does that takes so long, and what to do instead.
fn advice(command: &CommandRate) -> &'static str {
    match command.command.as_str() {
        "KEYS" => {
            "KEYS reads all keys of the database; SCAN does so in steps, and a set of the names needs \
             neither. The command shows which clients send it."
        }
        _ if is_script(command) => {
            "A script that works on many keys or elements holds Redis until it ends; let it work in \
             steps. The command shows which clients send it."
        }
        _ => {
            "It works on many elements at once; let it work in steps (SCAN, HSCAN, SSCAN, ZSCAN, or \
             ranges). The command shows which clients send it."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn rate(command: &str, calls: f64, millis: u64) -> CommandRate {
        let mean = Duration::from_millis(millis);
        let per_second = calls / 10.0;
        let share = per_second * mean.as_secs_f64();
        CommandRate { command: command.to_owned(), per_second, mean, share }
    }

    fn with(commands: Vec<CommandRate>) -> Option<Finding> {
        let mut observation = healthy::observation();
        let lately = observation.redis[0].known_mut().lately.known_mut();
        (lately.window, lately.commands) = (Duration::from_secs(10), commands);
        check(&observation).pop()
    }

    #[test]
    fn a_command_that_reads_everything_is_found_without_a_slow_log() {
        let finding = with(vec![rate("KEYS", 5.0, 150), rate("BRPOP", 9_000.0, 0)]).unwrap();
        assert_eq!(finding.evidence, "5 calls of KEYS in 10 s took 150 ms each, 8 % of its time");
        assert_eq!(
            (finding.severity, finding.confidence),
            (Severity::Warning, Confidence::Certain)
        );
        assert!(finding.consequence.contains("SCAN"), "{finding:?}");
        let next = finding.next_step().unwrap();
        assert!(next.ends_with("CLIENT LIST | grep -F cmd=keys"), "{next}");
        let finding = with(vec![rate("SMEMBERS", 40.0, 12)]).unwrap();
        assert_eq!(finding.severity, Severity::Notice);
    }

    #[test]
    fn the_command_within_a_script_is_named_with_it() {
        let finding = with(vec![rate("EVALSHA", 5.0, 160), rate("KEYS", 5.0, 150)]).unwrap();
        let expected =
            "5 calls of KEYS in 10 s took 150 ms each, 8 % of its time, most likely within EVALSHA";
        assert_eq!((finding.evidence.as_str(), finding.confidence), (expected, Confidence::Likely));
        assert!(finding.next_step().unwrap().ends_with("cmd=evalsha"));
        // Thousands of short commands take the time of this one.
        let finding = with(vec![rate("EVAL", 10.0, 300), rate("GET", 900_000.0, 0)]).unwrap();
        assert!(finding.evidence.starts_with("10 calls of EVAL in 10 s took 300 ms each, 30 %"));
        assert!(finding.consequence.contains("A script that works on many"), "{finding:?}");
    }

    #[test]
    fn fast_or_rare_commands_are_no_finding() {
        assert_eq!(with(vec![rate("LRANGE", 900.0, 9)]), None, "fast");
        assert_eq!(with(vec![rate("FLUSHDB", 2.0, 900)]), None, "rare");
        assert_eq!(with(vec![rate("KEYS", 20.0, 10)]), None, "a small share of the time");
        assert_eq!(with(vec![rate("INFO", 20.0, 100)]), None, "the observer's own");
    }
}
