//! A plan as text.

use weir_advisor::observation::Ordering;
use weir_advisor::plan::{
    ClaimOutcome, DemandSource, Gap, Plan, PlanInput, PlannedSetting, ProcessLayout, Proof,
    QueueDemand, WebDemand,
};
use weir_advisor::wording;

use crate::output;

/// Follows a value that was neither given nor observed.
const ASSUMED: &str = ", assumed";
/// Replaces a duration that includes waiting time.
const HELD_UP: &str = "blocked";
/// Precedes an upper bound.
const AT_MOST: &str = "at most ";
/// Precedes how long the oldest job in progress has been running.
const AT_LEAST: &str = "at least ";
/// Replaces a value that no sample shows.
const NOT_SEEN: &str = "not seen";

pub(super) fn text(input: &PlanInput, plan: &Plan, difference: &[String]) -> String {
    let mut lines = head(input);
    lines.extend(processes(&plan.layout));
    lines.push(String::new());
    let mut text = lines.join("\n") + "\n";
    text.push_str(&proofs(&plan.proofs));
    for (name, settings) in
        [("postgresql.conf", &plan.postgres), ("REDIS (redis-weir.sh)", &plan.redis)]
    {
        if !settings.is_empty() {
            let rows: Vec<_> = settings.iter().map(setting).collect();
            text.push_str(&block(output::columns(&[name, "", "BECAUSE"], &rows)));
        }
    }
    if !difference.is_empty() {
        text.push_str("\nchanges to the running system:\n");
        text.push_str(&block(difference.iter().map(|line| output::printable(line)).collect())[1..]);
    }
    text
}

/// Returns the report if there is no plan: the inputs, and the rules that the best one violates.
pub(super) fn refusal(input: &PlanInput, broken: &[Proof]) -> String {
    let mut lines = head(input);
    lines.push("no plan satisfies all rules; the best one violates:".to_owned());
    lines.join("\n") + "\n" + &proofs(broken)
}

/// Returns the machine and the demand, followed by an empty line.
fn head(input: &PlanInput) -> Vec<String> {
    let mut lines = vec![machine(input), web(&input.web), String::new()];
    lines.extend(demands(input));
    lines.push(String::new());
    lines
}

fn machine(input: &PlanInput) -> String {
    let mut line = format!(
        "{} cores, {} ({} for Postgres, {} for Redis), {} connections, {}",
        input.cores,
        wording::bytes(input.memory_bytes),
        wording::bytes(input.postgres_memory_bytes),
        wording::bytes(input.redis_memory_bytes),
        input.max_connections,
        kept_free(input)
    );
    let pooler = input.pooler_connections;
    line.extend(pooler.map(|connections| format!("; {connections} belong to a pooler")));
    line
}

/// Says for whom the plan leaves connections: Postgres reserves some for superusers, and the rest of
/// the reserve is for sessions of others.
fn kept_free(input: &PlanInput) -> String {
    let superusers = input.reserved_connections;
    let by_postgres = format!("{superusers} that Postgres reserves for superusers");
    match input.reserve.saturating_sub(superusers) {
        0 => format!("less {by_postgres}"),
        others => format!("less {by_postgres} and {others} for sessions of others (--reserve)"),
    }
}

fn web(demand: &WebDemand) -> String {
    let WebDemand { requests_per_second, service_seconds, .. } = *demand;
    format!(
        "web requests: {}, {service_seconds:.2} s each: {:.1} busy threads",
        wording::rate(requests_per_second),
        requests_per_second * service_seconds
    )
}

fn demands(input: &PlanInput) -> Vec<String> {
    let row = |queue: &QueueDemand| {
        let QueueDemand { known, arrivals_per_second: rate, service_seconds: seconds, .. } = *queue;
        let rate_text = match queue.knows_rate() {
            true => wording::rate(rate),
            false => NOT_SEEN.to_owned(),
        };
        let most = if known.is_most() { AT_MOST } else { "" };
        let (takes, busy) = if known == DemandSource::HeldUp {
            (HELD_UP.to_owned(), HELD_UP.to_owned())
        } else {
            let busy = match known {
                DemandSource::Nothing => NOT_SEEN.to_owned(),
                _ if known.knows_load() => format!("{most}{:.1}", rate * seconds),
                _ => format!("{most}{:.1}{ASSUMED}", rate * seconds),
            };
            let takes = if known.knows_seconds() {
                format!("{most}{seconds:.2} s")
            } else if queue.oldest_seconds >= seconds {
                format!("{AT_LEAST}{:.2} s", queue.oldest_seconds)
            } else {
                format!("{seconds:.2} s{ASSUMED}")
            };
            (takes, busy)
        };
        vec![output::printable(&queue.name), rate_text, takes, busy]
    };
    let rows: Vec<_> = input.queues.iter().map(row).collect();
    output::columns(&["QUEUE", "RATE", "JOB DURATION", "BUSY THREADS"], &rows)
}

