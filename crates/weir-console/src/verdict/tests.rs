//! Each case: what is changed in a healthy server, and the lines that come of it.

use weir_base::drain::{DrainForecast, DrainRange};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::view;
use weir_realtime::view::{AppView, CoreView, HubOverview, HubTotals, LimitHit};

use super::*;
use crate::jobs::JobsTrend;
use crate::realtime::RealtimeTally;

struct Server {
    overview: view::JobServerOverview,
    queues: Vec<view::QueueView>,
    workers: Vec<view::JobWorkerView>,
    trend: JobsTrend,
    limits: JobServerLimits,
    realtime: Option<RealtimeSnapshot>,
}

fn recent(arriving: f64, processed: f64) -> view::RecentRates {
    view::RecentRates {
        pushed_per_second: arriving,
        arriving_per_second: arriving,
        processed_per_second: processed,
        ..view::RecentRates::default()
    }
}

/// Two queues, one worker, nothing late.
fn healthy() -> Server {
    let queue = |name: &str| view::QueueView {
        name: name.to_owned(),
        depth: 3,
        latency_seconds: 0.2,
        working: 1,
        pushed_per_second: 5.0,
        processed_per_second: 5.0,
        recent: recent(5.0, 5.0),
        ..view::QueueView::default()
    };
    let worker = view::JobWorkerView {
        wid: "w1".into(),
        hostname: "box".into(),
        pid: 7,
        last_beat_at: 995.0,
        busy: 2,
        queues: vec!["default".into(), "pull".into()],
        queues_total: 2,
        ..view::JobWorkerView::default()
    };
    let overview = view::JobServerOverview {
        now: 1_000.0,
        enqueued: 6,
        working: 2,
        queues: 2,
        workers: 1,
        pushed_total: 100,
        latency_seconds_max: 0.2,
        ..view::JobServerOverview::default()
    };
    Server {
        overview: view::JobServerOverview {
            log: view::StorageView { state: "ok".into(), ..view::StorageView::default() },
            ..overview
        },
        queues: vec![queue("default"), queue("pull")],
        workers: vec![worker],
        trend: JobsTrend { processed_per_second: 10.0, ..JobsTrend::default() },
        limits: JobServerLimits::default(),
        realtime: None,
    }
}

fn judged(change: impl FnOnce(&mut Server)) -> Verdict {
    let mut server = healthy();
    change(&mut server);
    let jobs = JobFacts {
        overview: &server.overview,
        queues: &server.queues,
        workers: &server.workers,
        trend: &server.trend,
        limits: &server.limits,
        jobs_url: "tcp://127.0.0.1:7419",
    };
    evaluate(&VerdictInput {
        jobs: Some(jobs),
        realtime: server.realtime.as_ref(),
        front: None,
        observed: None,
    })
}

#[track_caller]
fn check(expected: &[(Severity, &str)], change: impl FnOnce(&mut Server)) {
    let verdict = judged(change);
    let found: Vec<(Severity, &str)> = verdict
        .findings
        .iter()
        .map(|finding| (finding.finding.severity, finding.problem.as_str()))
        .collect();
    assert_eq!(found, expected);
}

#[track_caller]
fn check_calm(expected: &str, change: impl FnOnce(&mut Server)) {
    let verdict = judged(change);
    assert_eq!((verdict.headline.as_str(), verdict.findings.len()), (expected, 0));
}

/// Realtime with one core and one app, both half full.
fn calm_realtime() -> RealtimeSnapshot {
    let core = CoreView { events: 50, events_max: 100, bytes_max: 1_000, ..CoreView::default() };
    let app = AppView { id: "1".into(), connections: 5, connections_max: 10, ..AppView::default() };
    let totals = HubTotals { connections: 5, slow_clients: 2, ..HubTotals::default() };
    let overview =
        HubOverview { apps: vec![app], cores: vec![core], totals, ..HubOverview::default() };
    let tally = RealtimeTally::default();
    let (rates, mut trend) = (tally.rates(), tally.trend());
    trend.cores_busy_seconds = vec![None];
    RealtimeSnapshot { overview, switches_off: 0, rates, trend }
}

