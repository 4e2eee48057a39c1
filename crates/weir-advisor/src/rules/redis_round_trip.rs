//! Round trips from Sidekiq's processes to Redis are slow, as the processes measure themselves.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{JobProcess, Observation, ProcessPlace, RedisServer};
use crate::wording;

pub(crate) const NAME: &str = "redis-round-trip";

/// In a data center, a round trip takes less than a millisecond. Sidekiq logs a warning from 50 ms.
const WARNING_MIN: Duration = Duration::from_millis(50);
const NOTICE_MIN: Duration = Duration::from_millis(20);
/// A process that computes lets its measurement wait for the interpreter's lock.
const CORE_SHARE: f64 = 0.7;
/// With fewer idle cores, the processes of this machine wait for the CPU.
const CORES_IDLE_MIN: f64 = 0.3;
/// Share of a round trip from which Redis itself explains it.
const REDIS_SHARE: f64 = 0.25;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let measured = |process: &&JobProcess| is_meaningful(observation, process);
    let processes: Vec<&JobProcess> = jobs.serving().filter(measured).collect();
    let mut times: Vec<Duration> = processes.iter().filter_map(|it| it.round_trip).collect();
    times.sort_unstable();
    // The lower median: one process alone does not outweigh another.
    let Some(median) = times.get(times.len().saturating_sub(1) / 2).copied() else {
        return Vec::new();
    };
    if median < NOTICE_MIN {
        return Vec::new();
    }
    let redis = observation.redis.first().and_then(|redis| redis.known());
    vec![found(observation, redis, &processes, median)]
}

/// Reports whether the measurement of a process is not due to the CPU time that it lacks.
fn is_meaningful(observation: &Observation, process: &JobProcess) -> bool {
    let computes = process.cores_used.known().is_some_and(|used| *used >= CORE_SHARE);
    let is_full = observation.machine.known().is_some_and(|it| it.cores_idle < CORES_IDLE_MIN);
    let is_here = process.place != ProcessPlace::Elsewhere;
    process.round_trip.is_some() && !computes && !(is_here && is_full)
}

fn found(
    observation: &Observation,
    redis: Option<&RedisServer>,
    processes: &[&JobProcess],
    median: Duration,
) -> Finding {
    let severity = if median >= WARNING_MIN { Severity::Warning } else { Severity::Notice };
    let mut hosts: Vec<&str> = processes.iter().map(|it| it.hostname.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let from = match hosts.as_slice() {
        [host] if !host.is_empty() => format!(" from {host}"),
        _ => String::new(),
    };
    let evidence = format!(
        "a round trip takes {}{from} (the median of {})",
        wording::duration(median),
        wording::number(processes.len() as u64, "process", "processes")
    );
    let name = redis.map(|redis| redis.name.as_str());
    let subject = name.map_or_else(|| "Redis".to_owned(), |name| format!("Redis {name}"));
    let finding = Finding::new(NAME, severity, subject, evidence).leads_to(format!(
        "A job takes several round trips, during which its thread does nothing: with {}, a job takes a \
         fifth of a second or more. {}",
        wording::duration(median.max(WARNING_MIN)),
        where_it_is(redis, median)
    ));
    let Some(name) = name else { return finding };
    let command = observation.redis_command(name, |cli| format!("timeout 5 {cli} --latency"));
    finding.next_if(processes.first().and_then(|it| it.there(&command)))
}

/// Says whether Redis itself or the way to it takes the time.
fn where_it_is(redis: Option<&RedisServer>, median: Duration) -> String {
    let lately = redis.and_then(|redis| redis.lately.known());
    let Some(mean) = lately.and_then(|it| it.mean()) else {
        return "Run the processes near their Redis, or see what delays it.".to_owned();
    };
    match mean.as_secs_f64() >= REDIS_SHARE * median.as_secs_f64() {
        true => format!(
            "Redis itself needs {} for a command: see its slow log (SLOWLOG GET), not the network.",
            wording::duration(mean)
        ),
        false => format!(
            "Redis itself needs {} for a command: the rest is the network, a proxy, TLS, or a machine \
             without CPU time. The command measures the way from the process' host.",
            wording::duration(mean)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{CommandRate, Fact};

    fn with(millis: [u64; 2]) -> Observation {
        let mut observation = healthy::observation();
        for (process, millis) in observation.jobs.known_mut().processes.iter_mut().zip(millis) {
            process.round_trip = Some(Duration::from_millis(millis));
        }
        observation
    }

    #[test]
    fn the_lower_of_two_processes_counts() {
        for (millis, severity) in [
            ([60, 80], Some(Severity::Warning)),
            ([20, 300], Some(Severity::Notice)),
            ([19, 300], None),
        ] {
            let found = check(&with(millis));
            assert_eq!(found.first().map(|it| it.severity), severity, "{millis:?}");
        }
    }

    #[test]
    fn processes_that_lack_cpu_time_measure_that() {
        let mut observation = with([60, 80]);
        observation.machine.known_mut().cores_idle = 0.1;
        assert_eq!(check(&observation), []);
        let mut observation = with([60, 80]);
        for process in &mut observation.jobs.known_mut().processes {
            process.cores_used = Fact::Known(0.9);
        }
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn redis_is_told_from_the_way_to_it() {
        let mut observation = with([60, 80]);
        let lately = observation.redis[0].known_mut().lately.known_mut();
        lately.commands = vec![CommandRate {
            command: "EVAL".to_owned(),
            per_second: 10.0,
            mean: Duration::from_millis(30),
            share: 0.3,
        }];
        let finding = check(&observation).remove(0);
        assert_eq!(
            finding.evidence,
            "a round trip takes 60 ms from shop (the median of 2 processes)"
        );
        assert!(finding.consequence.contains("see its slow log"), "{}", finding.consequence);
        observation.redis[0].known_mut().lately.known_mut().commands[0].share = 0.001;
        let finding = check(&observation).remove(0);
        assert!(finding.consequence.contains("the rest is the network"), "{}", finding.consequence);
        let command = "timeout 5 redis-cli -h 127.0.0.1 -p 6379 --latency";
        assert_eq!(finding.next_step(), Some(command));
    }
}
