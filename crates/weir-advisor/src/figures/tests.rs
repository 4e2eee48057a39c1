use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::advice::advise;
use crate::flow::Flow;
use crate::healthy::{self, sessions};
use crate::observation::{
    ConnectionPool, Fact, Missing, MissingReason, ObservedQueue, PgBouncer, Pooler, SessionState,
    ShardJobs, SourceKind,
};

const UNBOUNDED: LabelLimits =
    LabelLimits { metrics_queues_max: 1_000, metrics_services_max: 1_000 };

fn all(observation: &Observation, sources: &[SourceState], limits: LabelLimits) -> Vec<Figure> {
    let look = SampleSummary {
        at: Timestamp::from_millis(7_000),
        took: Duration::from_millis(9),
        sources,
    };
    figures(observation, &advise(observation), look, &mut Admitted::new(limits))
}

fn value(figures: &[Figure], name: &str, labels: &[&str]) -> Option<f64> {
    let of = |figure: &&Figure| {
        figure.metric.name == name && figure.labels.iter().map(|(_, it)| it).eq(labels)
    };
    figures.iter().find(of).map(|figure| figure.value)
}

fn redis(problem: Option<Missing>) -> SourceState {
    SourceState {
        kind: SourceKind::Redis,
        name: "127.0.0.1:6379".to_owned(),
        problem,
        looks: 7,
        failures: 2,
        spared: 1,
        questions: 90,
        took: Duration::from_millis(3),
    }
}

fn pooler() -> (Option<Pooler>, Fact<PgBouncer>) {
    let pool = |user: &str, clients_waiting, longest_wait| ConnectionPool {
        user: user.to_owned(),
        clients_waiting,
        longest_wait: Duration::from_millis(longest_wait),
        connections_active: 4,
        connections: 5,
        ..ConnectionPool::default()
    };
    let pools = vec![pool("web", 1, 250), pool("jobs", 2, 40)];
    let pooler = Pooler { connections: Some(40), ..Pooler::default() };
    (Some(pooler), Fact::Known(PgBouncer { pools, ..PgBouncer::default() }))
}

#[test]
fn every_metric_has_a_name_of_its_own_and_says_what_it_is() {
    let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        assert!(metric.name.chars().all(|it| it.is_ascii_lowercase() || it == '_'), "{metric:?}");
        assert!(!metric.help.is_empty() && !metric.name.ends_with("_total"), "{metric:?}");
        let is_seconds = metric.unit == metric::Unit::Seconds;
        assert_eq!(metric.name.ends_with("_seconds"), is_seconds, "{metric:?}");
        assert_eq!(
            metric.name.ends_with("_bytes"),
            metric.unit == metric::Unit::Bytes,
            "{metric:?}"
        );
    }
}

#[test]
fn a_system_that_is_known_has_a_value_of_every_metric() {
    let mut observation = healthy::observation();
    observation.redis[0].known_mut().info.maxmemory_bytes = 1 << 30;
    let lately = crate::observation::RedisOperations {
        per_second: 100.0,
        evicted_per_second: 0.0,
        commands: vec![crate::observation::CommandRate {
            command: "GET".to_owned(),
            per_second: 100.0,
            mean: Duration::from_micros(50),
            share: 0.005,
        }],
        ..crate::observation::RedisOperations::default()
    };
    observation.redis[0].known_mut().lately = Fact::Known(lately);
    observation.jobs.known_mut().ghosts = vec!["gone".to_owned()];
    let window = Duration::from_secs(10);
    for queue in &mut observation.jobs.known_mut().queues {
        queue.flow = Fact::Known(Flow {
            window,
            before: 900,
            after: 300,
            arrivals_per_second: 2.0,
            deviation: None,
        });
    }
    let wait = crate::observation::SessionWait {
        kind: "IO".to_owned(),
        event: "DataFileRead".to_owned(),
        count: 2,
    };
    observation.postgres.known_mut().waits = Fact::Known(vec![wait.clone(), wait]);
    (observation.pooler, observation.pgbouncer) = pooler();
    let figures = all(&observation, &[redis(None)], UNBOUNDED);
    let told: BTreeSet<_> = figures.iter().map(|figure| figure.metric.name).collect();
    let missing: Vec<_> = METRICS.iter().filter(|it| !told.contains(it.name)).collect();
    assert_eq!(missing, [] as [&Metric; 0]);
    assert_eq!(value(&figures, "queue_size", &["push"]), Some(3.0));
    assert_eq!(value(&figures, "queue_drain_seconds", &["push"]), Some(5.0));
    assert_eq!(value(&figures, "threads", &[]), Some(30.0));
    assert_eq!(value(&figures, "connections", &["web", "idle"]), Some(8.0));
    assert_eq!(value(&figures, "session_waits", &["IO"]), Some(4.0));
    assert_eq!(value(&figures, "pooler_clients", &["waiting"]), Some(3.0));
    assert_eq!(value(&figures, "pooler_wait_seconds", &[]), Some(0.25));
    assert_eq!(value(&figures, "pooler_connections", &["other"]), Some(2.0));
    assert_eq!(value(&figures, "pooler_connections_max", &[]), Some(40.0));
    assert_eq!(value(&figures, "findings", &["warning"]), Some(1.0));
    assert_eq!(value(&figures, "rule_findings", &["ghost-process", "warning"]), Some(1.0));
    assert_eq!(value(&figures, "redis_operation_seconds", &["127.0.0.1:6379"]), Some(0.00005));
    assert_eq!(value(&figures, "source_up", &["redis", "127.0.0.1:6379"]), Some(1.0));
    // The values of a metric are contiguous.
    let mut names: Vec<_> = figures.iter().map(|figure| figure.metric.name).collect();
    names.dedup();
    assert_eq!(names.len(), told.len());
}