#[track_caller]
fn check_realtime(expected: &[(Severity, &str)], change: impl FnOnce(&mut RealtimeSnapshot)) {
    check(expected, |server| {
        let mut reading = calm_realtime();
        change(&mut reading);
        server.realtime = Some(reading);
    });
}

#[test]
fn absent_parts_produce_no_finding() {
    let alone = evaluate(&VerdictInput { jobs: None, realtime: None, front: None, observed: None });
    assert_eq!(alone.headline, "Only the console is served here");
    let mut realtime = calm_realtime();
    let well = evaluate(&VerdictInput {
        jobs: None,
        realtime: Some(&realtime),
        front: None,
        observed: None,
    });
    assert_eq!(well.headline, "Realtime is well: 5 connections");
    realtime.switches_off = 1;
    let switched_off = evaluate(&VerdictInput {
        jobs: None,
        realtime: Some(&realtime),
        front: None,
        observed: None,
    });
    assert_eq!(switched_off.findings.len(), 1);
}

fn hit(limit: &str, hits: u64) -> LimitHit {
    LimitHit { limit: limit.into(), hits }
}

#[test]
fn healthy_channels_produce_no_finding() {
    check_realtime(&[], |_| {});
    check_calm("Realtime is well: 5 connections", |server| {
        (server.queues, server.workers) = (Vec::new(), Vec::new());
        server.overview = view::JobServerOverview::default();
        server.realtime = Some(calm_realtime());
    });
}

#[test]
fn a_core_is_reported_before_and_while_it_rejects_events() {
    let busy = |reading: &mut RealtimeSnapshot| {
        reading.overview.cores[0].events = 90;
        reading.trend.cores_busy_seconds = vec![Some(12.0)];
    };
    let problem = "Core 0 has 90 events to deliver: its queue has been nearly full (90 %) for 12 s";
    check_realtime(&[(Severity::Warning, problem)], busy);
    let refused = || hit("realtime.limits.core_queue_events_max", 3);
    check_realtime(&[(Severity::Critical, problem)], |reading| {
        busy(reading);
        reading.trend.limits_hit = vec![refused()];
    });
    let over = "Events were rejected 3 times in the last ten minutes: a core was behind";
    check_realtime(&[(Severity::Warning, over)], |reading| {
        reading.trend.limits_hit = vec![refused()];
    });
}

#[test]
fn slow_clients_are_reported() {
    let dropped = "7 events dropped for slow clients in the last minute; 2 clients behind";
    check_realtime(&[(Severity::Warning, dropped)], |reading| reading.trend.dropped = 7);
    let closed = "1 slow client closed in the last ten minutes, to reconnect and recover";
    check_realtime(&[(Severity::Notice, closed)], |reading| reading.trend.closed_slow = 1);
}

#[test]
fn an_app_near_its_connection_limit_is_reported() {
    check_realtime(&[(Severity::Warning, "App 1 has 9 of at most 10 connections")], |reading| {
        reading.overview.apps[0].connections = 9;
    });
    let full = "App 1 has had all its 10 connections for 1 min 5 s";
    check_realtime(&[(Severity::Critical, full)], |reading| {
        reading.overview.apps[0].connections = 10;
        reading.trend.apps_full_seconds = vec![("1".into(), 65.0)];
        reading.trend.limits_hit = vec![hit("realtime.apps.connections_max", 4)];
    });
}

#[test]
fn failing_webhooks_become_critical() {
    for (seconds, severity, time) in
        [(5.0, Severity::Warning, "5.0 s"), (90.0, Severity::Critical, "1 min 30 s")]
    {
        let problem = format!(
            "Webhooks have failed for {time}: 3 of 4 attempts in the last minute, 1 event waiting"
        );
        check_realtime(&[(severity, &problem)], |reading| {
            reading.trend.webhooks_failing_seconds = Some(seconds);
            (reading.trend.webhook_failures, reading.trend.webhook_attempts) = (3, 4);
            reading.overview.webhooks.waiting = 1;
        });
    }
}

