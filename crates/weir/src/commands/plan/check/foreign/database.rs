//! How large a pool is, and how many connections Postgres allows.

use super::command::{Program, invocations};
use super::environment::Environment;
use super::evaluate::{Value, value};
use super::files::Folder;
use super::process::{Notes, Started};

/// As Postgres ships.
const MAX_CONNECTIONS: u32 = 100;
const POOL_VARIABLE: &str = "DB_POOL";
const RAILS_SETTINGS: &str = "config/database.yml";
const SERVER_SETTINGS: &str = "postgresql.conf";

/// What the database allows.
pub(super) struct Limits {
    pub(super) max_connections: u32,
    /// Of those kept for superusers; none: as Postgres ships.
    pub(super) reserved: Option<u32>,
    pub(super) assumed: Option<String>,
}

impl Limits {
    pub(super) fn of(folder: &Folder, started: &[Started], given: Option<u32>) -> Self {
        let script = folder.find(SERVER_SETTINGS).unwrap_or_default();
        let words: Vec<String> = started.iter().flat_map(of_server).collect();
        let setting = |name: &str| {
            let on_line = words.iter().rev().find_map(|word| number_of(word, name));
            on_line.or_else(|| script.lines().rev().find_map(|line| number_of(line, name)))
        };
        let seen = given.or_else(|| setting("max_connections"));
        let assumed = seen.is_none().then(|| {
            format!("max_connections = {MAX_CONNECTIONS}, as Postgres ships (--max-connections says otherwise)")
        });
        let max_connections = seen.unwrap_or(MAX_CONNECTIONS);
        Self { max_connections, reserved: setting("superuser_reserved_connections"), assumed }
    }
}

/// Words of a command line that starts Postgres.
fn of_server(started: &Started) -> Vec<String> {
    let mut environment = started.environment.clone();
    let all = invocations(&started.words, &mut environment);
    let is_image = started.image.contains("postgres") || started.image.contains("pgvector");
    match all.into_iter().find(|it| it.program == Program::Postgres) {
        Some(server) => server.arguments,
        // The image's own entry starts it with these.
        None if is_image => started.words.clone(),
        None => Vec::new(),
    }
}

/// "name = 200", "name=200", "--name=200", "-cname=200".
fn number_of(text: &str, name: &str) -> Option<u32> {
    let text = text.trim().trim_start_matches("--").trim_start_matches("-c");
    let (key, value) = text.split_once('=')?;
    let number: String = value.trim().chars().take_while(char::is_ascii_digit).collect();
    (key.trim() == name).then(|| number.parse().ok()).flatten()
}

/// The pool of a process with so many threads; none: it is filled in elsewhere, or as large as threads that are.
pub(super) fn pool(
    folder: &Folder,
    environment: &Environment,
    threads: Option<u32>,
    is_sidekiq: bool,
    notes: &mut Notes<'_>,
) -> Option<u32> {
    let said = environment.get(POOL_VARIABLE);
    let rails = folder.find(RAILS_SETTINGS);
    let expression = rails.as_deref().and_then(expression);
    match (expression, said) {
        // Where its settings do not ask for the variable, it says nothing.
        (Some(expression), said) if said.is_none() || !expression.contains(POOL_VARIABLE) => {
            if expression.contains("Sidekiq") {
                // "As many as Sidekiq has threads", and otherwise what stands behind that.
                return if is_sidekiq { threads } else { of_web(expression, environment) };
            }
            value(expression, environment).number()
        }
        (_, Some(said)) => said.parse().ok(),
        (_, None) => {
            notes.add(format!("a pool as large as its threads ({POOL_VARIABLE} is not set)"));
            threads
        }
    }
}

fn of_web(expression: &str, environment: &Environment) -> Option<u32> {
    match value(expression, environment) {
        Value::Unknown => None,
        known => known.number(),
    }
}

/// What stands behind the first `pool:`.
fn expression(text: &str) -> Option<&str> {
    let line = text.lines().map(str::trim).find_map(|line| line.strip_prefix("pool:"))?;
    let line = line.trim().trim_matches('"');
    Some(line.strip_prefix("<%=").and_then(|it| it.split("%>").next()).map_or(line, str::trim))
}