#[test]
fn what_is_not_known_has_no_value_rather_than_zero() {
    let missing = Missing {
        what: "Redis".to_owned(),
        obstacle: MissingReason::Unreachable,
        reason: "refused".to_owned(),
        remedy: None,
    };
    let mut observation = healthy::observation();
    observation.jobs = Fact::Unknown(missing.clone());
    observation.redis = vec![Fact::Unknown(missing.clone())];
    let figures = all(&observation, &[redis(Some(missing))], UNBOUNDED);
    let gone = |figure: &&Figure| {
        ["queue_", "redis_", "jobs_", "threads", "drain_"]
            .iter()
            .any(|it| figure.metric.name.starts_with(it))
    };
    assert_eq!(figures.iter().find(gone), None);
    assert_eq!(value(&figures, "source_up", &["redis", "127.0.0.1:6379"]), Some(0.0));
    assert_eq!(value(&figures, "source_failures", &["redis", "127.0.0.1:6379"]), Some(2.0));
    assert_eq!(value(&figures, "findings", &["critical"]), Some(1.0));
    assert_eq!(value(&figures, "connections_max", &[]), Some(200.0), "the others are seen");
}

#[test]
fn a_queue_that_grows_never_ends_and_one_that_stands_says_nothing() {
    let mut observation = healthy::observation();
    let window = Duration::from_secs(10);
    let flow =
        |before, after| Flow { window, before, after, arrivals_per_second: 10.0, deviation: None };
    let queue = observation.jobs.known_mut().queue_mut("push");
    queue.flow = Fact::Known(flow(1_000, 2_000));
    let figures = all(&observation, &[], UNBOUNDED);
    assert_eq!(value(&figures, "queue_drain_seconds", &["push"]), Some(f64::INFINITY));
    assert_eq!(value(&figures, "queue_drain_seconds", &["pull"]), None);
    assert_eq!(value(&figures, "queue_served_per_second", &["pull"]), Some(1.9));
}

#[test]
fn what_has_no_place_is_counted_together_and_said_to_be() {
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    for number in 0..200 {
        let latency = Duration::from_secs(number);
        let name = format!("tenant-{number}");
        jobs.queues.push(ObservedQueue { name, length: 2, latency, ..ObservedQueue::default() });
    }
    let connections = observation.postgres.known_mut().connections.known_mut();
    connections.sessions.push(sessions("psql", SessionState::Idle, 2));
    let limits = LabelLimits { metrics_queues_max: 7, metrics_services_max: 1 };
    let figures = all(&observation, &[], limits);
    let queues = figures.iter().filter(|figure| figure.metric.name == "queue_size");
    assert_eq!(queues.clone().count(), 8);
    let sum: f64 = queues.map(|figure| figure.value).sum();
    assert_eq!(sum, 421.0, "nothing is lost");
    assert_eq!(value(&figures, "queue_latency_seconds", &["other"]), Some(199.0));
    assert_eq!(value(&figures, "queue_served_by", &["other"]), Some(0.0));
    assert_eq!(value(&figures, "left_out", &["metrics_queues_max"]), Some(200.0));
    assert_eq!(value(&figures, "left_out", &["metrics_services_max"]), Some(2.0));
    assert_eq!(value(&figures, "connections", &["other", "idle"]), Some(8.0));
}

