//! `weir plan --check`: a layout that somebody has made, judged.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::json;
use weir_advisor::observation::Ordering;
use weir_advisor::plan::{
    Gap, Layout, Outcome, ProcessMemory, Proof, RESERVED_CONNECTIONS, ServiceLayout, WorkerLayout,
    judge,
};

use super::report;
use crate::config::units::parse_size;
use crate::exit::Exit;
use crate::output;

/// A layout is some lines for each process.
const FILE_BYTES_MAX: u64 = 1 << 20;
const STREAMING: &str = "streaming";

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    max_connections: u32,
    #[serde(default)]
    reserve: u32,
    /// As Postgres ships, unless it is said.
    superuser_reserved_connections: Option<u32>,
    #[serde(default)]
    reserved_connections: u32,
    /// Connections that a pooler in between opens at most.
    pgbouncer: Option<u32>,
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
    concurrency: Option<u32>,
    pool: Option<u32>,
    order: Option<Order>,
    /// As behind `-q`: "push", or with its weight "push,6".
    queues: Vec<String>,
    memory: Option<String>,
}

/// How a process chooses among its queues.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    /// `-q a -q b`.
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
    let is_reserved_said = file.superuser_reserved_connections.is_some();
    let queues = file.queues.clone();
    let layout = layout(file).with_context(|| format!("{shown} is no layout"))?;
    let queues = if queues.is_empty() { served(&layout) } else { queues };
    let names: Vec<&str> = queues.iter().map(String::as_str).collect();
    let proofs = judge(&layout, &names);
    if as_json {
        let holds = proofs.iter().all(Proof::holds);
        output::json(&json!({ "holds": holds, "layout": layout, "proofs": proofs }))?;
    } else {
        output::raw(&report::proofs(&proofs));
        if layout.memory_bytes_max.is_none() {
            output::line("not judged  memory is enough: the file does not say `memory = \"8GiB\"`");
        }
        if !is_reserved_said {
            let kept = layout.reserved_connections;
            output::line(&format!(
                "taken as it ships  Postgres keeps {kept} connections for superusers: the file does not say \
                 `superuser_reserved_connections`"
            ));
        }
    }
    Ok(exit(&proofs))
}

