//! Parses the file of a layout. Invalid lines are reported, and the rest is still checked.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;
use weir_advisor::plan::{
    Claim, ClaimOutcome, Gap, ProcessLayout, ProcessMemory, Proof, RESERVED_CONNECTIONS,
    ServiceLayout, WorkerLayout,
};
use weir_advisor::wording::list;

use super::queue_order::{QueueOrder, effective_ordering, parse_weighted};
use weir_config::SettingError;
use weir_config::units::parse_size;

const STREAMING: &str = "streaming";

/// The parsed file.
pub(super) struct CheckedLayout {
    pub(super) layout: ProcessLayout,
    /// Queues that must be served.
    pub(super) queues: Vec<String>,
    /// Invalid values, with their lines.
    pub(super) remarks: Vec<Proof>,
    /// Whether the file sets the reserved connections of Postgres.
    pub(super) has_reserved: bool,
}

/// Parses the text.
///
/// # Errors
/// The text is not a layout.
pub(super) fn parse(text: &str) -> anyhow::Result<CheckedLayout> {
    let file: File = toml::from_str(text)?;
    let mut remarks: Vec<_> = duplicate_names(text, &file).into_iter().collect();
    let has_reserved = file.superuser_reserved_connections.is_some();
    let mut lines = LineSource { text, unread: Vec::new() };
    let demanded: Vec<_> =
        file.queues.iter().filter_map(|word| lines.demanded_queue(word)).collect();
    let layout = layout(file, &mut lines)?;
    if !lines.unread.is_empty() {
        let figures = lines.unread.join("; ");
        remarks.push(Proof { claim: Claim::QueuesRead, outcome: ClaimOutcome::Unknown, figures });
    }
    let mut queues = if demanded.is_empty() { served(&layout) } else { demanded };
    let mut seen = BTreeSet::new();
    queues.retain(|queue| seen.insert(queue.clone()));
    Ok(CheckedLayout { layout, queues, remarks, has_reserved })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    max_connections: u32,
    #[serde(default)]
    reserve: u32,
    /// Default: that of Postgres.
    superuser_reserved_connections: Option<u32>,
    #[serde(default)]
    reserved_connections: u32,
    /// Connections that a pooler in between opens at most.
    pgbouncer: Option<u32>,
    /// For all processes together.
    memory: Option<String>,
    /// Queues that must be served; empty: those that are.
    #[serde(default)]
    queues: Vec<Spanned<String>>,
    #[serde(default)]
    services: Vec<ServiceEntry>,
    #[serde(default)]
    workers: Vec<WorkerEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceEntry {
    name: Spanned<String>,
    #[serde(default = "default_one")]
    processes: u32,
    threads: Option<u32>,
    pool: u32,
    memory: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerEntry {
    name: Spanned<String>,
    #[serde(default = "default_one")]
    processes: u32,
    concurrency: Option<u32>,
    pool: Option<u32>,
    order: Option<QueueOrder>,
    /// As after `-q`: "push", or with its weight "push,6".
    queues: Option<Vec<Spanned<String>>>,
    memory: Option<String>,
}

const fn default_one() -> u32 {
    1
}

/// Reports duplicate names. Units, compose services and groups of Weir are identified by name: of
/// two with the same name only one runs, or one is an unchanged copy.
fn duplicate_names(text: &str, file: &File) -> Option<Proof> {
    let services = file.services.iter().map(|it| &it.name);
    let mut lines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for name in services.chain(file.workers.iter().map(|it| &it.name)) {
        lines.entry(name.get_ref().as_str()).or_default().push(line_of(text, name));
    }
    let twice = lines.iter().filter(|(_, lines)| lines.len() > 1);
    let figures: Vec<_> = twice
        .map(|(name, lines)| format!("{name} is defined in {}", line_numbers(lines)))
        .collect();
    (!figures.is_empty()).then(|| Proof {
        claim: Claim::NamesDiffer,
        outcome: ClaimOutcome::Broken,
        figures: format!("{}; each is counted: rename or remove one of them", figures.join("; ")),
    })
}

/// Formats line numbers: "lines 7 and 8".
fn line_numbers(lines: &[usize]) -> String {
    let mut places: Vec<_> = lines.iter().map(ToString::to_string).collect();
    places.dedup();
    match places.as_slice() {
        [line] => format!("line {line} {} times", lines.len()),
        several => format!("lines {}", list(several.iter().map(String::as_str))),
    }
}

/// Returns the line of a word, counted from 1.
fn line_of(text: &str, word: &Spanned<String>) -> usize {
    SettingError::at(text, &word.span(), String::new()).line
}

/// Returns all queues that a process serves.
fn served(layout: &ProcessLayout) -> Vec<String> {
    let mut queues: Vec<_> = layout.workers.iter().flat_map(|it| it.queues.clone()).collect();
    queues.sort();
    queues
}

/// Invalid queue words, with their lines.
struct LineSource<'a> {
    text: &'a str,
    unread: Vec<String>,
}

impl LineSource<'_> {
    fn demanded_queue(&mut self, word: &Spanned<String>) -> Option<String> {
        let queue = parse_weighted(word.get_ref());
        let problem = |problem| format!("line {}: {problem}", line_of(self.text, word));
        queue.map_err(|it| self.unread.push(problem(it))).ok().map(|(queue, _)| queue)
    }

    /// Returns the worker's queues. None: the queues or their order are unknown.
    fn queues(&mut self, worker: &WorkerEntry) -> Option<Vec<(String, u32)>> {
        let name = worker.name.get_ref();
        let words = worker.queues.as_deref().unwrap_or_default();
        if words.is_empty() {
            let line = line_of(self.text, &worker.name);
            self.unread.push(format!(
                "line {line}: {name} has no `queues`: they are unknown, because Sidekiq without -q serves the queues of its sidekiq.yml, or `default`"
            ));
            return None;
        }
        let before = self.unread.len();
        let mut queues = Vec::new();
        for word in words {
            match parse_weighted(word.get_ref()) {
                Ok(queue) => queues.push(queue),
                Err(problem) => {
                    let line = line_of(self.text, word);
                    self.unread.push(format!("line {line}: {name}: {problem}"));
                }
            }
        }
        (self.unread.len() == before).then_some(queues)
    }
}

