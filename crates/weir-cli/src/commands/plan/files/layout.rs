//! The plan as `weir plan --check` reads it.

use std::fmt::Write;

use weir_advisor::observation::Ordering;
use weir_advisor::plan::{Plan, PlanInput};

pub(super) fn text(input: &PlanInput, plan: &Plan) -> String {
    let words = |words: &mut dyn Iterator<Item = &str>| {
        words.map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "# For `weir plan --check`.\nmax_connections = {}\nreserve = {}\n\
         superuser_reserved_connections = {}\n",
        plan.layout.max_connections, plan.layout.reserve, plan.layout.reserved_connections
    );
    let pooler = plan.layout.pooler_connections;
    text.extend(pooler.map(|connections| format!("pgbouncer = {connections}\n")));
    let memory =
        plan.layout.memory_bytes_max.map(|bytes| format!("memory = \"{}KiB\"\n", bytes / 1024));
    text.extend(memory);
    let _ = writeln!(
        text,
        "queues = [{}]",
        words(&mut input.queues.iter().map(|queue| queue.name.as_str()))
    );
    for service in &plan.layout.services {
        let _ = write!(
            text,
            "\n[[services]]\nname = {:?}\nprocesses = {}\nthreads = {}\npool = {}\nmemory = \"{}KiB\"\n",
            service.name,
            service.processes,
            service.threads,
            service.pool,
            service.memory_bytes / 1024
        );
    }
    for worker in &plan.layout.workers {
        let order = match worker.ordering {
            Ordering::Random => "random",
            Ordering::Weighted => "weighted",
            Ordering::Strict | Ordering::Unknown => "strict",
        };
        let _ = write!(
            text,
            "\n[[workers]]\nname = {:?}\nprocesses = {}\nconcurrency = {}\npool = {}\norder = {order:?}\n\
             memory = \"{}KiB\"\nqueues = [{}]\n",
            worker.name,
            worker.processes,
            worker.concurrency,
            worker.pool,
            worker.memory_bytes / 1024,
            words(&mut worker.queues.iter().map(String::as_str))
        );
    }
    text
}