#[test]
fn reached_limits_of_realtime_are_explained() {
    let waited = "Subscriptions were delayed (2 times in the last ten minutes)";
    let other = "The limit realtime.limits.channels_max was reached 1 time in the last ten minutes";
    check_realtime(&[(Severity::Warning, other), (Severity::Notice, waited)], |reading| {
        reading.trend.limits_hit = vec![
            hit("realtime.limits.subscribes_per_second", 2),
            hit("realtime.limits.channels_max", 1),
        ];
    });
}

#[test]
fn active_switches_are_reported() {
    check_realtime(&[(Severity::Notice, "Events are switched off by 2 patterns")], |reading| {
        reading.switches_off = 2;
    });
}

#[test]
fn a_healthy_server_has_a_healthy_headline() {
    check_calm("No queue is behind: the highest latency is 200 ms", |_| {});
    check_calm("All queues within target", |server| {
        server.queues[0].target_latency_seconds = Some(5.0);
    });
    check_calm("All queues are empty", |server| {
        server.queues.clear();
        server.overview.enqueued = 0;
    });
    check_calm("Ready: no jobs yet", |server| {
        server.queues.clear();
        server.overview =
            view::JobServerOverview { now: 1_000.0, ..view::JobServerOverview::default() };
    });
}

/// 200,000 jobs wait in `pull`, and nothing moves there.
fn stuck(server: &mut Server) {
    let pull = &mut server.queues[1];
    (pull.depth, pull.latency_seconds) = (200_000, 50_400.0);
    (pull.working, pull.processed_per_second, pull.pushed_per_second) = (0, 0.0, 120.0);
    pull.recent = recent(120.0, 0.0);
}

/// The worker asks for these queues.
fn asking(server: &mut Server, queues: &[&str]) {
    server.workers[0].queues = queues.iter().map(ToString::to_string).collect();
    server.workers[0].queues_total = queues.len() as u64;
}

#[test]
fn a_queue_without_fetching_workers_is_reported() {
    let unserved = |server: &mut Server| {
        stuck(server);
        asking(server, &["default"]);
    };
    let line = "Queue pull is 200,000 jobs behind and grows by 120/s: no worker fetches it";
    check(&[(Severity::Critical, line)], unserved);
    check(&[(Severity::Critical, "Queue pull is 1 job behind: no worker fetches it")], |server| {
        unserved(server);
        (server.queues[1].depth, server.queues[1].pushed_per_second) = (1, 0.0);
    });
    check(&[], |server| {
        unserved(server);
        (server.queues[1].latency_seconds, server.queues[1].pushed_per_second) = (29.0, 0.0);
    });
    let left = "Queue pull is 200,000 jobs behind and grows by 120/s: the only worker that \
                fetches it is quiet or stopping";
    check(&[(Severity::Critical, left)], |server| {
        stuck(server);
        let mut other = server.workers[0].clone();
        (other.wid, other.queues) = ("w2".into(), vec!["default".into()]);
        server.workers[0].state = "quiet".into();
        server.workers.push(other);
        server.workers[1].queues_total = 1;
    });
}

#[test]
fn a_misspelt_queue_name_is_suggested() {
    let remedy = |queues: &[&str]| {
        let verdict = judged(|server| {
            stuck(server);
            asking(server, queues);
        });
        verdict.worst().expect("a finding").remedy.clone()
    };
    assert_eq!(
        remedy(&["default", "pulll"]),
        "Workers fetch pulll, which has no jobs: is one of the two names misspelt?"
    );
    assert!(
        remedy(&["default", "elsewhere"]).starts_with("Check that a running worker lists pull")
    );
}

