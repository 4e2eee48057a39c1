//! Arbitrary queues, processes and sets, and what a running Weir measures.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::facts::fact;
use crate::finding::{Finding, Severity};
use crate::flow::Flow;
use crate::observation::{
    Capsule, ClassHistory, DayCounts, Fact, FailingClass, FarAhead, Goodput, JobInHand, JobProcess,
    JobSample, JobSet, MemoryGrowth, ObservedQueue, Ordering, PastSample, PayloadSize,
    ProcessPlace, ProcessPresence, RecentActivity, RequestPath, RunCounts, SampleShare,
    SidekiqObservation, Throughput, WeightedQueue,
};
use crate::verdict::VerdictFinding;

/// Names that rules treat in their own way, and one that a shell would execute.
const QUEUES: [&str; 8] =
    ["default", "push", "scheduler", "mailers", "mailer", "pull", "pull_backlog", "a'; $(b) \"c"];
const ERRORS: [&str; 5] = [
    "ActiveRecord::ConnectionTimeoutError",
    "NameError",
    "PG::DuplicatePstatement",
    "PG::ConnectionBad",
    "IOError",
];
const CLASSES: [&str; 3] = ["Import", "Feed", ""];

/// A count, usually a small one.
pub(super) fn count() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..60u64, 3 => 60..20_000u64, 1 => select(&[0, 1, 1_000_000_000_000][..])]
}

/// A duration in milliseconds, from nothing to years.
pub(super) fn time() -> impl Strategy<Value = Duration> {
    let millis = prop_oneof![
        1 => Just(0),
        3 => 1..2_000u64,
        4 => 2_000..700_000u64,
        3 => 700_000..90_000_000u64,
        1 => Just(300_000_000_000)
    ];
    millis.prop_map(Duration::from_millis)
}

/// A rate or a share, never negative.
pub(super) fn rate(usual: Range<f64>) -> impl Strategy<Value = f64> {
    prop_oneof![8 => usual, 1 => Just(0.0), 1 => select(&[1e-9, 1e6][..])]
}

pub(super) fn share() -> impl Strategy<Value = f64> {
    prop_oneof![6 => 0.0..=1.0, 1 => Just(0.0), 1 => Just(1.0)]
}

pub(super) fn any_names() -> impl Strategy<Value = Vec<String>> {
    let names = subsequence(&QUEUES[..], 0..=QUEUES.len());
    names.prop_map(|names| names.into_iter().map(str::to_owned).collect())
}

prop_compose! {
    fn any_flow(length: u64)(
        window in select(&[0, 3, 10, 120][..]),
        before in prop_oneof![2 => Just(length), 3 => count()],
        arrivals_per_second in rate(0.0..60.0),
        deviation in option::of(rate(0.0..40.0)),
    ) -> Flow {
        let window = Duration::from_secs(window);
        Flow { window, before, after: length, arrivals_per_second, deviation }
    }
}

fn any_failing() -> impl Strategy<Value = FailingClass> {
    let names = (select(&CLASSES[..]), select(&ERRORS[..]));
    (names, 0..90u64, time(), time()).prop_map(|((class, error), count, first, last)| {
        FailingClass {
            class: class.to_owned(),
            error: error.to_owned(),
            count,
            first_before: first.max(last),
            last_before: first.min(last),
        }
    })
}

fn any_payload() -> impl Strategy<Value = PayloadSize> {
    let bytes = prop_oneof![3 => 0..9_000u64, 1 => 90_000..9_000_000u64];
    (select(&CLASSES[..]), 1..90u64, bytes).prop_map(|(class, count, mean_bytes)| PayloadSize {
        class: class.to_owned(),
        count,
        mean_bytes,
        largest_bytes: mean_bytes * 2,
    })
}

prop_compose! {
    fn any_sample()(
        size in 0..1_000u64,
        (failing, payloads) in (vec(any_failing(), 0..3), vec(any_payload(), 0..3)),
        (errors, classes) in (vec(0..500u64, ERRORS.len()), vec(0..500u64, CLASSES.len())),
        message in select(&["uninitialized constant Import", "prepared statement \"a1\" does not exist", ""][..]),
    ) -> JobSample {
        let shares = |names: &[&str], counts: Vec<u64>| {
            let all = names.iter().zip(counts).filter(|(_, count)| *count > 0);
            all.map(|(name, count)| SampleShare { name: (*name).to_owned(), count: count.min(size) }).collect()
        };
        let error_messages: BTreeMap<_, _> = ERRORS.iter().map(|it| ((*it).to_owned(), message.to_owned())).collect();
        JobSample {
            size,
            classes: shares(&CLASSES, classes),
            errors: shares(&ERRORS, errors),
            hosts: Vec::new(),
            error_messages,
            failing,
            payloads,
        }
    }
}