/// What is broken is a problem; what can't be told is neither that nor fine.
fn exit(proofs: &[Proof]) -> Exit {
    let any = |outcome| proofs.iter().any(|proof| proof.outcome == outcome);
    if any(Outcome::Broken) {
        Exit::FoundProblem
    } else if any(Outcome::Unknown) {
        Exit::Failed
    } else {
        Exit::Fine
    }
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

/// All that some process serves.
fn served(layout: &Layout) -> Vec<String> {
    let mut queues: Vec<_> = layout.workers.iter().flat_map(|it| it.queues.clone()).collect();
    queues.sort();
    queues.dedup();
    queues
}

fn layout(file: File) -> anyhow::Result<Layout> {
    let memory_bytes_max = file.memory.as_deref().map(size).transpose()?;
    let services = file.services.into_iter().map(service).collect::<anyhow::Result<_>>()?;
    let workers = file.workers.into_iter().map(worker).collect::<anyhow::Result<_>>()?;
    let kept = file.superuser_reserved_connections.unwrap_or(RESERVED_CONNECTIONS);
    Ok(Layout {
        services,
        workers,
        max_connections: file.max_connections,
        reserve: file.reserve,
        reserved_connections: kept.saturating_add(file.reserved_connections),
        pooler_connections: file.pgbouncer.filter(|connections| *connections > 0),
        memory_bytes_max,
    })
}

fn service(entry: ServiceEntry) -> anyhow::Result<ServiceLayout> {
    let ServiceEntry { name, processes, threads, pool, memory } = entry;
    // Streaming has one thread, which shares out its pool.
    let said = threads.or_else(|| (name == STREAMING).then_some(1));
    let reckoned = usual_memory(&name, said.unwrap_or(pool));
    let memory = memory.as_deref().map(size).transpose()?;
    let gaps = gaps([(Gap::Threads, said.is_none()), (Gap::Memory, memory.is_none())]);
    let memory_bytes = memory.unwrap_or(reckoned);
    Ok(ServiceLayout { name, processes, threads: said.unwrap_or(0), pool, memory_bytes, gaps })
}

fn worker(entry: WorkerEntry) -> anyhow::Result<WorkerLayout> {
    let WorkerEntry { name, processes, concurrency: said, pool, order, queues, memory } = entry;
    let concurrency = said.unwrap_or(0);
    let queues: Vec<_> = queues.iter().map(|word| weighted(word)).collect::<Result<_, _>>()?;
    let (ordering, is_clear) = ordering(order, &queues);
    let memory = memory.as_deref().map(size).transpose()?;
    let gaps = gaps([
        (Gap::Threads, said.is_none()),
        (Gap::Pool, pool.is_none()),
        (Gap::Memory, memory.is_none()),
        (Gap::Order, !is_clear),
    ]);
    Ok(WorkerLayout {
        name,
        processes,
        concurrency,
        pool: pool.unwrap_or(concurrency),
        ordering,
        queues: queues.into_iter().map(|(queue, _)| queue).collect(),
        memory_bytes: memory.unwrap_or_else(|| ruby_memory(concurrency)),
        gaps,
    })
}

fn gaps<const COUNT: usize>(of: [(Gap, bool); COUNT]) -> Vec<Gap> {
    of.into_iter().filter_map(|(gap, is_one)| is_one.then_some(gap)).collect()
}

/// "push,6" as Sidekiq reads it; 0 without a weight.
fn weighted(word: &str) -> anyhow::Result<(String, u32)> {
    let (queue, weight) = match word.rsplit_once(',') {
        Some((queue, weight)) => (queue, weight.parse().ok()),
        None => (word, Some(0)),
    };
    let weight = weight.filter(|_| !queue.is_empty());
    let weight = weight.with_context(|| format!("{word:?} is no queue: write push, or push,6"))?;
    Ok((queue.to_owned(), weight))
}

/// The order that Sidekiq makes of it, and whether that is the one that was meant: one weight, and all
/// queues have some.
fn ordering(said: Option<Order>, queues: &[(String, u32)]) -> (Ordering, bool) {
    let weights = || queues.iter().map(|(_, weight)| *weight);
    if weights().all(|weight| weight == 0) {
        let ordering = match said {
            None | Some(Order::Strict) => Ordering::Strict,
            Some(Order::Random) => Ordering::Random,
            Some(Order::Weighted) => Ordering::Weighted,
        };
        return (ordering, true);
    }
    let ordering =
        if weights().all(|weight| weight == 1) { Ordering::Random } else { Ordering::Weighted };
    let is_meant = match said {
        None => true,
        Some(Order::Strict) => false,
        Some(Order::Random) => ordering == Ordering::Random,
        Some(Order::Weighted) => ordering == Ordering::Weighted,
    };
    (ordering, is_meant && weights().all(|weight| weight > 0))
}

/// What `weir plan` reckons with, where nobody has measured.
fn usual_memory(service: &str, threads: u32) -> u64 {
    if service == STREAMING {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn order_of(said: Option<Order>, words: &[&str]) -> (Ordering, bool) {
        let queues: Vec<_> = words.iter().map(|word| weighted(word).expect("a queue")).collect();
        ordering(said, &queues)
    }

    #[test]
    fn one_weight_makes_all_queues_weighted_and_that_is_no_clear_order() {
        assert_eq!(order_of(None, &["a", "b"]), (Ordering::Strict, true));
        assert_eq!(order_of(None, &["a,1", "b,1"]), (Ordering::Random, true));
        assert_eq!(order_of(None, &["a,8", "b,1"]), (Ordering::Weighted, true));
        assert_eq!(order_of(None, &["a,8", "b"]), (Ordering::Weighted, false));
        assert_eq!(order_of(Some(Order::Strict), &["a,8", "b,1"]), (Ordering::Weighted, false));
        assert_eq!(order_of(Some(Order::Weighted), &["a", "b"]), (Ordering::Weighted, true));
    }

    #[test]
    fn a_queue_is_read_as_sidekiq_reads_it() {
        assert_eq!(weighted("push,6").expect("a queue"), ("push".to_owned(), 6));
        for text in ["push,", "push,x", ",6", ""] {
            assert!(weighted(text).is_err(), "{text}");
        }
    }
}