#[test]
fn a_queue_that_workers_pass_over_is_reported() {
    let line = "Queue pull is 200,000 jobs behind and grows by 120/s: the only worker that fetches \
                it takes no jobs";
    check(&[(Severity::Critical, line)], stuck);
    check(
        &[(
            Severity::Warning,
            "Queue pull is 9 jobs behind: 2 workers fetch it and none takes jobs",
        )],
        |server| {
            stuck(server);
            let pull = &mut server.queues[1];
            (pull.depth, pull.latency_seconds, pull.pushed_per_second) = (9, 40.0, 0.0);
            server.workers.push(server.workers[0].clone());
        },
    );
    let unknown =
        "Queue pull is 200,000 jobs behind and grows by 120/s: no worker takes jobs from it";
    check(&[(Severity::Critical, unknown)], |server| {
        stuck(server);
        asking(server, &["default"]);
        // It asks for more than is known: it may well ask for this one.
        server.workers[0].queues_total = 65;
    });
}

#[test]
fn workers_that_are_all_stopping_are_reported() {
    let leaving = |server: &mut Server| {
        server.workers[0].state = "terminate".into();
        server.overview.latency_seconds_max = 31.0;
    };
    let line = "No worker takes jobs and 6 jobs wait: 1 worker is quiet or stopping";
    check(&[(Severity::Critical, line)], leaving);
    check(&[], |server| {
        leaving(server);
        server.overview.latency_seconds_max = 29.0;
    });
    check(&[], |server| {
        leaving(server);
        server.queues.iter_mut().for_each(|queue| queue.depth = 0);
    });
}

#[test]
fn jobs_without_any_worker_are_reported() {
    let alone = |server: &mut Server| {
        server.workers.clear();
        (server.overview.workers, server.overview.working) = (0, 0);
        server.trend.processed_per_second = 0.0;
        for queue in &mut server.queues {
            (queue.working, queue.processed_per_second, queue.latency_seconds) = (0, 0.0, 90.0);
        }
    };
    check(&[(Severity::Critical, "No worker is connected and 6 jobs wait")], alone);
    check(&[], |server| {
        alone(server);
        server.queues.iter_mut().for_each(|queue| queue.depth = 0);
    });
}

#[test]
fn queues_that_sidekiq_fetches_need_no_worker_of_weir() {
    let beside_sidekiq = |server: &mut Server| {
        server.workers.clear();
        (server.overview.workers, server.overview.working) = (0, 0);
        server.trend.processed_per_second = 0.0;
        server.overview.log.sidekiq_queues = vec!["default".into(), "pull".into()];
        for queue in &mut server.queues {
            (queue.working, queue.depth, queue.latency_seconds) = (0, 900, 90.0);
            (queue.pushed_per_second, queue.processed_per_second) = (1.0, 0.0);
        }
    };
    check(&[], beside_sidekiq);
    let late = "Queue pull has a latency of 10 min with 900 jobs; processes of Sidekiq fetch it";
    check(&[(Severity::Warning, late)], |server| {
        beside_sidekiq(server);
        server.queues[1].latency_seconds = 600.0;
    });
    check(&[(Severity::Critical, "No worker is connected and 900 jobs wait")], |server| {
        beside_sidekiq(server);
        server.overview.log.sidekiq_queues.pop();
    });
}

