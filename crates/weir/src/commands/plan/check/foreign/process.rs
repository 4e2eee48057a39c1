//! One process that some file starts, as a layout has it.

use weir_advisor::plan::{Gap, ProcessMemory, ServiceLayout, WorkerLayout};

use super::command::{Invocation, Program, invocations};
use super::environment::Environment;
use super::files::Folder;
use super::{database, sidekiq, web};

/// As Mastodon ships; the pool of each process of it.
const STREAMING_POOL: u32 = 10;

/// As a file has it.
#[derive(Debug, Default)]
pub(super) struct Started {
    pub(super) name: String,
    pub(super) processes: u32,
    pub(super) words: Vec<String>,
    pub(super) environment: Environment,
    pub(super) image: String,
    /// Of which nobody knows how many instances run.
    pub(super) is_template: bool,
    /// A container that others connect to.
    pub(super) has_ports: bool,
}

/// What it is.
pub(super) enum Judged {
    Worker(WorkerLayout),
    Service(ServiceLayout),
    /// It opens no connection that is known here.
    Nothing,
}

pub(super) fn judge(folder: &Folder, started: &Started, assumed: &mut Vec<String>) -> Judged {
    let mut environment = started.environment.clone();
    let found = invocations(&started.words, &mut environment);
    let Some(invocation) = found.iter().find(|it| it.program != Program::Postgres) else {
        return Judged::Nothing;
    };
    if invocation.has_dotenv {
        environment.read(folder, ".env");
    }
    let mut notes = Notes { name: &started.name, said: Vec::new() };
    if !environment.unread.is_empty() {
        notes.add(format!(
            "{} is not here, and nothing of it is known",
            environment.unread.join(", ")
        ));
    }
    if started.is_template {
        notes.add("1 instance of the template".to_owned());
    }
    let judged = match invocation.program {
        Program::Sidekiq => {
            Judged::Worker(worker(folder, started, invocation, &environment, &mut notes))
        }
        Program::Web => {
            Judged::Service(web::service(folder, started, invocation, &environment, &mut notes))
        }
        Program::Streaming | Program::Postgres => {
            Judged::Service(streaming(started, &environment, &mut notes))
        }
    };
    assumed.extend(notes.lines());
    judged
}

/// What of a process no file says.
pub(super) struct Notes<'a> {
    name: &'a str,
    said: Vec<String>,
}

impl Notes<'_> {
    pub(super) fn add(&mut self, what: String) {
        self.said.push(what);
    }

    fn lines(self) -> Option<String> {
        (!self.said.is_empty()).then(|| format!("{}: {}", self.name, self.said.join("; ")))
    }
}

fn worker(
    folder: &Folder,
    started: &Started,
    invocation: &Invocation,
    environment: &Environment,
    notes: &mut Notes<'_>,
) -> WorkerLayout {
    let settings = sidekiq::settings(folder, invocation, environment, notes);
    let threads = settings.concurrency;
    let pool = database::pool(folder, environment, threads, true, notes);
    let mut gaps = Vec::new();
    gaps.extend(threads.is_none().then_some(Gap::Threads));
    gaps.extend(pool.is_none().then_some(Gap::Pool));
    gaps.extend(settings.queues.is_none().then_some(Gap::Queues));
    gaps.extend((!settings.is_order_clear).then_some(Gap::Order));
    let concurrency = threads.unwrap_or(0);
    WorkerLayout {
        name: started.name.clone(),
        processes: started.processes,
        concurrency,
        pool: pool.unwrap_or(concurrency),
        ordering: settings.ordering,
        queues: settings.queues.unwrap_or_default(),
        memory_bytes: memory(concurrency),
        gaps,
    }
}

/// What it starts stands in its image: it has connections, and nobody knows how many.
pub(super) fn of_image(started: &Started) -> ServiceLayout {
    ServiceLayout {
        name: started.name.clone(),
        processes: started.processes,
        threads: 0,
        pool: 0,
        memory_bytes: memory(0),
        gaps: vec![Gap::Threads, Gap::Pool],
    }
}

fn streaming(started: &Started, environment: &Environment, notes: &mut Notes<'_>) -> ServiceLayout {
    let pool = environment.get("DB_POOL").and_then(|it| it.parse().ok());
    if pool.is_none() {
        notes.add(format!("a pool of {STREAMING_POOL} (DB_POOL is not set)"));
    }
    ServiceLayout {
        name: started.name.clone(),
        processes: started.processes,
        // It answers many clients with few statements.
        threads: 1,
        pool: pool.unwrap_or(STREAMING_POOL),
        memory_bytes: ProcessMemory::default().streaming_bytes,
        gaps: Vec::new(),
    }
}

pub(super) fn memory(threads: u32) -> u64 {
    let usual = ProcessMemory::default();
    usual.ruby_bytes.saturating_add(usual.thread_bytes.saturating_mul(u64::from(threads)))
}