fn layout(file: File, lines: &mut LineSource<'_>) -> anyhow::Result<ProcessLayout> {
    let memory_bytes_max = file.memory.as_deref().map(size).transpose()?;
    let services = file.services.into_iter().map(service).collect::<anyhow::Result<_>>()?;
    let workers = file.workers.into_iter().map(|entry| worker(entry, lines));
    let superuser_reserved = file.superuser_reserved_connections.unwrap_or(RESERVED_CONNECTIONS);
    Ok(ProcessLayout {
        services,
        workers: workers.collect::<anyhow::Result<_>>()?,
        max_connections: file.max_connections,
        reserve: file.reserve,
        reserved_connections: superuser_reserved.saturating_add(file.reserved_connections),
        pooler_connections: file.pgbouncer.filter(|connections| *connections > 0),
        memory_bytes_max,
    })
}

fn service(entry: ServiceEntry) -> anyhow::Result<ServiceLayout> {
    let ServiceEntry { name, processes, threads, pool, memory } = entry;
    let name = name.into_inner();
    // Streaming has one thread, which shares its pool.
    let said = threads.or_else(|| (name == STREAMING).then_some(1));
    let reckoned = assumed_memory(&name, said.unwrap_or(pool));
    let memory = memory.as_deref().map(size).transpose()?;
    let gaps = collect_gaps([(Gap::Threads, said.is_none()), (Gap::Memory, memory.is_none())]);
    let memory_bytes = memory.unwrap_or(reckoned);
    Ok(ServiceLayout { name, processes, threads: said.unwrap_or(0), pool, memory_bytes, gaps })
}

fn worker(entry: WorkerEntry, lines: &mut LineSource<'_>) -> anyhow::Result<WorkerLayout> {
    let said = lines.queues(&entry);
    let is_unread = said.is_none();
    let queues = said.unwrap_or_default();
    let (ordering, is_clear) = effective_ordering(entry.order, &queues);
    let memory = entry.memory.as_deref().map(size).transpose()?;
    let gaps = collect_gaps([
        (Gap::Threads, entry.concurrency.is_none()),
        (Gap::Pool, entry.pool.is_none()),
        (Gap::Memory, memory.is_none()),
        (Gap::Order, !is_clear),
        (Gap::Queues, is_unread),
    ]);
    let concurrency = entry.concurrency.unwrap_or(0);
    Ok(WorkerLayout {
        name: entry.name.into_inner(),
        processes: entry.processes,
        concurrency,
        pool: entry.pool.unwrap_or(concurrency),
        ordering,
        queues: queues.into_iter().map(|(queue, _)| queue).collect(),
        memory_bytes: memory.unwrap_or_else(|| assumed_ruby_memory(concurrency)),
        gaps,
    })
}

fn collect_gaps<const COUNT: usize>(of: [(Gap, bool); COUNT]) -> Vec<Gap> {
    of.into_iter().filter_map(|(gap, is_one)| is_one.then_some(gap)).collect()
}

/// Returns the memory that `weir plan` assumes without a measurement.
fn assumed_memory(service: &str, threads: u32) -> u64 {
    if service == STREAMING {
        ProcessMemory::default().streaming_bytes
    } else {
        assumed_ruby_memory(threads)
    }
}

fn assumed_ruby_memory(threads: u32) -> u64 {
    let usual = ProcessMemory::default();
    usual.ruby_bytes.saturating_add(usual.thread_bytes.saturating_mul(u64::from(threads)))
}

fn size(text: &str) -> anyhow::Result<u64> {
    parse_size(text).map_err(anyhow::Error::msg)
}