#[test]
fn a_growing_queue_is_reported() {
    let grows = |server: &mut Server| {
        let pull = &mut server.queues[1];
        (pull.depth, pull.pushed_per_second, pull.processed_per_second) = (7_000, 100.0, 40.0);
        pull.recent = recent(100.0, 40.0);
    };
    let line =
        "Queue pull is 7,000 jobs behind and grows by 60.0/s: 100/s arrive, 40.0/s are completed";
    check(&[(Severity::Warning, line)], grows);
    let idle = judged(|server| {
        grows(server);
        server.queues[1].processed_per_second = 0.0;
    });
    assert!(
        idle.worst().expect("a finding").remedy.starts_with("No job was completed within a minute")
    );
    check(&[(Severity::Critical, line)], |server| {
        grows(server);
        server.queues[1].target_latency_seconds = Some(10.0);
        server.queues[1].latency_seconds = 11.0;
    });
    check(&[], |server| {
        grows(server);
        server.queues[1].target_latency_seconds = Some(10.0);
    });
    check(&[], |server| {
        grows(server);
        server.queues[1].processed_per_second = 96.0;
    });
    check(&[], |server| {
        grows(server);
        // The flood of the last minute has ended.
        server.queues[1].recent = recent(20.0, 600.0);
    });
    let line =
        "Queue pull is 7,000 jobs behind and grows by 560/s: 600/s arrive, 40.0/s are completed";
    check(&[(Severity::Warning, line)], |server| {
        grows(server);
        // A flood has just begun: the minute's rates lag behind it.
        server.queues[1].recent = recent(600.0, 40.0);
    });
    let line =
        "Queue pull is 7,000 jobs behind and grows by 0.50/s: 0.50/s arrive, 0/s are completed";
    check(&[(Severity::Warning, line)], |server| {
        grows(server);
        // Too few jobs for rates of ten seconds.
        let pull = &mut server.queues[1];
        (pull.pushed_per_second, pull.processed_per_second) = (0.5, 0.0);
        pull.recent = recent(0.0, 0.1);
    });
    check(&[], |server| {
        grows(server);
        // All of it may be one burst of the last minute.
        server.queues[1].depth = 5_900;
    });
}

fn drains(expected_seconds: f64, shortest_seconds: f64, longest_seconds: f64) -> DrainForecast {
    DrainForecast::Drains(DrainRange { expected_seconds, shortest_seconds, longest_seconds })
}

/// Queue `pull` has a backlog that is late, and a fresh lane with so many jobs in time per second.
fn with_fresh_lane(server: &mut Server, in_time_per_second: f64) {
    let pull = &mut server.queues[1];
    (pull.depth, pull.latency_seconds, pull.fresh_lane) = (9_000, 55.0, true);
    (pull.target_latency_seconds, pull.drain) = (Some(10.0), drains(90.0, 80.0, 120.0));
    pull.recent = view::RecentRates {
        in_time_per_second: Some(in_time_per_second),
        in_time_wait_seconds: Some(0.014),
        ..recent(20.0, 120.0)
    };
}

#[test]
fn a_backlog_beside_new_jobs_in_time_is_a_notice() {
    let line = "New jobs of queue pull wait 14 ms (target 10 s); its backlog of 9,000 jobs is 55 s old, \
                drains in 1 min 30 s (1 min 20 s to 2 min) at the present rates";
    check(&[(Severity::Notice, line)], |server| with_fresh_lane(server, 20.0));
    check(&[(Severity::Notice, line)], |server| with_fresh_lane(server, 18.0));
    let grows = "New jobs of queue pull wait 14 ms (target 10 s); its backlog of 9,000 jobs is 55 s old \
                 and grows by 1.0/s";
    check(&[(Severity::Notice, grows)], |server| {
        with_fresh_lane(server, 20.0);
        let pull = &mut server.queues[1];
        (pull.pushed_per_second, pull.processed_per_second) = (20.0, 18.0);
        pull.recent.processed_per_second = 19.0;
    });
    let line = "Queue pull has a latency of 55 s (target 10 s) with 9,000 jobs, drains in 1 min 30 s \
                (1 min 20 s to 2 min) at the present rates; 50 % of its new jobs start in time, after 14 ms";
    check(&[(Severity::Warning, line)], |server| with_fresh_lane(server, 10.0));
    let line = "Queue pull has a latency of 55 s (target 10 s) with 9,000 jobs, drains in 1 min 30 s \
                (1 min 20 s to 2 min) at the present rates";
    check(&[(Severity::Warning, line)], |server| {
        with_fresh_lane(server, 20.0);
        server.queues[1].fresh_lane = false;
    });
    check(&[], |server| {
        with_fresh_lane(server, 20.0);
        server.queues[1].latency_seconds = 9.0;
    });
    let shrinks =
        "Queue pull has a latency of 55 s (target 10 s) with 9,000 jobs and has begun to shrink";
    check(&[(Severity::Warning, shrinks)], |server| {
        with_fresh_lane(server, 20.0);
        let pull = &mut server.queues[1];
        (pull.fresh_lane, pull.drain) = (false, DrainForecast::default());
    });
}

