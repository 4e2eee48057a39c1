//! Files that are no layouts and hold a part of one: units of systemd, Procfiles, docker-compose.yml,
//! sidekiq.yml. What their command lines say for sure is shown as a layout has it, what they do not say
//! is said to be unknown: nothing is guessed.

mod command;

use std::fmt::Write;
use std::path::Path;

use self::command::{Command, Unknown};

/// Commands that are shown: a Procfile has some.
const COMMANDS_MAX: usize = 100;
const POOL: &str = "DB_POOL";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unit,
    Procfile,
    Compose,
    SidekiqSettings,
}

/// "is a unit of systemd, and no layout. ..", with what it says of one; none for what is none of these.
pub(super) fn explain(path: &Path, text: &str) -> Option<String> {
    let kind = kind(text)?;
    let is = match kind {
        Kind::Unit => "is a unit of systemd",
        Kind::Procfile => "is a Procfile",
        Kind::Compose => "is a file of docker compose",
        Kind::SidekiqSettings => {
            return Some(
                "is Sidekiq's own settings, and no layout: in a layout each process has its `concurrency`, and its \
                 `queues` as behind -q ([default, 8] is \"default,8\"). Which block of an environment counts, \
                 and what <%= .. %> comes to, is not told here"
                    .to_owned(),
            );
        }
    };
    let commands: Vec<_> = lines(text)
        .into_iter()
        .filter_map(|(number, line)| {
            let (key, line) = command_of(kind, &line)?;
            Some((number, key, Command::of(line)?))
        })
        .take(COMMANDS_MAX)
        .collect();
    let mut said = format!("{is}, and no layout. ");
    if commands.is_empty() {
        said.push_str("No command of it starts sidekiq");
        return Some(said);
    }
    said.push_str("For a layout, which has max_connections and all processes, it says:\n");
    for (number, key, command) in &commands {
        let name = name(kind, path, key.as_deref(), *number);
        entry(&mut said, text, kind, (*number, &name), command);
    }
    Some(said)
}

fn kind(text: &str) -> Option<Kind> {
    let mut lines = text.lines().map(str::trim_end);
    let any = |is: fn(&str) -> bool| text.lines().map(str::trim_end).any(is);
    if any(|line| line == "[Service]" || line.trim_start().starts_with("ExecStart=")) {
        return Some(Kind::Unit);
    }
    if any(|line| line == "services:") {
        return Some(Kind::Compose);
    }
    if any(|line| {
        let line = line.trim_start().trim_start_matches(':');
        line.starts_with("queues:") || line.starts_with("concurrency:")
    }) {
        return Some(Kind::SidekiqSettings);
    }
    lines.any(|line| process(line).is_some()).then_some(Kind::Procfile)
}

/// "worker: bundle exec sidekiq", as a Procfile has it.
fn process(line: &str) -> Option<(&str, &str)> {
    let (name, command) = line.split_once(':')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let is_name = !name.is_empty() && name.chars().all(plain);
    (is_name && command.starts_with(' ') && command.contains("sidekiq")).then_some((name, command))
}

/// Lines with their numbers, those that a backslash goes on with as one; no comments.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match lines.last_mut() {
            Some((_, whole)) if goes_on => {
                whole.push(' ');
                whole.push_str(part);
            }
            _ => lines.push((number, part.to_owned())),
        }
        goes_on = more;
    }
    lines
}

/// What is started, and how the file calls it.
fn command_of(kind: Kind, line: &str) -> Option<(Option<String>, &str)> {
    match kind {
        Kind::Unit => Some((None, line.strip_prefix("ExecStart=")?)),
        Kind::Procfile => process(line).map(|(name, command)| (Some(name.to_owned()), command)),
        Kind::Compose => Some((None, line.strip_prefix("command:")?)),
        Kind::SidekiqSettings => None,
    }
}

fn name(kind: Kind, path: &Path, key: Option<&str>, number: usize) -> String {
    let stem = path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    match (kind, key) {
        (_, Some(key)) => key.to_owned(),
        (Kind::Unit, None) => stem,
        _ => format!("sidekiq-{number}"),
    }
}

fn entry(
    said: &mut String,
    text: &str,
    kind: Kind,
    (number, name): (usize, &str),
    command: &Command,
) {
    let quoted = |word: &str| toml::Value::from(word).to_string();
    let _ = write!(said, "\n[[workers]]  # line {number}\nname = {}\n", quoted(name));
    if kind == Kind::Unit && name.ends_with('@') {
        said.push_str("# processes: unknown: as many as instances of the template run\n");
    } else if kind == Kind::Compose {
        said.push_str("# processes: unknown: as many as it has replicas\n");
    }
    let mut line = |key: &str, value: Result<String, Unknown>| {
        let _ = match value {
            Ok(value) => writeln!(said, "{key} = {value}"),
            Err(Unknown(why)) => writeln!(said, "# {key}: unknown: {why}"),
        };
    };
    line("concurrency", command.concurrency().map(|number| number.to_string()));
    line("pool", pool(text, kind, command).map(|number| number.to_string()));
    let list = |queues: &[String]| {
        let queues: Vec<_> = queues.iter().map(|queue| quoted(queue)).collect();
        format!("[{}]", queues.join(", "))
    };
    line("queues", command.queues().map(list));
}

/// What the command's own line sets, or all lines of a unit that set it.
fn pool(text: &str, kind: Kind, command: &Command) -> Result<u32, Unknown> {
    let unknown = |why: &str| Err(Unknown(why.to_owned()));
    if let Some(value) = command.variable(POOL) {
        return value.parse().or_else(|_| unknown("DB_POOL is no number there"));
    }
    let lines = lines(text);
    if kind != Kind::Unit {
        let is_there = lines.iter().any(|(_, line)| line.contains(POOL));
        return match is_there {
            true => unknown("whether DB_POOL is this one's is not told"),
            false => unknown(
                "DB_POOL stands elsewhere, or nowhere: then Mastodon's is as large as concurrency",
            ),
        };
    }
    if lines.iter().any(|(_, line)| line.starts_with("EnvironmentFile=")) {
        return unknown("what its EnvironmentFile says wins");
    }
    let set = lines
        .iter()
        .filter_map(|(number, line)| Some((number, line.strip_prefix("Environment=")?)));
    let mut values: Vec<(usize, String)> = Vec::new();
    for (number, line) in set {
        let words = command::words(line).map_err(Unknown)?;
        let of_pool = words.iter().filter_map(|word| word.strip_prefix("DB_POOL="));
        values.extend(of_pool.map(|value| (*number, value.to_owned())));
    }
    match values.as_slice() {
        [] => unknown(
            "DB_POOL stands elsewhere, or nowhere: then Mastodon's is as large as concurrency",
        ),
        [(_, value), others @ ..] if others.iter().all(|(_, other)| other == value) => {
            value.parse().or_else(|_| unknown("DB_POOL is no number there"))
        }
        [(first, _), .., (last, _)] => {
            Err(Unknown(format!("DB_POOL differs between the lines {first} and {last}")))
        }
        [_] => unknown("DB_POOL is no number there"),
    }
}

#[cfg(test)]
mod tests;
