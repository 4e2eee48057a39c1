//! The size of pools, and the connection limit of Postgres.

use super::command::{CommandKind, Program, processes};
use super::environment::Environment;
use super::evaluate::value;
use super::files::Folder;
use super::idle::is_other_image;
use super::process::{Notes, StartedProcess};

/// The default of Postgres.
const MAX_CONNECTIONS: u32 = 100;
/// The default of Rails.
const RAILS_POOL: u32 = 5;
const POOL_VARIABLE: &str = "DB_POOL";
/// What that variable is the number of.
const POOLED: &str = "connections in the pool (DB_POOL)";
const URL_VARIABLE: &str = "DATABASE_URL";
const RAILS_SETTINGS: &str = "config/database.yml";
const SERVER_SETTINGS: &str = "postgresql.conf";

/// The connection limits of the database.
pub(super) struct ServerLimits {
    pub(super) max_connections: u32,
    /// Connections reserved for superusers; None: the default of Postgres.
    pub(super) reserved: Option<u32>,
    pub(super) assumed: Option<String>,
}

impl ServerLimits {
    pub(super) fn from_files(
        folder: &Folder,
        started: &[StartedProcess],
        given_max: Option<u32>,
    ) -> Self {
        let script = folder.find(SERVER_SETTINGS).unwrap_or_default();
        let words: Vec<String> =
            started.iter().flat_map(|it| server_arguments(folder, it)).collect();
        let setting = |name: &str| {
            let on_line = words.iter().rev().find_map(|word| parse_setting(word, name));
            on_line.or_else(|| script.lines().rev().find_map(|line| parse_setting(line, name)))
        };
        let seen = given_max.or_else(|| setting("max_connections"));
        let assumed = seen.is_none().then(|| {
            format!("max_connections = {MAX_CONNECTIONS}, the default of Postgres (set another with --max-connections)")
        });
        let max_connections = seen.unwrap_or(MAX_CONNECTIONS);
        Self { max_connections, reserved: setting("superuser_reserved_connections"), assumed }
    }
}

/// Returns the arguments of a command that starts Postgres.
fn server_arguments(folder: &Folder, started: &StartedProcess) -> Vec<String> {
    let mut environment = started.environment.clone();
    let all = processes(&started.words, &mut environment, folder);
    let server = all.into_iter().find_map(|it| match it {
        CommandKind::Known(it) if it.program == Program::Postgres => Some(it.arguments),
        _ => None,
    });
    match server {
        Some(arguments) => arguments,
        // The image's entry point starts the server with these words.
        None if is_other_image(&started.image) => started.words.clone(),
        None => Vec::new(),
    }
}

/// Parses a setting: "name = 200", "name=200", "--name=200", "-cname=200".
fn parse_setting(text: &str, name: &str) -> Option<u32> {
    let text = text.trim().trim_start_matches("--").trim_start_matches("-c");
    let (key, value) = text.split_once('=')?;
    let number: String = value.trim().chars().take_while(char::is_ascii_digit).collect();
    (key.trim() == name).then(|| number.parse().ok()).flatten()
}

/// Returns the pool of a process with this many threads. None: it is set elsewhere, or equals an unknown number of
/// threads.
pub(super) fn pool(
    folder: &Folder,
    environment: &Environment,
    threads: Option<u32>,
    is_sidekiq: bool,
    notes: &mut Notes,
) -> Option<u32> {
    if let Some(said) = environment.get(URL_VARIABLE).and_then(pool_in_url) {
        return said.parse().ok();
    }
    let said = environment.get(POOL_VARIABLE);
    let rails = folder.find(RAILS_SETTINGS);
    match (rails.as_deref().map(pool_expression), said) {
        // The variable only matters if the settings read it.
        (Some(Some(expression)), Some(said)) if expression.contains(POOL_VARIABLE) => {
            notes.number(POOLED, in_yaml(expression, said))
        }
        (Some(Some(expression)), _) => evaluate_pool(expression, environment, threads, is_sidekiq),
        (Some(None), _) => {
            notes.add(format!(
                "a pool of {RAILS_POOL}, the default of Rails ({RAILS_SETTINGS} has no `pool`)"
            ));
            Some(RAILS_POOL)
        }
        (None, Some(said)) => notes.number(POOLED, said),
        (None, None) => {
            notes.add(format!(
                "a pool of as many connections as threads ({POOL_VARIABLE} is not set)"
            ));
            threads
        }
    }
}

/// Returns the value of a variable as read from a file of settings, where ` #` begins a comment.
/// `Integer()` fails before that.
fn in_yaml<'a>(expression: &str, said: &'a str) -> &'a str {
    match said.split_once(" #") {
        Some((value, _)) if !expression.contains("Integer") => value.trim_end(),
        _ => said,
    }
}

/// Returns "20" of "postgres://host/shop?pool=20".
fn pool_in_url(url: &str) -> Option<&str> {
    let query = url.split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix("pool="))
}

/// Evaluates the text after `pool:`, which may depend on whether the process is Sidekiq.
fn evaluate_pool(
    expression: &str,
    environment: &Environment,
    threads: Option<u32>,
    is_sidekiq: bool,
) -> Option<u32> {
    let branches =
        expression.split_once("Sidekiq.server? ?").and_then(|(_, both)| both.split_once(" : "));
    if let Some((sidekiq, web)) = branches {
        return value(if is_sidekiq { sidekiq } else { web }, environment).number();
    }
    if let Some((before, rest)) = expression.split_once("(if Sidekiq.server? then ") {
        // "As many as Sidekiq has threads", and otherwise what stands behind that.
        let (_, web) = rest.split_once(" else ")?;
        let of_web =
            || value(&format!("{before}{}", web.replace(" end)", "")), environment).number();
        return if is_sidekiq { threads } else { of_web() };
    }
    value(expression, environment).number()
}

/// Returns the expression after the first `pool:`, or `max_connections:` since Rails 8.1.
fn pool_expression(text: &str) -> Option<&str> {
    let value_start = |line: &'_ str| -> Option<usize> {
        ["pool:", "max_connections:"]
            .iter()
            .find(|key| line.starts_with(**key))
            .map(|key| key.len())
    };
    let line = text.lines().map(str::trim).find_map(|line| Some(&line[value_start(line)?..]))?;
    let line = line.trim().trim_matches('"');
    Some(line.strip_prefix("<%=").and_then(|it| it.split("%>").next()).map_or(line, str::trim))
}
