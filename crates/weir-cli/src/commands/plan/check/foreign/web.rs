//! Processes and threads of web servers: from Puma's command line, its settings file, and the
//! environment.

use weir_advisor::plan::{Gap, ServiceLayout};

use super::command::{Program, values};
use super::condition::{Script, Undecided};
use super::database;
use super::process::{Notes, Process, assumed_ruby_memory};

/// Puma's default.
const THREADS: u32 = 5;
const THREAD_VARIABLES: [&str; 3] = ["MAX_THREADS", "RAILS_MAX_THREADS", "PUMA_MAX_THREADS"];
const PROCESS_VARIABLES: [&str; 1] = ["WEB_CONCURRENCY"];

pub(super) fn service(process: &Process<'_>, notes: &mut Notes) -> ServiceLayout {
    let server = Server::from_process(process);
    let workers = server.workers(notes);
    let threads = server.threads(notes);
    let pool = database::pool(process.folder, process.environment, threads, false, notes);
    let processes =
        process.started.processes.zip(workers).map(|(all, each)| all.saturating_mul(each));
    let mut gaps = Vec::new();
    gaps.extend(threads.is_none().then_some(Gap::Threads));
    gaps.extend(pool.is_none().then_some(Gap::Pool));
    gaps.extend(processes.is_none().then_some(Gap::Processes));
    let count = threads.unwrap_or(0);
    ServiceLayout {
        name: process.name.clone(),
        processes: processes.unwrap_or(1),
        threads: count,
        pool: pool.unwrap_or(count),
        memory_bytes: assumed_ruby_memory(count),
        gaps,
    }
}

/// A server with its settings file.
struct Server<'a> {
    process: &'a Process<'a>,
    is_unicorn: bool,
    /// The path of the settings.
    file: &'a str,
    script: Script,
    /// Whether a settings file is named but missing.
    is_missing: bool,
}

impl<'a> Server<'a> {
    fn from_process(process: &'a Process<'a>) -> Self {
        let is_unicorn = process.invocation.program == Program::Unicorn;
        let (default, short, long) = match is_unicorn {
            true => ("config/unicorn.rb", "-c", "--config-file"),
            false => ("config/puma.rb", "-C", "--config"),
        };
        let named = values(&process.invocation.arguments, short, long).last().copied();
        let text = process.folder.find(named.unwrap_or(default));
        let script = Script::read(text.as_deref().unwrap_or_default(), process.environment);
        // `-C -` means no file. An image may have one that is not here.
        let is_missing = text.is_none()
            && named != Some("-")
            && (named.is_some() || process.started.is_container);
        Self { process, is_unicorn, file: named.unwrap_or(default), script, is_missing }
    }

    /// Returns the number of processes. `workers 0` is one process without forks.
    fn workers(&self, notes: &mut Notes) -> Option<u32> {
        let count = if self.is_unicorn {
            self.read_number(None, ("worker_processes", 0), &[], 1, "processes", notes)
        } else {
            self.read_number(
                Some(("-w", "--workers")),
                ("workers", 0),
                &PROCESS_VARIABLES,
                1,
                "processes",
                notes,
            )
        };
        count.map(|it| it.max(1))
    }

    /// Returns the maximum number of threads: `-t 1:5` is 5.
    fn threads(&self, notes: &mut Notes) -> Option<u32> {
        if self.is_unicorn {
            return Some(1);
        }
        self.read_number(
            Some(("-t", "--threads")),
            ("threads", 1),
            &THREAD_VARIABLES,
            THREADS,
            "threads",
            notes,
        )
    }

    /// Returns a number from options, settings or the environment. None: set elsewhere.
    fn read_number(
        &self,
        option: Option<(&str, &str)>,
        (call, at): (&str, usize),
        variables: &[&str],
        default: u32,
        what: &str,
        notes: &mut Notes,
    ) -> Option<u32> {
        let Self { process, file, script, .. } = self;
        let arguments = &process.invocation.arguments;
        let said = option.and_then(|(short, long)| values(arguments, short, long).last().copied());
        if let Some(said) = said {
            return said.rsplit(':').next()?.parse().ok();
        }
        match script.find_call(call) {
            Some(Ok(call)) => {
                let value = script.value(&argument(call, at), process.environment);
                let known = value.number();
                match value.text() {
                    Some(said) if known.is_none() => notes.not_a_number(what, said),
                    None => {
                        notes.add(format!("the number of {what} is computed by code in {file}"));
                    }
                    _ => {}
                }
                known
            }
            Some(Err(Undecided)) => {
                notes.add(format!(
                    "the number of {what} in {file} depends on a condition that these files do not determine"
                ));
                None
            }
            None => self.number_from_environment(variables, default, what, notes),
        }
    }

    fn number_from_environment(
        &self,
        variables: &[&str],
        default: u32,
        what: &str,
        notes: &mut Notes,
    ) -> Option<u32> {
        match variables.iter().find_map(|name| self.process.environment.get(name)) {
            // The number of cores.
            Some("auto") => None,
            Some(said) => notes.number(what, said),
            None if self.is_missing => {
                notes.add(format!("{} is missing: the number of {what} is unknown", self.file));
                None
            }
            None => {
                notes.add(format!("{what}: {default}, the default (no file sets a number)"));
                Some(default)
            }
        }
    }
}

/// Returns an argument of a call, or the last one if there are fewer. An argument may itself contain a comma.
fn argument(arguments: &str, at: usize) -> String {
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
    parts.get(at).or(parts.last()).cloned().unwrap_or_default()
}