prop_compose! {
    fn any_set()(size in count())(
        size in Just(size),
        overdue in prop_oneof![2 => Just(0_u64), 1 => 0..=size],
        overdue_by in time(),
        overdue_moves in any::<bool>(),
        overdue_fewer_per_second in rate(0.0..50.0),
        died_lately in 0..=size.min(1_000),
        flow in fact(any_flow(size)),
        sample in fact(any_sample()),
        far in prop_oneof![3 => Just(0_u64), 1 => 0..=size],
    ) -> JobSet {
        let far_ahead = FarAhead { jobs: far, as_millis: far / 2, after_unix_seconds: 2_000_000_000 };
        JobSet { size, overdue, overdue_by, overdue_moves, overdue_fewer_per_second, died_lately, far_ahead, flow, sample }
    }
}

prop_compose! {
    fn any_queue(name: &'static str)(length in count())(
        length in Just(length),
        in_hand in 0..30u64,
        lately in option::of((0..20u32, rate(0.0..10.0), rate(0.0..10.0))),
        latency in time(),
        flow in fact(any_flow(length)),
        sample in fact(any_sample()),
        flags in vec(proptest::bool::weighted(0.15), 4),
    ) -> ObservedQueue {
        let lately = lately.map(|(looks, in_hand, per_second)| RecentActivity { looks, in_hand, per_second });
        ObservedQueue {
            name: name.to_owned(),
            pushed: !flags[0],
            unlisted: flags[1],
            expires_in: flags[0].then(|| Duration::from_secs(30)),
            length,
            in_hand,
            lately,
            latency: if length == 0 { Duration::ZERO } else { latency },
            paused: flags[2],
            flow,
            flow_is_least: flags[3],
            sample,
        }
    }
}

prop_compose! {
    fn any_capsule(number: usize)(
        concurrency in prop_oneof![6 => 1..30u32, 1 => Just(0)],
        ordering in select(&[Ordering::Strict, Ordering::Random, Ordering::Weighted, Ordering::Unknown][..]),
        names in subsequence(&QUEUES[..], 1..=QUEUES.len()).prop_shuffle(),
        weights in vec(0..9u32, QUEUES.len()),
    ) -> Capsule {
        let queues = names.into_iter().zip(weights).map(|(name, weight)| WeightedQueue { name: name.to_owned(), weight });
        let name = if number == 0 { "default".to_owned() } else { format!("capsule {number}") };
        Capsule { name, concurrency, ordering, queues: queues.collect() }
    }
}

fn any_job() -> impl Strategy<Value = JobInHand> {
    (select(&CLASSES[..]), select(&QUEUES[..]), time()).prop_map(|(class, queue, age)| JobInHand {
        class: class.to_owned(),
        queue: queue.to_owned(),
        age,
    })
}

prop_compose! {
    fn any_process(number: u32)(
        host in select(&["web", "0123456789ab", "-x", ""][..]),
        pid in prop_oneof![6 => 1..60_000u32, 1 => Just(0)],
        tag in option::weighted(0.3, select(&["shop", "blog"][..])),
        (busy, in_hand) in (0..30u64, vec(any_job(), 0..12)),
        (quiet, quiet_for, running_for) in (proptest::bool::weighted(0.2), time(), option::of(time())),
        beat_age in (0..60_000u64).prop_map(Duration::from_millis),
        presence in select(&[ProcessPresence::Seen, ProcessPresence::Seen, ProcessPresence::Presumed, ProcessPresence::Silent, ProcessPresence::Gone][..]),
        place in select(&[ProcessPlace::Elsewhere, ProcessPlace::Here, ProcessPlace::Unconfirmed][..]),
        clock_ahead_seconds in prop_oneof![4 => Just(0.0), 1 => -1e5..1e5],
        (first, second) in (any_capsule(0), option::weighted(0.2, any_capsule(1))),
        cores_used in fact(rate(0.0..1.1)),
        round_trip in option::of((0..400_000u64).prop_map(Duration::from_micros)),
        (rss, growth) in (option::of(0..9_000u64), option::of((0..900u64, time()))),
    ) -> JobProcess {
        JobProcess {
            identity: format!("{host}:{pid}:{number:012x}"),
            hostname: host.to_owned(),
            pid,
            tag: tag.map(str::to_owned),
            busy,
            in_hand,
            quiet,
            quiet_for: if quiet { quiet_for } else { Duration::ZERO },
            running_for,
            beat_age,
            presence,
            place,
            clock_ahead_seconds,
            capsules: std::iter::once(first).chain(second).collect(),
            cores_used,
            round_trip,
            rss_bytes: rss.map(|mib| mib << 20),
            growth: growth.map(|(mib, over)| MemoryGrowth { bytes: mib << 20, over }),
        }
    }
}

