//! Processes and threads of the web: the command line of Puma, then its file of settings, then the environment.

use weir_advisor::plan::{Gap, ServiceLayout};

use super::command::{Invocation, values};
use super::database;
use super::environment::Environment;
use super::evaluate::{Value, statements, value_in};
use super::files::Folder;
use super::process::{Notes, Started, memory};

const SETTINGS: &str = "config/puma.rb";
/// Puma's own.
const THREADS: u32 = 5;
const THREAD_VARIABLES: [&str; 3] = ["MAX_THREADS", "RAILS_MAX_THREADS", "PUMA_MAX_THREADS"];

pub(super) fn service(
    folder: &Folder,
    started: &Started,
    invocation: &Invocation,
    environment: &Environment,
    notes: &mut Notes<'_>,
) -> ServiceLayout {
    let script = folder.find(SETTINGS).unwrap_or_default();
    let workers = workers(&script, invocation, environment, notes);
    let threads = threads(&script, invocation, environment, notes);
    let pool = database::pool(folder, environment, threads, false, notes);
    let mut gaps = Vec::new();
    gaps.extend(threads.is_none().then_some(Gap::Threads));
    // Without the number of processes, the sum of their pools is not known either.
    gaps.extend((pool.is_none() || workers.is_none()).then_some(Gap::Pool));
    let count = threads.unwrap_or(0);
    ServiceLayout {
        name: started.name.clone(),
        processes: started.processes.saturating_mul(workers.unwrap_or(1)),
        threads: count,
        pool: pool.unwrap_or(count),
        memory_bytes: memory(count),
        gaps,
    }
}

/// `workers 0` is one process that forks none.
fn workers(
    script: &str,
    invocation: &Invocation,
    environment: &Environment,
    notes: &mut Notes<'_>,
) -> Option<u32> {
    let said =
        values(&invocation.arguments, "-w", "--workers").last().and_then(|it| it.parse().ok());
    let of_script = || argument(script, "workers", 0, environment);
    let of_environment = || environment.get("WEB_CONCURRENCY")?.parse().ok();
    let known: Option<u32> = match said.is_none().then(of_script).flatten() {
        Some(Value::Unknown) => {
            notes.add(format!("{SETTINGS} decides by code how many processes there are"));
            return None;
        }
        Some(value) => value.number(),
        None => said.or_else(of_environment),
    };
    if known.is_none() {
        notes.add("1 process (neither -w, config/puma.rb nor WEB_CONCURRENCY is here)".to_owned());
    }
    Some(known.unwrap_or(1).max(1))
}

/// The most, where the least is said as well: `-t 1:5`.
fn threads(
    script: &str,
    invocation: &Invocation,
    environment: &Environment,
    notes: &mut Notes<'_>,
) -> Option<u32> {
    let said = values(&invocation.arguments, "-t", "--threads").last().copied();
    if let Some(said) = said {
        return said.rsplit(':').next()?.parse().ok();
    }
    match argument(script, "threads", 1, environment) {
        Some(Value::Unknown) => return None,
        Some(known) => return known.number(),
        None => {}
    }
    let of_environment = THREAD_VARIABLES.iter().find_map(|name| environment.get(name));
    if let Some(said) = of_environment {
        return said.parse().ok();
    }
    notes.add(format!("{THREADS} threads (neither -t, config/puma.rb nor MAX_THREADS is here)"));
    Some(THREADS)
}

/// An argument of a call in Puma's settings: `threads min, max`.
fn argument(script: &str, call: &str, at: usize, environment: &Environment) -> Option<Value> {
    let line = statements(script).filter_map(|line| {
        let rest = line.strip_prefix(call)?;
        rest.starts_with([' ', '(']).then(|| rest.trim_matches([' ', '(', ')']))
    });
    let arguments = line.last()?;
    // One expression may have a comma of its own.
    let mut parts = vec![String::new()];
    let mut depth = 0_i32;
    for letter in arguments.chars() {
        match letter {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(_) if letter == ',' && depth == 0 => parts.push(String::new()),
            Some(part) => part.push(letter),
            None => {}
        }
    }
    let expression = parts.get(at).or(parts.last())?;
    Some(value_in(script, expression, environment))
}
