//! `weir plan --check`: a layout that somebody has made, judged.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::json;
use weir_advisor::observation::Ordering;
use weir_advisor::plan::{Layout, ProcessMemory, ServiceLayout, WorkerLayout, judge};

use super::report;
use crate::config::units::parse_size;
use crate::exit::Exit;
use crate::output;

/// A layout is some lines for each process.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    max_connections: u32,
    #[serde(default)]
    reserve: u32,
    /// For all processes together.
    memory: Option<String>,
    /// Those that must be served; none: those that are.
    #[serde(default)]
    queues: Vec<String>,
    #[serde(default)]
    services: Vec<ServiceEntry>,
    #[serde(default)]
    workers: Vec<WorkerEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceEntry {
    name: String,
    #[serde(default = "one")]
    processes: u32,
    /// As many as the pool, unless it is said.
    threads: Option<u32>,
    pool: u32,
    memory: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerEntry {
    name: String,
    #[serde(default = "one")]
    processes: u32,
    concurrency: u32,
    /// As large as the concurrency, unless it is said.
    pool: Option<u32>,
    #[serde(default)]
    order: Order,
    queues: Vec<String>,
    memory: Option<String>,
}

/// How a process chooses among its queues.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    /// `-q a -q b`.
    #[default]
    Strict,
    /// `-q a,1 -q b,1`.
    Random,
    /// `-q a,8 -q b,1`.
    Weighted,
}

const fn one() -> u32 {
    1
}

pub(super) fn run(path: &Path, as_json: bool) -> anyhow::Result<Exit> {
    let shown = path.display();
    let text = read(path)?;
    let file: File = toml::from_str(&text).with_context(|| format!("{shown} is no layout"))?;
    let queues = required(&file);
    let layout = layout(file).with_context(|| format!("{shown} is no layout"))?;
    let names: Vec<&str> = queues.iter().map(String::as_str).collect();
    let proofs = judge(&layout, &names);
    let holds = proofs.iter().all(|proof| proof.holds);
    if as_json {
        output::json(&json!({ "holds": holds, "layout": layout, "proofs": proofs }))?;
    } else {
        output::raw(&report::proofs(&proofs));
        if layout.memory_bytes_max.is_none() {
            output::line("not judged  memory is enough: the file does not say `memory = \"8GiB\"`");
        }
    }
    Ok(if holds { Exit::Fine } else { Exit::FoundProblem })
}

/// Not more of it than a layout has: a device or a pipe has no end, and tells no length.
fn read(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let cannot = || format!("cannot read {shown}");
    let file = std::fs::File::open(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{shown} is too long: a layout has at most {FILE_BYTES_MAX} bytes");
    }
    String::from_utf8(bytes).with_context(|| format!("{shown} is no text"))
}

fn required(file: &File) -> Vec<String> {
    if !file.queues.is_empty() {
        return file.queues.clone();
    }
    let mut queues: Vec<_> = file.workers.iter().flat_map(|it| it.queues.clone()).collect();
    queues.sort();
    queues.dedup();
    queues
}

fn layout(file: File) -> anyhow::Result<Layout> {
    let memory_bytes_max = file.memory.as_deref().map(size).transpose()?;
    let services = file.services.into_iter().map(service).collect::<anyhow::Result<_>>()?;
    let workers = file.workers.into_iter().map(worker).collect::<anyhow::Result<_>>()?;
    let File { max_connections, reserve, .. } = file;
    Ok(Layout { services, workers, max_connections, reserve, memory_bytes_max })
}

fn service(entry: ServiceEntry) -> anyhow::Result<ServiceLayout> {
    let ServiceEntry { name, processes, threads, pool, memory } = entry;
    let usual = || usual_memory(&name, threads.unwrap_or(pool));
    let memory_bytes = memory.as_deref().map_or_else(|| Ok(usual()), size)?;
    Ok(ServiceLayout { name, processes, threads: threads.unwrap_or(pool), pool, memory_bytes })
}

fn worker(entry: WorkerEntry) -> anyhow::Result<WorkerLayout> {
    let WorkerEntry { name, processes, concurrency, pool, order, queues, memory } = entry;
    Ok(WorkerLayout {
        name,
        processes,
        concurrency,
        pool: pool.unwrap_or(concurrency),
        ordering: match order {
            Order::Strict => Ordering::Strict,
            Order::Random => Ordering::Random,
            Order::Weighted => Ordering::Weighted,
        },
        queues,
        memory_bytes: memory.as_deref().map_or_else(|| Ok(ruby_memory(concurrency)), size)?,
    })
}

/// What `weir plan` reckons with, where nobody has measured.
fn usual_memory(service: &str, threads: u32) -> u64 {
    if service == "streaming" {
        ProcessMemory::default().streaming_bytes
    } else {
        ruby_memory(threads)
    }
}

fn ruby_memory(threads: u32) -> u64 {
    let usual = ProcessMemory::default();
    usual.ruby_bytes.saturating_add(usual.thread_bytes.saturating_mul(u64::from(threads)))
}

fn size(text: &str) -> anyhow::Result<u64> {
    parse_size(text).map_err(anyhow::Error::msg)
}