#[test]
fn a_late_queue_is_reported() {
    let late = |server: &mut Server| {
        let pull = &mut server.queues[1];
        (pull.depth, pull.latency_seconds) = (12_000, 754.0);
        (pull.processed_per_second, pull.drain) = (50.0, drains(267.0, 240.0, 300.0));
    };
    let line = "Queue pull has a latency of 12 min 34 s with 12,000 jobs, drains in 4 min 27 s (4 min to 5 min) at the present rates";
    check(&[(Severity::Warning, line)], late);
    let line = "Queue pull has a latency of 12 min 34 s (target 5.0 s) with 12,000 jobs and there is not enough data to tell when it is empty";
    check(&[(Severity::Warning, line)], |server| {
        late(server);
        server.queues[1].target_latency_seconds = Some(5.0);
        server.queues[1].drain = DrainForecast::default();
    });
    check(
        &[(
            Severity::Warning,
            "Queue pull has a latency of 12 min 34 s with 12,000 jobs and no job is completed",
        )],
        |server| {
            late(server);
            let pull = &mut server.queues[1];
            (pull.processed_per_second, pull.pushed_per_second) = (0.0, 0.0);
            pull.drain = DrainForecast::Stalled;
        },
    );
}

#[test]
fn a_paused_queue_is_reported_only_with_jobs() {
    let paused = |server: &mut Server| {
        let pull = &mut server.queues[1];
        (pull.paused, pull.depth, pull.latency_seconds, pull.working) = (true, 40, 9_000.0, 0);
    };
    check(&[(Severity::Warning, "Queue pull is paused with 40 jobs")], paused);
    check(&[], |server| {
        paused(server);
        server.queues[1].depth = 0;
    });
}

#[test]
fn storage_that_accepts_no_jobs_is_reported() {
    let lines = [
        ("low", "The disk is nearly full: new jobs are rejected, workers continue"),
        ("full", "The disk is full: nothing can be written"),
        ("failed", "Storage failed (EIO): nothing is acknowledged"),
        ("unavailable", "The job store can't be reached: EIO"),
    ];
    for (state, line) in lines {
        check(&[(Severity::Critical, line)], |server| {
            server.overview.log.state = state.into();
            server.overview.log.problem = Some("EIO".into());
        });
    }
    check(&[(Severity::Critical, "The job store is damaged: 1 place")], |server| {
        server.overview.log.damages = 1;
    });
    check(&[(Severity::Warning, "1 node of the job store stopped reporting")], |server| {
        let node = |state: &str| view::NodeView { state: state.to_owned(), ..Default::default() };
        server.overview.log.nodes = ["up", "away", "stopped"].map(node).to_vec();
    });
    check(&[(Severity::Notice, "Charts are kept in memory only: no space")], |server| {
        server.trend.history_problem = Some("no space".into());
    });
}

#[test]
fn failures_and_limits_are_reported() {
    let line = "Retries are rising: 400 jobs waiting for a retry, 300 more than ten minutes ago";
    check(&[(Severity::Warning, line)], |server| {
        (server.overview.retries, server.trend.retries_before) = (400, Some(100.0));
    });
    check(&[], |server| {
        (server.overview.retries, server.trend.retries_before) = (40, Some(1.0));
    });
    check(&[(Severity::Warning, "40 % of the jobs fail, 4.0/s")], |server| {
        server.trend.failed_per_second = 4.0;
    });
    check(
        &[(Severity::Warning, "The dead set holds 950,000 of at most 1,000,000 jobs")],
        |server| {
            server.overview.dead = 950_000;
        },
    );
    let hit = |limit: &str, hits| vec![view::LimitHit { limit: limit.into(), hits }];
    let line = "A worker stopped sending heartbeats (1 time in the last ten minutes)";
    check(&[(Severity::Notice, line)], |server| {
        server.trend.limits_hit = hit("heartbeat_timeout", 1);
    });
    let line = "The limit connections_max was reached 3 times in the last ten minutes";
    check(&[(Severity::Warning, line)], |server| {
        server.trend.limits_hit = hit("connections_max", 3);
    });
}