fn any_days() -> impl Strategy<Value = Vec<DayCounts>> {
    vec((time(), count(), count()), 0..8).prop_map(|all| {
        let day = |(back, (passed, processed, failed)): (usize, (Duration, u64, u64))| DayCounts {
            date: format!("2026-11-{:02}", 30 - back),
            passed: if back == 0 { passed } else { Duration::from_secs(86_400) },
            processed,
            failed,
        };
        all.into_iter().enumerate().map(day).collect()
    })
}

fn any_runs() -> impl Strategy<Value = BTreeMap<String, RunCounts>> {
    let runs = (count(), count(), time()).prop_map(|(processed, failed, took)| RunCounts {
        processed,
        failed: processed.min(failed),
        took,
    });
    vec(runs, CLASSES.len())
        .prop_map(|all| CLASSES.iter().map(|it| (*it).to_owned()).zip(all).collect())
}

fn any_classes() -> impl Strategy<Value = ClassHistory> {
    (any_runs(), any_runs()).prop_map(|(recent, earlier)| ClassHistory {
        period: Duration::from_secs(600),
        earlier_ended_before: Duration::from_secs(4_200),
        recent,
        earlier,
    })
}

fn any_past() -> impl Strategy<Value = Vec<PastSample>> {
    let sample =
        (time(), time(), option::of(rate(0.0..80.0)), option::of(share()), option::of(time()));
    vec(sample, 0..6).prop_map(|all| {
        let sample = |(before, latency, processed_per_second, failed_share, round_trip)| {
            PastSample { before, latency, processed_per_second, failed_share, round_trip }
        };
        all.into_iter().map(sample).collect()
    })
}

prop_compose! {
    pub(super) fn any_jobs()(
        queues in QUEUES.map(|name| any_queue(name).boxed()),
        there in vec(proptest::bool::weighted(0.7), QUEUES.len()),
        processes in [1, 2, 3].map(|number| any_process(number).boxed()),
        running in 0..=3usize,
        has_more_processes in proptest::bool::weighted(0.1),
        ghosts in 0..6usize,
        sets in [(); 3].map(|()| any_set().boxed()),
        (processed, failed) in (fact(count()), fact(count())),
        processed_per_second in fact(rate(0.0..80.0)),
        failed_share in fact(share()),
        (days, classes, past) in (fact(any_days()), fact(any_classes()), any_past()),
    ) -> SidekiqObservation {
        let [scheduled, retries, dead] = sets;
        let queues = queues.into_iter().zip(there).filter(|(_, there)| *there).map(|(queue, _)| queue);
        let ghosts: Vec<String> = (0..ghosts).map(|it| format!("gone:{it}:x")).collect();
        SidekiqObservation {
            queues: queues.collect(),
            processes: processes.into_iter().take(running).collect(),
            has_more_processes,
            running_ghosts: ghosts.iter().take(1).cloned().collect(),
            unlisted: ghosts.iter().skip(2).map(|_| 4_711).collect(),
            ghosts,
            scheduled,
            retries,
            dead,
            processed,
            failed,
            processed_per_second,
            failed_share,
            days,
            classes,
            past,
            unread: Vec::new(),
        }
    }
}

pub(super) fn any_goodput() -> impl Strategy<Value = Vec<Throughput>> {
    let level = (1..60u32, rate(0.0..90.0), rate(0.0..5.0));
    (0..60u32, vec(level, 0..4)).prop_map(|(threads_now, levels)| {
        let level =
            |(threads, jobs_per_second, deviation)| Goodput { threads, jobs_per_second, deviation };
        vec![Throughput {
            of: "Sidekiq".to_owned(),
            threads_now,
            place: "the command lines of Sidekiq's processes".to_owned(),
            levels: levels.into_iter().map(level).collect(),
        }]
    })
}

pub(super) fn any_requests() -> impl Strategy<Value = Vec<RequestPath>> {
    let busy = (0..200u32, 0..60u32, option::of(0..60u32));
    (time(), time(), time(), 0..50u32, busy).prop_map(
        |(inside, waiting, outside, workers, (slots, busy_peak, busy_peak_of_day))| {
            let app = "shop".to_owned();
            vec![RequestPath {
                app,
                inside,
                waiting,
                outside,
                workers,
                slots,
                busy_peak,
                busy_peak_of_day,
            }]
        },
    )
}

pub(super) fn any_own_findings() -> impl Strategy<Value = Vec<VerdictFinding>> {
    select(Severity::ALL.to_vec()).prop_map(|severity| {
        let late = Finding::new("queue-late", severity, "queue mail", "Queue mail is late");
        vec![VerdictFinding::new(late, "Add workers.", "/queues/mail")]
    })
}

#[test]
fn the_fact_of_a_queue_is_of_its_length() {
    proptest!(|(queue in any_queue("push"))| {
        if let Fact::Known(flow) = queue.flow {
            prop_assert_eq!(flow.after, queue.length);
        }
    });
}