/// Returns a line per process; unknown values are question marks.
pub(in crate::commands) fn processes(layout: &ProcessLayout) -> Vec<String> {
    let figure = |value: u32, gap: &Gap, gaps: &[Gap]| match gaps {
        gaps if gaps.contains(gap) || gaps.contains(&Gap::Command) => "?".to_owned(),
        _ => value.to_string(),
    };
    let row = |name: &str, figures: [u32; 3], gaps: &[Gap], queues: String| {
        let [processes, threads, pool] = figures;
        vec![
            output::printable(name),
            figure(processes, &Gap::Processes, gaps),
            figure(threads, &Gap::Threads, gaps),
            figure(pool, &Gap::Pool, gaps),
            queues,
        ]
    };
    let services = layout
        .services
        .iter()
        .map(|it| row(&it.name, [it.processes, it.threads, it.pool], &it.gaps, String::new()));
    let workers = layout.workers.iter().map(|it| {
        let queues = output::printable(&it.queues.join(", ")) + order(it.ordering);
        row(&it.name, [it.processes, it.concurrency, it.pool], &it.gaps, queues)
    });
    let rows: Vec<Vec<String>> = services.chain(workers).collect();
    output::columns(&["SERVICE", "PROCESSES", "THREADS", "POOL", "QUEUES, IN ORDER"], &rows)
}

const fn order(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Strict | Ordering::Unknown => "",
        Ordering::Random => " (random order)",
        Ordering::Weighted => " (by weight)",
    }
}

fn setting(setting: &PlannedSetting) -> Vec<String> {
    let restart = if setting.restart { " (requires a restart)" } else { "" };
    vec![setting.name.to_owned(), setting.value.clone(), format!("{}{restart}", setting.reason)]
}

/// Returns a line for each rule with its figures.
pub(in crate::commands) fn proofs(proofs: &[Proof]) -> String {
    let line = |proof: &Proof| {
        let mark = match proof.outcome {
            ClaimOutcome::Holds => "holds",
            ClaimOutcome::Broken => "BROKEN",
            ClaimOutcome::Unknown => "unknown",
        };
        format!("{mark:<7} {}: {}\n", proof.claim.words(), output::printable(&proof.figures))
    };
    proofs.iter().map(line).collect()
}

/// Joins lines, with an empty line before.
fn block(lines: Vec<String>) -> String {
    format!("\n{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use weir_advisor::plan::{ProcessMemory, RedisPolicy, Storage};

    use super::*;

    #[test]
    fn a_rate_that_no_sample_shows_is_not_invented() {
        let row = |known, seconds| {
            let said = QueueDemand::said("video".to_owned(), 1.0 / seconds, seconds);
            let queues = vec![QueueDemand { known, oldest_seconds: 360.0, ..said }];
            demands(&PlanInput { queues, ..input() }).remove(1)
        };
        let busy = row(DemandSource::Busy, 360.0);
        assert_eq!(busy, "video  not seen  at least 360.00 s  1.0");
        assert_eq!(row(DemandSource::All, 0.5), "video  2.0/s  0.50 s        1.0");
    }

    #[test]
    fn connections_that_stay_free_are_named_by_who_needs_them() {
        let mut input = input();
        let expected = "40 connections, less 3 that Postgres reserves for superusers and 12 for \
                        sessions of others (--reserve)";
        assert!(machine(&input).ends_with(expected), "{}", machine(&input));
        (input.reserve, input.pooler_connections) = (2, Some(20));
        let expected = "40 connections, less 3 that Postgres reserves for superusers; 20 belong to \
                        a pooler";
        assert!(machine(&input).ends_with(expected), "{}", machine(&input));
    }

    fn input() -> PlanInput {
        PlanInput {
            cores: 4,
            memory_bytes: 8 << 30,
            postgres_memory_bytes: 2 << 30,
            redis_memory_bytes: 512 << 20,
            storage: Storage::Ssd,
            max_connections: 40,
            reserve: 15,
            reserved_connections: 3,
            pooler_connections: None,
            web: WebDemand {
                requests_per_second: 10.0,
                service_seconds: 0.1,
                threads: 5,
                processes_now: 0,
            },
            streaming: (1, 10),
            queues: Vec::new(),
            process_memory: ProcessMemory::default(),
            redis_policy: RedisPolicy::KeepAll,
            lacks_pool_connections: false,
        }
    }
}
