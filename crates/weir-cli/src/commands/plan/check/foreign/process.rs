//! Converts a process that a file starts to the form of a layout.

use weir_advisor::plan::{Gap, ProcessMemory, ServiceLayout, WorkerLayout};

use super::command::{CommandKind, Invocation, Program, processes};
use super::environment::{Environment, FileSyntax};
use super::files::Folder;
use super::idle::{is_other_image, is_system_program};
use super::{database, sidekiq, web};

/// Mastodon's default; the pool of each streaming process.
const STREAMING_POOL: u32 = 10;
/// Paths of the script, from the application's folder or from its own.
const STREAMING_SCRIPTS: [&str; 2] = ["streaming/index.js", "index.js"];
const POOL_VARIABLE: &str = "DB_POOL";
const CLUSTER_VARIABLE: &str = "STREAMING_CLUSTER_NUM";

/// A process as a file defines it.
#[derive(Debug, Default)]
pub(super) struct StartedProcess {
    pub(super) name: String,
    /// None: set elsewhere, or a systemd template without known instances.
    pub(super) processes: Option<u32>,
    pub(super) words: Vec<String>,
    pub(super) environment: Environment,
    pub(super) image: String,
    /// Whether the application's files may be in an image instead of here.
    pub(super) is_container: bool,
    /// The directory where it starts.
    pub(super) directory: Option<String>,
    /// Why its command is unknown.
    pub(super) unread: Option<String>,
    /// Whether it is a systemd unit; those of programs of the distribution hold no connections.
    pub(super) is_unit: bool,
}

/// The layout collected from the files.
#[derive(Debug, Default)]
pub(super) struct JudgedProcesses {
    pub(super) workers: Vec<WorkerLayout>,
    pub(super) services: Vec<ServiceLayout>,
    /// The program of each of them, by its name.
    pub(super) programs: Vec<(String, Program)>,
    /// Values that use a default.
    pub(super) assumed: Vec<String>,
    /// Unrecognised processes that may hold connections.
    pub(super) not_judged: Vec<String>,
    /// Processes that do not run by default, or that belong to the system.
    pub(super) not_counted: Vec<String>,
}

impl JudgedProcesses {
    pub(super) fn add(&mut self, folder: &Folder, started: &StartedProcess) {
        let folder = &started
            .directory
            .as_ref()
            .map_or_else(|| folder.clone(), |it| folder.in_directory(it));
        if let Some(reason) = &started.unread {
            return self.add_unrecognised(started, reason);
        }
        if started.words.is_empty() {
            if started.is_container && !is_other_image(&started.image) {
                self.add_unrecognised(
                    started,
                    "its image determines what it starts (no `command`)",
                );
            }
            return;
        }
        let mut environment = started.environment.clone();
        let found = processes(&started.words, &mut environment, folder);
        let is_one = found.len() == 1;
        for process in found {
            match process {
                CommandKind::Known(invocation) => {
                    self.add_known(folder, started, &invocation, &environment, is_one);
                }
                CommandKind::Idle => {}
                CommandKind::Unrecognised if is_other_image(&started.image) => {}
                CommandKind::Unrecognised
                    if started.is_unit && is_system_program(&started.words) =>
                {
                    self.not_counted
                        .push(format!("{}: a program of the distribution", started.name));
                }
                CommandKind::Unrecognised => {
                    let command = started.words.join(" ");
                    self.add_unrecognised(started, &format!("`{command}` is not recognised"));
                }
            }
        }
    }

    fn add_unrecognised(&mut self, started: &StartedProcess, reason: &str) {
        self.not_judged.push(format!("{}: {reason}", started.name));
        self.services.push(ServiceLayout {
            name: started.name.clone(),
            processes: started.processes.unwrap_or(1),
            threads: 0,
            pool: 0,
            memory_bytes: assumed_ruby_memory(0),
            gaps: vec![Gap::Command],
        });
    }

    fn add_known(
        &mut self,
        folder: &Folder,
        started: &StartedProcess,
        invocation: &Invocation,
        environment: &Environment,
        is_one: bool,
    ) {
        let mut environment = environment.clone();
        if invocation.has_dotenv {
            environment.read(folder, ".env", FileSyntax::Dotenv);
        }
        let kind = match invocation.program {
            Program::Sidekiq => "sidekiq",
            Program::Puma | Program::Unicorn => "web",
            Program::Streaming => "streaming",
            Program::Postgres => return,
        };
        let name = if is_one { started.name.clone() } else { format!("{} ({kind})", started.name) };
        let mut notes = Notes { name: name.clone(), said: Vec::new() };
        if started.is_unit {
            read_dotenv(&mut environment, folder, &mut notes);
        }
        if !environment.unread.is_empty() {
            notes.add(format!(
                "{} is missing, and nothing is known about it",
                environment.unread.join(", ")
            ));
        }
        self.programs.push((name.clone(), invocation.program));
        let process = Process { folder, started, invocation, environment: &environment, name };
        match invocation.program {
            Program::Sidekiq => self.workers.push(process.worker(&mut notes)),
            Program::Streaming => self.services.push(process.streaming(&mut notes)),
            _ => self.services.push(web::service(&process, &mut notes)),
        }
        self.assumed.extend(notes.lines());
    }
}

