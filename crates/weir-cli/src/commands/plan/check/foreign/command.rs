//! Parses command lines: their words, the commands of a shell, and the program that each starts.

use super::environment::{Environment, assignment};
use super::files::Folder;
use super::idle::holds_nothing;
use super::package::{self, Resolved};
use super::words::{file_name, split};

/// Programs that run the command in their arguments.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ash"];

/// A program whose connections are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Program {
    Sidekiq,
    Puma,
    /// Unicorn, or its fork Pitchfork: one thread in each process.
    Unicorn,
    Streaming,
    Postgres,
}

/// A program with its arguments.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    pub(super) program: Program,
    pub(super) arguments: Vec<String>,
    /// Whether it is started by `dotenv`, which reads `.env`.
    pub(super) has_dotenv: bool,
}

/// One command of a line.
#[derive(Clone, Debug)]
pub(super) enum CommandKind {
    Known(Invocation),
    /// Holds no connection: `rm`, `nginx`, a build of assets, a migration that ends.
    Idle,
    /// May hold connections.
    Unrecognised,
}

/// Returns the processes that a line starts; a shell may start several. Variables set in the line
/// are added to `environment`.
///
/// A shell waits for commands before `&&` and `;` to end. Beside a known program, only a command in
/// the background is another process.
pub(super) fn processes(
    words: &[String],
    environment: &mut Environment,
    folder: &Folder,
) -> Vec<CommandKind> {
    let mut all = Vec::new();
    for (command, is_background) in resolve_commands(words) {
        all.push((start_command(&command, environment, folder), is_background));
    }
    let is_known = |it: &CommandKind| matches!(it, CommandKind::Known(_));
    let any_known = all.iter().any(|(it, _)| is_known(it));
    let runs =
        |(it, is_background): &(CommandKind, bool)| is_known(it) || !any_known || *is_background;
    all.into_iter().filter(runs).map(|(it, _)| it).collect()
}

fn start_command(words: &[String], environment: &mut Environment, folder: &Folder) -> CommandKind {
    if holds_nothing(words) {
        return CommandKind::Idle;
    }
    if let Some(invocation) = invocation(words, environment) {
        return CommandKind::Known(invocation);
    }
    match package::resolve(words, environment, folder) {
        Resolved::Streaming => CommandKind::Known(Invocation {
            program: Program::Streaming,
            arguments: Vec::new(),
            has_dotenv: false,
        }),
        Resolved::Idle => CommandKind::Idle,
        Resolved::Unknown => CommandKind::Unrecognised,
    }
}

/// Splits a line into simple commands, each with whether it runs in the background. `bash -lc` is
/// replaced by its commands.
fn resolve_commands(words: &[String]) -> Vec<(Vec<String>, bool)> {
    let mut all = Vec::new();
    for (command, is_background) in split_commands(words) {
        let shell = command.iter().position(|word| SHELLS.contains(&file_name(word)));
        let script = shell.and_then(|at| {
            let flag = command[at + 1..].iter().position(|it| is_command_flag(it))?;
            command.get(at + 1 + flag + 1)
        });
        match script.and_then(|script| split(script)) {
            Some(inner) => all.extend(split_commands(&inner)),
            None => all.push((command, is_background)),
        }
    }
    all
}

fn split_commands(words: &[String]) -> Vec<(Vec<String>, bool)> {
    let is_operator = |word: &String| matches!(word.as_str(), "&&" | "||" | ";" | "|" | "&");
    let parts = words.split_inclusive(is_operator).map(|part| match part.split_last() {
        Some((last, command)) if is_operator(last) => (command.to_vec(), last == "&"),
        _ => (part.to_vec(), false),
    });
    parts.filter(|(command, _)| !command.is_empty()).collect()
}

/// Returns whether a word is `-c` or like `-lc`.
fn is_command_flag(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|letters| !letters.starts_with('-') && letters.ends_with('c'))
}

fn invocation(words: &[String], environment: &mut Environment) -> Option<Invocation> {
    let (at, program) = words.iter().enumerate().find_map(|(at, word)| {
        Some((at, parse_program(file_name(word), words.get(at + 1).map(String::as_str))?))
    })?;
    for word in words[..at].iter().filter(|word| assignment(word).is_some()) {
        environment.set_word(word);
    }
    let has_dotenv = words[..at].iter().any(|word| file_name(word) == "dotenv");
    let arguments = words[at + 1..].iter().map(|word| environment.substitute(word)).collect();
    Some(Invocation { program, arguments, has_dotenv })
}

fn parse_program(name: &str, next: Option<&str>) -> Option<Program> {
    match (name, next) {
        ("sidekiq" | "sidekiqswarm", _) => Some(Program::Sidekiq),
        ("puma", _) | ("rails", Some("s" | "server")) => Some(Program::Puma),
        ("unicorn" | "unicorn_rails" | "pitchfork", _) => Some(Program::Unicorn),
        ("node", Some(script)) if script.contains("streaming") => Some(Program::Streaming),
        ("postgres", _) => Some(Program::Postgres),
        _ => None,
    }
}