#[test]
fn what_may_not_be_read_has_no_value_which_is_not_none() {
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    let missing = || Missing {
        what: "the retry set".to_owned(),
        obstacle: MissingReason::NotAllowed,
        reason: "no permissions".to_owned(),
        remedy: None,
    };
    jobs.retries.flow = Fact::Unknown(missing());
    jobs.processed = Fact::Unknown(missing());
    let figures = all(&observation, &[], UNBOUNDED);
    for name in ["set_size", "set_overdue"] {
        assert_eq!(value(&figures, name, &["retries"]), None);
        assert_eq!(value(&figures, name, &["dead"]), Some(0.0));
    }
    assert_eq!(value(&figures, "jobs_processed", &[]), None);
    assert_eq!(value(&figures, "jobs_failed", &[]), Some(100.0));
}

#[test]
fn an_old_name_does_not_make_the_others_look_unserved() {
    let mut observation = healthy::observation();
    let old = ObservedQueue { name: "old".to_owned(), pushed: true, ..ObservedQueue::default() };
    observation.jobs.known_mut().queues.push(old);
    let figures = all(&observation, &[], LabelLimits { metrics_queues_max: 0, ..UNBOUNDED });
    assert_eq!(value(&figures, "queue_served_by", &["other"]), Some(1.0));
    let figures = all(&observation, &[], UNBOUNDED);
    assert_eq!(value(&figures, "queue_served_by", &["old"]), Some(0.0));
}

/// Returns two shards. No process of the second one serves `push`.
fn sharded() -> Observation {
    let mut observation = healthy::observation();
    for name in ["a:1", "b:2"] {
        let jobs = observation.jobs.clone();
        observation.shards.push(ShardJobs { name: name.to_owned(), jobs });
    }
    let jobs = observation.shards[1].jobs.known_mut();
    jobs.queue_mut("push").length = 40;
    jobs.processes.remove(0);
    observation
}

#[test]
fn queues_of_one_name_are_those_of_their_redis_where_there_are_several() {
    let observation = sharded();
    let figures = all(&observation, &[], UNBOUNDED);
    for (name, labels, one, other) in [
        ("queue_size", &["push"][..], 3.0, 40.0),
        ("queue_served_by", &["push"], 1.0, 0.0),
        ("processes", &["serving"], 2.0, 1.0),
        ("threads", &[], 30.0, 5.0),
        ("drain_seconds", &[], f64::NAN, f64::INFINITY),
    ] {
        let of = |shard| value(&figures, name, &[labels, &[shard]].concat());
        let told = (of("a:1").filter(|_| !one.is_nan()), of("b:2"));
        assert_eq!(told, ((!one.is_nan()).then_some(one), Some(other)), "{name}");
        assert_eq!(value(&figures, name, labels), None, "{name}: no sum beside them");
    }
    let alone = all(&healthy::observation(), &[], UNBOUNDED);
    assert_eq!(value(&alone, "queue_size", &["push"]), Some(3.0), "one Redis has no such label");
    assert!(alone.iter().all(|it| !it.metric.of_each_sidekiq || it.labels.len() < 2));
}

#[test]
fn a_redis_that_is_away_takes_no_figure_of_the_other_with_it() {
    let mut observation = sharded();
    let away = Missing {
        what: "Redis b:2".to_owned(),
        obstacle: MissingReason::Unreachable,
        reason: "refused".to_owned(),
        remedy: None,
    };
    (observation.jobs, observation.shards[1].jobs) =
        (Fact::Unknown(away.clone()), Fact::Unknown(away));
    let figures = all(&observation, &[], UNBOUNDED);
    assert_eq!(value(&figures, "queue_size", &["push", "a:1"]), Some(3.0));
    assert_eq!(value(&figures, "queue_size", &["push", "b:2"]), None);
}

#[test]
fn each_queue_of_each_redis_has_a_place_of_its_own() {
    let limits = LabelLimits { metrics_queues_max: 7, ..UNBOUNDED };
    let figures = all(&sharded(), &[], limits);
    assert_eq!(value(&figures, "left_out", &["metrics_queues_max"]), Some(7.0));
    assert_eq!(value(&figures, "queue_size", &["push", "a:1"]), Some(3.0));
    assert_eq!(value(&figures, "queue_size", &["other", "b:2"]), Some(58.0), "6 x 3 and 40");
}
