//! `weir plan --check`: a layout that somebody has made, judged.

use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::json;
use weir_advisor::observation::Ordering;
use weir_advisor::plan::{Layout, ServiceLayout, WorkerLayout, judge};

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
    let bytes = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
    if bytes > FILE_BYTES_MAX {
        bail!("{shown} has {bytes} bytes; a layout has at most {FILE_BYTES_MAX}");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
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
    }
    Ok(if holds { Exit::Fine } else { Exit::FoundProblem })
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
    let memory_bytes = memory.as_deref().map_or(Ok(0), size)?;
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
        memory_bytes: memory.as_deref().map_or(Ok(0), size)?,
    })
}

fn size(text: &str) -> anyhow::Result<u64> {
    parse_size(text).map_err(anyhow::Error::msg)
}