/// Returns all values of an option: `-c 25`, `-c25`, `--concurrency 25` or `--concurrency=25`.
pub(in crate::commands) fn values<'a>(
    arguments: &'a [String],
    short: &str,
    long: &str,
) -> Vec<&'a str> {
    let mut values = Vec::new();
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let own = match word.strip_prefix(long) {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('='),
            None => match word.strip_prefix(short) {
                Some("") => words.next(),
                Some(rest) if !word.starts_with("--") => Some(rest),
                _ => None,
            },
        };
        values.extend(own);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs_of(line: &str) -> Vec<(Program, String)> {
        let found = started(line).into_iter();
        found
            .filter_map(|it| match it {
                CommandKind::Known(it) => Some((it.program, it.arguments.join(" "))),
                _ => None,
            })
            .collect()
    }

    fn started(line: &str) -> Vec<CommandKind> {
        let mut environment = Environment::default();
        environment.set("N", "7");
        processes(&split(line).expect("words"), &mut environment, &Folder::default())
    }

    #[test]
    fn programs_behind_shells_and_wrappers_are_found() {
        let sidekiq = |rest: &str| vec![(Program::Sidekiq, rest.to_owned())];
        for (line, expected) in [
            ("bundle exec sidekiq -c 25", sidekiq("-c 25")),
            (
                "/bin/bash -lc 'dotenv bundle exec sidekiq -C config/sidekiq.yml'",
                sidekiq("-C config/sidekiq.yml"),
            ),
            ("sh -c \"rm -f tmp/pid && exec bundle exec sidekiq -c $N\"", sidekiq("-c 7")),
            ("RAILS_ENV=production bin/sidekiq -q push,6", sidekiq("-q push,6")),
            ("bundle exec rails s -p 3000", vec![(Program::Puma, "s -p 3000".to_owned())]),
            ("unicorn -c x.rb", vec![(Program::Unicorn, "-c x.rb".to_owned())]),
            ("/usr/bin/node ./streaming", vec![(Program::Streaming, "./streaming".to_owned())]),
            ("npm run start --prefix streaming", vec![(Program::Streaming, String::new())]),
            ("bundle exec rails db:migrate", Vec::new()),
            (
                "sidekiq -c 1 & puma",
                vec![(Program::Sidekiq, "-c 1".to_owned()), (Program::Puma, String::new())],
            ),
        ] {
            assert_eq!(programs_of(line), expected, "{line}");
        }
        assert_eq!(split("sidekiq 'open"), None);
    }

    #[test]
    fn commands_are_known_or_idle_or_unrecognised() {
        for line in [
            "bin/dev",
            "bundle exec foreman start",
            "bundle exec rake jobs:work",
            "bin/jobs",
            "npm run start",
            "bin/heroku-web",
            "docker compose up",
            "bundle exec rails runner x.rb",
            "bundle exec",
            "sudo -u app worker",
            "puma & bin/jobs & rm x",
            "bash -c '. env; bin/worker'",
            "node server.js",
        ] {
            let found = started(line);
            assert!(
                found.iter().any(|it| matches!(it, CommandKind::Unrecognised)),
                "{line}: {found:?}"
            );
        }
        for line in [
            "nginx -g 'daemon off;'",
            "/bin/true",
            "echo sidekiq",
            "redis-server --port 7",
            "sleep infinity",
            "bundle exec rails db:migrate",
            "rake assets:precompile",
            "bin/rails tailwindcss:watch 2>/dev/null",
            "STATEMENT_TIMEOUT=9 bundle exec rails db:prepare db:seed",
            "env A=1 yarn build --watch",
            "npm run watch:css",
            "./bin/webpack-dev-server",
            "pgbouncer /etc/x",
            "sh -c 'redis-server --requirepass \"$P\"'",
        ] {
            let found = started(line);
            assert!(found.iter().all(|it| matches!(it, CommandKind::Idle)), "{line}: {found:?}");
        }
    }

    #[test]
    fn options_are_parsed_in_all_notations() {
        let words =
            split("-c25 -q a --queue b --queue=c,2 -qd --concurrency=5 -C x").expect("words");
        assert_eq!(values(&words, "-q", "--queue"), ["a", "b", "c,2", "d"]);
        assert_eq!(values(&words, "-c", "--concurrency"), ["25", "5"]);
        assert_eq!(values(&words, "-C", "--config"), ["x"]);
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in "\\PC{0,80}") {
            let words = split(&line).unwrap_or_default();
            let _ = processes(&words, &mut Environment::default(), &Folder::default());
            let _ = values(&words, "-c", "--concurrency");
        }
    }
}
