//! The commands of Puma, Sidekiq and Mastodon's streaming, with the Ruby and the options that they have today.

use crate::commands::init::app::findings::Findings;
use crate::commands::init::app::quote::{is_plain, literal};
use crate::commands::init::app::settings::{Variable, fixed};
use crate::commands::init::app::today::{RunBy, Today};
use crate::commands::plan::check::foreign::command::{Program, values};
use crate::commands::plan::check::foreign::words::file_name;

/// Sidekiq's `-t`.
const TIMEOUT_SECONDS: u32 = 25;
const TIMEOUT_SECONDS_MAX: u32 = 86_400;

/// A command with its environment.
pub(super) struct RubyCommand {
    pub(super) words: Vec<String>,
    pub(super) environment: Vec<Variable>,
    /// Of Sidekiq: how long its jobs have when it stops.
    pub(super) timeout_seconds: u32,
}

/// Puma as one process, which listens where Weir wants it to.
pub(super) fn puma(today: &Today, threads: u32, findings: &mut Findings) -> RubyCommand {
    let Started { mut words, arguments, environment } =
        started(today, Program::Puma, &["puma"], findings);
    words.extend(kept(&arguments, &[("-C", "--config")]));
    let threads = format!("{threads}:{threads}");
    words.extend(
        ["--workers", "0", "--threads", &threads, "--bind", "unix://{socket}"].map(str::to_owned),
    );
    RubyCommand { words, environment, timeout_seconds: 0 }
}

pub(super) fn unicorn(today: &Today, findings: &mut Findings) -> RubyCommand {
    let Started { mut words, arguments, environment } =
        started(today, Program::Unicorn, &["unicorn", "unicorn_rails"], findings);
    words.extend(kept(&arguments, &[("-c", "--config-file")]));
    words.extend(["--listen", "{socket}"].map(str::to_owned));
    findings.assumed.push(
        "Unicorn's settings file has worker_processes 1 and no listen; Weir starts several of them"
            .to_owned(),
    );
    RubyCommand { words, environment, timeout_seconds: 0 }
}

/// Sidekiq with the threads and queues that weir.toml gives it.
pub(super) fn sidekiq(today: &Today, findings: &mut Findings) -> RubyCommand {
    let Started { mut words, arguments, environment } =
        started(today, Program::Sidekiq, &["sidekiq"], findings);
    words.extend(kept(
        &arguments,
        &[("-C", "--config"), ("-r", "--require"), ("-e", "--environment"), ("-t", "--timeout")],
    ));
    words.extend(["-c", "{concurrency}", "{queues}"].map(str::to_owned));
    let timeout = values(&arguments, "-t", "--timeout").last().and_then(|it| it.parse().ok());
    let timeout_seconds = timeout.unwrap_or(TIMEOUT_SECONDS).min(TIMEOUT_SECONDS_MAX);
    let mut environment = environment;
    if !environment.iter().any(|(name, _)| name == "MALLOC_ARENA_MAX") {
        environment.push(fixed("MALLOC_ARENA_MAX", 2));
    }
    RubyCommand { words, environment, timeout_seconds }
}

/// Streaming at a port of Weir's choice.
pub(super) fn streaming(today: &Today, pool: u32, findings: &mut Findings) -> RubyCommand {
    let unit = today.unit_of(Program::Streaming);
    let words = unit.map(|unit| unit.words.clone()).filter(|words| {
        let is_node = words.first().is_some_and(|it| file_name(it) == "node");
        is_node && words.iter().all(|word| is_plain(word))
    });
    if words.is_none() && today.run_by == RunBy::Systemd {
        findings.assumed.push("streaming is started by `node ./streaming`".to_owned());
    }
    let usual = || ["node", "./streaming"].map(str::to_owned).to_vec();
    // The command itself must name the port.
    let port = ["env", "PORT={port}"].map(str::to_owned).to_vec();
    let words = [port, words.unwrap_or_else(usual)].concat();
    let mut environment: Vec<Variable> = unit
        .map(|unit| unit.environment.iter().map(literal_variable).collect())
        .unwrap_or_default();
    if !environment.iter().any(|(name, _)| name == "NODE_ENV") {
        environment.push(fixed("NODE_ENV", "production"));
    }
    environment.extend([
        fixed("BIND", "127.0.0.1"),
        // A socket in .env.production would win over the port.
        fixed("SOCKET", ""),
        fixed("DB_POOL", pool),
    ]);
    RubyCommand { words, environment, timeout_seconds: 0 }
}

struct Started {
    /// Up to the program.
    words: Vec<String>,
    /// After it, as today.
    arguments: Vec<String>,
    environment: Vec<Variable>,
}

/// Returns how the unit of a program starts it; without one, by Bundler.
fn started(today: &Today, program: Program, names: &[&str], findings: &mut Findings) -> Started {
    let unit = today.unit_of(program);
    let usual = || ["bundle", "exec", names[0]].map(str::to_owned).to_vec();
    let mut environment: Vec<Variable> = unit
        .map(|unit| unit.environment.iter().map(literal_variable).collect())
        .unwrap_or_default();
    if !environment.iter().any(|(name, _)| name == "RAILS_ENV") {
        environment.insert(0, fixed("RAILS_ENV", "production"));
    }
    let Some(unit) = unit else {
        if today.run_by != RunBy::Compose {
            findings.assumed.push(format!("`bundle exec {}` starts it, found in PATH", names[0]));
        }
        return Started { words: usual(), arguments: Vec::new(), environment };
    };
    let at = unit.words.iter().position(|word| names.contains(&file_name(word)));
    let is_plain_word = |word: &String| is_plain(word) && !word.contains('=');
    match at.filter(|at| unit.words[..=*at].iter().all(is_plain_word)) {
        Some(at) => Started {
            words: unit.words[..=at].to_vec(),
            arguments: unit.words[at + 1..].to_vec(),
            environment,
        },
        None => {
            findings.assumed.push(format!(
                "{} starts through a shell or with variables in its command; weir.toml has `bundle exec {}`: its \
                 `bundle` must be the application's Ruby",
                unit.name, names[0]
            ));
            Started { words: usual(), arguments: Vec::new(), environment }
        }
    }
}

/// Returns options that stay, with their values.
fn kept(arguments: &[String], options: &[(&str, &str)]) -> Vec<String> {
    let value = |(short, long): &(&str, &str)| {
        let value = *values(arguments, short, long).last()?;
        is_plain(value).then(|| [(*short).to_owned(), value.to_owned()])
    };
    options.iter().filter_map(value).flatten().collect()
}

fn literal_variable((name, value): &(String, String)) -> Variable {
    (name.clone(), literal(value))
}