/// Reads the file from which applications such as Mastodon load variables by themselves (dotenv), below
/// those of the unit. It counts if it exists, and a note says so.
fn read_dotenv(environment: &mut Environment, folder: &Folder, notes: &mut Notes) {
    let Some(stage) = environment.get("RAILS_ENV").or_else(|| environment.get("NODE_ENV")) else {
        return;
    };
    let file = format!(".env.{stage}");
    match folder.find(&file) {
        Some(text) => {
            environment.read_defaults(&text);
            notes.add(format!("{file} is read, as dotenv does"));
        }
        None => notes.add(format!("{file} is not here; with dotenv, its variables count as well")),
    }
}

/// A process of a known program.
pub(super) struct Process<'a> {
    pub(super) folder: &'a Folder,
    pub(super) started: &'a StartedProcess,
    pub(super) invocation: &'a Invocation,
    pub(super) environment: &'a Environment,
    pub(super) name: String,
}

/// The values of a process that no file sets.
pub(super) struct Notes {
    name: String,
    said: Vec<String>,
}

impl Notes {
    pub(super) fn add(&mut self, what: String) {
        self.said.push(what);
    }

    /// Parses a number that a variable sets. A note says so if it is none.
    pub(super) fn number(&mut self, what: &str, said: &str) -> Option<u32> {
        let number = said.parse().ok();
        if number.is_none() {
            self.not_a_number(what, said);
        }
        number
    }

    pub(super) fn not_a_number(&mut self, what: &str, said: &str) {
        self.add(format!("the number of {what} is set to {said:?}, which is not a number"));
    }

    fn lines(self) -> Option<String> {
        (!self.said.is_empty()).then(|| format!("{}: {}", self.name, self.said.join("; ")))
    }
}

impl Process<'_> {
    fn worker(&self, notes: &mut Notes) -> WorkerLayout {
        let settings = sidekiq::settings(self, notes);
        let threads = settings.concurrency;
        let pool = database::pool(self.folder, self.environment, threads, true, notes);
        let mut gaps = Vec::new();
        gaps.extend(threads.is_none().then_some(Gap::Threads));
        gaps.extend(pool.is_none().then_some(Gap::Pool));
        gaps.extend(self.started.processes.is_none().then_some(Gap::Processes));
        gaps.extend(settings.queues.is_none().then_some(Gap::Queues));
        gaps.extend((!settings.is_order_clear).then_some(Gap::Order));
        let concurrency = threads.unwrap_or(0);
        WorkerLayout {
            name: self.name.clone(),
            processes: self.started.processes.unwrap_or(1),
            concurrency,
            pool: pool.unwrap_or(concurrency),
            ordering: settings.ordering,
            queues: settings.queues.unwrap_or_default(),
            memory_bytes: assumed_ruby_memory(concurrency),
            gaps,
        }
    }

    fn streaming(&self, notes: &mut Notes) -> ServiceLayout {
        let script = STREAMING_SCRIPTS.iter().find_map(|name| self.folder.find(name));
        let mentions = |name: &str| script.as_deref().is_none_or(|it| it.contains(name));
        let said = self.environment.get(POOL_VARIABLE).filter(|_| mentions(POOL_VARIABLE));
        if said.is_none() {
            notes.add(format!("a pool of {STREAMING_POOL} ({POOL_VARIABLE} is not set)"));
        }
        let pool =
            said.map_or(Some(STREAMING_POOL), |it| notes.number("connections in the pool", it));
        let cluster = self.streaming_processes(script.as_deref(), notes);
        let processes =
            self.started.processes.zip(cluster).map(|(all, each)| all.saturating_mul(each));
        let mut gaps = Vec::new();
        gaps.extend(pool.is_none().then_some(Gap::Pool));
        gaps.extend(processes.is_none().then_some(Gap::Processes));
        ServiceLayout {
            name: self.name.clone(),
            processes: processes.unwrap_or(1),
            // It serves many clients with few statements.
            threads: 1,
            pool: pool.unwrap_or(STREAMING_POOL),
            memory_bytes: ProcessMemory::default().streaming_bytes,
            gaps,
        }
    }

    /// Processes that one streaming server forks: until Mastodon 4.2 one for each core but one, unless a variable
    /// says how many. None: nobody has set it.
    fn streaming_processes(&self, script: Option<&str>, notes: &mut Notes) -> Option<u32> {
        let forks = script.map(|it| it.contains(CLUSTER_VARIABLE));
        match (forks, self.environment.get(CLUSTER_VARIABLE)) {
            (Some(false), _) | (None, None) => Some(1),
            (_, Some(said)) => said.parse().ok(),
            (Some(true), None) => {
                notes.add(format!(
                    "the number of processes is unknown ({CLUSTER_VARIABLE} is not set)"
                ));
                None
            }
        }
    }
}

pub(super) fn assumed_ruby_memory(threads: u32) -> u64 {
    let usual = ProcessMemory::default();
    usual.ruby_bytes.saturating_add(usual.thread_bytes.saturating_mul(u64::from(threads)))
}