/// An app with one worker that serves.
fn calm_app() -> front::FrontApp {
    let worker = front::FrontWorker { state: "serving".into(), ..front::FrontWorker::default() };
    let workers = vec![worker];
    front::FrontApp {
        name: "shop".into(),
        processes: Some(1),
        workers,
        ..front::FrontApp::default()
    }
}

#[track_caller]
fn check_front(expected: &[(Severity, &str)], change: impl FnOnce(&mut front::FrontApp)) {
    let mut app = calm_app();
    change(&mut app);
    let reading = front::FrontSnapshot { apps: vec![app], ..front::FrontSnapshot::default() };
    let verdict = evaluate(&VerdictInput {
        jobs: None,
        realtime: None,
        front: Some(&reading),
        observed: None,
    });
    let found: Vec<(Severity, &str)> = verdict
        .findings
        .iter()
        .map(|finding| (finding.finding.severity, finding.problem.as_str()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn problems_of_apps_are_reported() {
    check_front(&[], |_| {});
    check_front(&[(Severity::Critical, "No worker serves shop: 3 requests wait")], |app| {
        app.workers[0].state = "unreachable".into();
        app.requests_waiting = 3;
    });
    check_front(&[], |app| app.workers[0].state = "starting".into());
    check_front(&[], |app| app.workers[0].state = "running".into());
    check_front(&[(Severity::Critical, "No worker of shop runs")], |app| {
        app.runs_jobs = true;
        app.workers[0].state = "waiting".into();
    });
    check_front(&[(Severity::Critical, "1 worker of shop can't be started")], |app| {
        app.workers
            .push(front::FrontWorker { state: "failed".into(), ..front::FrontWorker::default() });
    });
    let line = "The app shop is overloaded: 1 request waits, 0 requests rejected in a minute";
    check_front(&[(Severity::Warning, line)], |app| {
        app.is_overloaded = true;
        app.requests_waiting = 1;
    });
    check_front(&[(Severity::Warning, "shop is in maintenance: no requests are served")], |app| {
        app.is_in_maintenance = true;
    });
    let line = "shop sheds some requests: queue ingress, mailers is behind";
    check_front(&[(Severity::Warning, line)], |app| {
        app.shedding = vec!["ingress".into(), "mailers".into()];
    });
    let line = "shop sheds no requests: the latency of queue ingress is not known";
    check_front(&[(Severity::Warning, line)], |app| {
        app.shed_unknown = vec!["ingress".into()];
    });
    check_front(&[(Severity::Warning, "shop is paused: 0 requests wait")], |app| {
        app.is_paused = true;
        app.is_overloaded = true;
    });
}

#[test]
fn evictions_and_rejections_within_a_minute_are_reported() {
    let mut tally = front::FrontTally::default();
    let (before, mut app) = (calm_app(), calm_app());
    app.evictions = 2;
    app.totals.rejections = vec![weir_front::view::ReasonCount { reason: "queue_max", count: 5 }];
    let at = |second: u64| weir_base::clock::Timestamp::from_millis(second * 1_000);
    tally.add(at(1_000), &[before]);
    tally.add(at(1_001), std::slice::from_ref(&app));
    let reading = front::FrontSnapshot { apps: vec![app], minutes: tally.minutes() };
    let verdict = evaluate(&VerdictInput {
        jobs: None,
        realtime: None,
        front: Some(&reading),
        observed: None,
    });
    let found: Vec<&str> =
        verdict.findings.iter().map(|finding| finding.problem.as_str()).collect();
    let refused =
        "The app shop is overloaded: 0 requests wait, 5 requests rejected in a minute (queue full)";
    assert_eq!(found, [refused, "2 workers of shop were stuck and evicted in the last minute"]);
    let healthy_headline =
        front::FrontSnapshot { apps: vec![calm_app()], ..front::FrontSnapshot::default() };
    let verdict = evaluate(&VerdictInput {
        jobs: None,
        realtime: None,
        front: Some(&healthy_headline),
        observed: None,
    });
    assert_eq!(verdict.headline.as_str(), "The front is well: 1 worker");
}

/// The front's findings when an app rejected requests, by their levels, after so many seconds without more of them.
fn seconds_after_rejections(seconds: u64, waiting: usize) -> Vec<VerdictFinding> {
    let mut tally = front::FrontTally::default();
    let mut app = calm_app();
    let at = |second: u64| weir_base::clock::Timestamp::from_millis(second * 1_000);
    tally.add(at(1_000), std::slice::from_ref(&app));
    app.totals.rejections =
        vec![weir_front::view::ReasonCount { reason: "queue_max", count: 8_901 }];
    (0..=seconds).for_each(|second| tally.add(at(1_001 + second), std::slice::from_ref(&app)));
    app.requests_waiting = waiting;
    let reading = front::FrontSnapshot { apps: vec![app], minutes: tally.minutes() };
    front_rules::app_is_overloaded(&reading)
}

#[test]
fn a_past_overload_is_a_notice_in_the_past_tense() {
    let found = |seconds| {
        let found = seconds_after_rejections(seconds, 0).pop();
        found.map(|finding| (finding.finding.severity, finding.problem))
    };
    let now = "The app shop is overloaded: 0 requests wait, 8,901 requests rejected in a minute (queue full)";
    assert_eq!(found(9), Some((Severity::Critical, now.to_owned())));
    let past = "The app shop was overloaded until 40 s ago: 8,901 requests rejected in a minute (queue full)";
    assert_eq!(found(40), Some((Severity::Notice, past.to_owned())));
    assert_eq!(found(70), None);
}

#[test]
fn rejected_requests_precede_one_job_without_a_worker() {
    let overload = seconds_after_rejections(0, 200).remove(0);
    assert_eq!(overload.jobs, 9_101);
    let one_job = judged(|server| {
        stuck(server);
        asking(server, &["default"]);
        (server.queues[1].depth, server.queues[1].pushed_per_second) = (1, 0.0);
    });
    let one_job = one_job.worst().expect("a finding");
    assert_eq!((one_job.finding.severity, one_job.jobs), (overload.finding.severity, 1));
}

#[test]
fn a_lost_worker_is_not_reported_as_a_limit() {
    let rule = |limit: &str| {
        let verdict = judged(|server| {
            let hit = view::LimitHit { limit: limit.into(), hits: 1 };
            server.trend.limits_hit = vec![hit];
        });
        verdict.findings.into_iter().next().map(|found| found.finding.rule)
    };
    assert_eq!(rule(JobServerLimits::HEARTBEAT_TIMEOUT.name), Some("worker-lost".into()));
    assert_eq!(rule(JobServerLimits::RETURNS_MAX.name), Some("job-crashes-worker".into()));
    assert_eq!(rule("connections_max"), Some("job-limit".into()));
}

#[test]
fn a_silent_worker_with_jobs_in_progress_is_reported() {
    let line = "Worker w1 on box has sent no heartbeat for 40 s with 2 jobs in progress";
    check(&[(Severity::Warning, line)], |server| server.workers[0].last_beat_at = 960.0);
    check(&[], |server| {
        (server.workers[0].last_beat_at, server.workers[0].busy) = (960.0, 0);
    });
}

#[test]
fn findings_are_ordered_by_severity_and_notices_do_not_change_the_verdict() {
    let verdict = judged(|server| {
        server.queues[0].paused = true;
        server.queues[1].paused = true;
        server.queues[1].depth = 99;
        server.overview.log.state = "full".into();
        server.trend.history_problem = Some("no space".into());
    });
    assert_eq!(verdict.headline.as_str(), "The disk is full: nothing can be written");
    let levels: Vec<u64> = verdict.others().iter().map(|finding| finding.jobs).collect();
    assert_eq!(levels, [99, 3, 0]);
    let verdict = judged(|server| server.trend.history_problem = Some("no space".into()));
    assert_eq!((verdict.severity, verdict.others().len()), (None, 1));
}
