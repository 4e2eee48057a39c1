//! Jobs under a limit over power cuts: a reservation counts until ACK, FAIL or the end of its lease.

use std::time::Duration;

use tokio::task::LocalSet;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::engine::EmbeddedStore;
use weir_jobs::job::JobBatch;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::model::{FailureReport, QueueName, Wid, WorkerEnd};
use weir_jobs::settings::{JobServerLimits, JobServerSettings, QueueSettings, ResourceSettings};
use weir_jobs::store::{BatchSize, FetchRequest, QueueAction, Store, StoreError};
use weir_log::SimulatedDisk;

/// Which sectors a power cut keeps depends on the seed of the disk.
const SEEDS: u64 = 24;
/// The default of `reserve_for`, in seconds.
const LEASE: Duration = Duration::from_secs(1_800);

struct Limited {
    disk: SimulatedDisk,
    clock: Clock,
    store: EmbeddedStore<SimulatedDisk>,
}

fn queue(name: &str) -> QueueName {
    QueueName::parse(name, &JobServerLimits::default()).unwrap()
}

fn wid() -> Wid {
    Wid::new("w1")
}

impl Limited {
    /// A store whose queue `one` runs one job at once, `pair` two, and `eight` eight.
    fn open(disk: SimulatedDisk, clock: Clock) -> Self {
        Self::open_with(disk, clock, &[("one", 1), ("pair", 2), ("eight", 8)])
    }

    /// A store with these limits of queues.
    fn open_with(disk: SimulatedDisk, clock: Clock, queues: &[(&str, u32)]) -> Self {
        let limits = JobServerLimits {
            segment_bytes: 64 << 10,
            reserve_bytes: 16 << 10,
            ..JobServerLimits::default()
        };
        let mut settings = JobServerSettings { limits, ..JobServerSettings::default() };
        for (name, most) in queues {
            let rules = QueueSettings { concurrency: Some(*most), ..QueueSettings::default() };
            settings.queues.insert(queue(name), rules);
        }
        // Only jobs of these queues use it.
        let shared = ResourceSettings {
            concurrency: Some(1),
            queues: vec!["shared".to_owned(), "shared-too".to_owned()],
            ..ResourceSettings::default()
        };
        settings.resources.insert("resource".to_owned(), shared);
        let metrics = JobsMetrics::detached();
        let store = EmbeddedStore::open_on(disk.clone(), &settings, clock.clone(), metrics);
        Self { disk, clock, store: store.expect("the log opens").0 }
    }

    fn new(seed: u64) -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        Self::open(SimulatedDisk::new(seed), clock)
    }

    /// Cuts the power, and opens the store again.
    fn restart(self) -> Self {
        let disk = self.disk.crash();
        Self::open(disk, self.clock.clone())
    }

    async fn push(&self, jid: &str, queue: &str, members: &str) {
        let json = format!(
            r#"{{"jid":"{jid}","jobtype":"T","args":["{jid}"],"queue":"{queue}"{members}}}"#
        );
        let mut batch = JobBatch::new();
        let now = self.clock.now();
        let job = batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).unwrap();
        self.store.push(&[job]).await.expect("stored");
    }

    async fn try_fetch(&self, names: &str) -> Result<Option<String>, StoreError> {
        self.fetch_within(names, Duration::ZERO).await
    }

    async fn fetch_within(
        &self,
        names: &str,
        wait: Duration,
    ) -> Result<Option<String>, StoreError> {
        let queues: Vec<QueueName> = names.split(' ').map(queue).collect();
        let wid = wid();
        let max = BatchSize::ONE;
        let request = FetchRequest { wid: Some(&wid), queues: &queues, max, wait };
        Ok(self.store.fetch(request).await?.pop().map(|delivery| delivery.jid.to_string()))
    }

    async fn fetch(&self, name: &str) -> Option<String> {
        self.try_fetch(name).await.expect("fetch works")
    }

    async fn reserved(&self) -> Vec<(String, Option<Wid>)> {
        let held = self.store.reservations(10).await.into_iter();
        held.map(|held| (held.jid.to_string(), held.wid)).collect()
    }
}

fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), test);
}

/// A store after a power cut, with `first-job` delivered to w1 before it, and `second-job` waiting.
async fn restarted(seed: u64) -> Limited {
    let limited = Limited::new(seed);
    limited.push("first-job", "one", "").await;
    limited.push("second-job", "one", "").await;
    assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
    let limited = limited.restart();
    assert_eq!(limited.reserved().await, [("first-job".to_owned(), Some(wid()))], "seed {seed}");
    assert_eq!(limited.fetch("one").await, None, "seed {seed}: the first may still run");
    limited
}

#[test]
fn a_job_under_a_limit_counts_after_a_power_cut_until_it_is_acknowledged() {
    for seed in 0..SEEDS {
        run(async {
            let limited = restarted(seed).await;
            assert_eq!(
                limited.store.ack_from(Some(&Wid::new("w2")), &["first-job"]).await.unwrap(),
                [0]
            );
            assert_eq!(limited.fetch("one").await, None, "another worker ends no job of w1");
            assert_eq!(limited.store.ack_from(Some(&wid()), &["first-job"]).await, Ok(vec![]));
            // An ACK is durable before the reply: it frees the slot for good.
            let limited = limited.restart();
            assert_eq!(limited.reserved().await, [], "seed {seed}");
            assert_eq!(limited.fetch("one").await.as_deref(), Some("second-job"));
        });
    }
}

#[test]
fn a_job_under_a_limit_counts_after_a_power_cut_until_it_fails() {
    for seed in 0..SEEDS {
        run(async {
            let limited = restarted(seed).await;
            let report = FailureReport { jid: "first-job".into(), ..FailureReport::default() };
            limited.store.fail_from(Some(&wid()), vec![report]).await[0].as_ref().expect("failed");
            let limited = limited.restart();
            assert_eq!(limited.reserved().await, [], "seed {seed}");
            assert_eq!(limited.fetch("one").await.as_deref(), Some("second-job"));
            assert_eq!(limited.store.counts().await.retries, 1);
        });
    }
}

#[test]
fn a_job_under_a_limit_counts_after_a_power_cut_until_its_lease_ends() {
    for seed in 0..SEEDS {
        run(async {
            let limited = restarted(seed).await;
            limited.clock.advance(LEASE - Duration::from_secs(1));
            limited.store.tick().await.expect("ticks");
            assert_eq!(limited.fetch("one").await, None);
            let until = limited.clock.now() + Duration::from_secs(3_600);
            assert_eq!(limited.store.extend("first-job", until).await, Ok(true));
            let limited = limited.restart();
            limited.clock.advance(Duration::from_secs(3_599));
            limited.store.tick().await.expect("ticks");
            assert_eq!(limited.fetch("one").await, None, "seed {seed}: the lease was extended");
            limited.clock.advance(Duration::from_secs(1));
            limited.store.tick().await.expect("ticks");
            assert_eq!(limited.fetch("one").await.as_deref(), Some("second-job"));
        });
    }
}

#[test]
fn the_job_of_a_worker_that_was_given_up_waits_also_after_a_power_cut() {
    for seed in 0..SEEDS {
        run(async {
            let limited = restarted(seed).await;
            assert_eq!(limited.store.release(&wid(), WorkerEnd::Killed).await, Ok(1));
            let limited = limited.restart();
            assert_eq!(limited.reserved().await, [], "seed {seed}");
            assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
        });
    }
}

#[test]
fn a_unique_job_is_not_handed_out_twice_over_a_power_cut() {
    for seed in 0..SEEDS {
        run(async {
            let limited = Limited::new(seed);
            limited.push("unique-job", "many", r#","custom":{"unique_for":7200}"#).await;
            limited
                .push(
                    "at-start",
                    "many",
                    r#","custom":{"unique_for":7200,"unique_until":"start"},"retry":3"#,
                )
                .await;
            limited.push("plain-job", "many", "").await;
            for jid in ["unique-job", "at-start", "plain-job"] {
                assert_eq!(limited.fetch("many").await.as_deref(), Some(jid));
            }
            let limited = limited.restart();
            // The lock of the second one ended when it started.
            assert_eq!(limited.fetch("many").await.as_deref(), Some("at-start"));
            assert_eq!(limited.fetch("many").await.as_deref(), Some("plain-job"));
            assert_eq!(limited.fetch("many").await, None, "seed {seed}");
            assert_eq!(limited.store.ack(&["unique-job"]).await, Ok(vec![]));
            assert_eq!(limited.store.counts().await.unique_locks, 0);
        });
    }
}

#[test]
fn a_fetch_that_the_client_gives_up_leaves_its_job_in_the_queue() {
    run(async {
        let limited = Limited::new(1);
        limited.push("first-job", "one", "").await;
        let (queues, wid) = ([queue("one")], wid());
        let request = FetchRequest {
            wid: Some(&wid),
            queues: &queues,
            max: BatchSize::ONE,
            wait: Duration::ZERO,
        };
        let mut fetch = Box::pin(limited.store.fetch(request));
        let first = std::future::poll_fn(|context| {
            std::task::Poll::Ready(fetch.as_mut().poll(context).is_pending())
        });
        assert!(first.await, "the job is delivered once its reservation is durable");
        assert_eq!(limited.reserved().await.len(), 1);
        drop(fetch);
        assert_eq!(limited.reserved().await, []);
        assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
    });
}

#[test]
fn a_job_under_a_limit_is_not_handed_out_if_its_reservation_cannot_be_synced() {
    run(async {
        let limited = Limited::new(1);
        limited.push("first-job", "one", "").await;
        limited.disk.fail_sync_after(0);
        let fetched = limited.try_fetch("one").await;
        assert!(matches!(fetched, Err(StoreError::Failed(_))), "{fetched:?}");
        assert_eq!(limited.reserved().await, []);
    });
}

/// Runs a future until it waits.
async fn begin<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
    })
    .await
}

/// Longer than any wait of a test that succeeds.
const WAIT: Duration = Duration::from_secs(20);

#[test]
fn a_full_disk_keeps_only_jobs_under_a_limit_from_workers() {
    run(async {
        let limited = Limited::new(1);
        for (jid, queue) in [("first-job", "pair"), ("second-job", "pair"), ("plain-job", "many")] {
            limited.push(jid, queue, "").await;
        }
        assert_eq!(limited.fetch("pair").await.as_deref(), Some("first-job"));
        limited.disk.set_space(Some(limited.disk.used_bytes()));
        let mut until = limited.clock.now() + LEASE;
        let full = loop {
            until = until + Duration::from_secs(1);
            match limited.store.extend("first-job", until).await {
                Ok(extended) => assert!(extended),
                Err(error) => break error,
            }
        };
        assert_eq!(full, StoreError::DiskFull);
        assert_eq!(limited.fetch("pair many").await.as_deref(), Some("plain-job"));
        // After a restart, no sync has found the disk full yet.
        let disk = limited.disk.kill();
        let limited = Limited::open(disk, limited.clock.clone());
        let mut waiting = Box::pin(limited.fetch_within("pair", WAIT));
        assert!(begin(&mut waiting).await);
        limited.disk.set_space(None);
        assert_eq!(waiting.await.expect("fetch works").as_deref(), Some("second-job"));
    });
}

#[test]
fn a_failed_log_keeps_only_jobs_under_a_limit_from_workers() {
    run(async {
        let limited = Limited::new(1);
        for (jid, queue) in [("first-job", "one"), ("plain-job", "many")] {
            limited.push(jid, queue, "").await;
        }
        limited.disk.fail_sync_after(0);
        assert!(limited.try_fetch("one").await.is_err());
        assert_eq!(limited.fetch("one many").await.as_deref(), Some("plain-job"));
        let failed = limited.fetch_within("one many", WAIT).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
    });
}

#[test]
fn a_job_whose_reservation_ends_before_it_is_durable_is_not_delivered() {
    run(async {
        let limited = Limited::new(1);
        limited.push("first-job", "one", "").await;
        let mut first = Box::pin(limited.try_fetch("one"));
        assert!(begin(&mut first).await);
        assert_eq!(limited.store.release(&wid(), WorkerEnd::Killed).await, Ok(1));
        assert_eq!(first.await, Ok(None));
        assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
    });
}

#[test]
fn a_fetch_that_is_given_up_after_a_flush_takes_back_no_later_job() {
    run(async {
        let limited = Limited::new(1);
        limited.push("first-job", "one", "").await;
        let mut first = Box::pin(limited.try_fetch("one"));
        assert!(begin(&mut first).await);
        limited.store.flush().await.expect("flushes");
        limited.push("first-job", "one", "").await;
        assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
        // It is another job of the same jid.
        drop(first);
        assert_eq!(limited.reserved().await.len(), 1);
    });
}

#[test]
fn a_waiting_fetch_gets_the_slot_of_a_job_that_cannot_be_read() {
    run(async {
        let limited = Limited::new(1);
        limited.push("first-job", "one", "").await;
        limited.push("second-job", "one", "").await;
        assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
        let mut waiting = Box::pin(limited.fetch_within("one", WAIT));
        assert!(begin(&mut waiting).await);
        limited.disk.fail_reads(Some(5));
        let report = FailureReport { jid: "first-job".into(), ..FailureReport::default() };
        let failed = limited.store.fail_from(Some(&wid()), vec![report]).await;
        limited.disk.fail_reads(None);
        assert!(matches!(failed[0], Err(StoreError::NotFound(_))), "{failed:?}");
        assert_eq!(waiting.await.expect("fetch works").as_deref(), Some("second-job"));
    });
}

#[test]
fn a_lease_that_ends_while_weir_is_down_fails_no_job() {
    for seed in 0..SEEDS {
        run(async {
            let limited = Limited::new(seed);
            limited.push("first-job", "one", r#","retry":0"#).await;
            assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
            limited.clock.advance(2 * LEASE);
            let limited = limited.restart();
            limited.store.tick().await.expect("ticks");
            assert_eq!(limited.reserved().await.len(), 1, "seed {seed}: its worker may return");
            limited.clock.advance(JobServerLimits::default().heartbeat_timeout);
            limited.store.tick().await.expect("ticks");
            // Its worker sent no heartbeat.
            assert_eq!(
                limited.store.release(&wid(), WorkerEnd::Killed).await,
                Ok(1),
                "seed {seed}"
            );
            assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
            limited.clock.advance(2 * LEASE);
            let limited = limited.restart();
            limited.store.tick().await.expect("ticks");
            assert_eq!(limited.store.ack_from(Some(&wid()), &["first-job"]).await, Ok(vec![]));
        });
    }
}

#[test]
fn a_lock_that_ends_at_the_start_is_free_while_the_job_runs_after_a_power_cut() {
    run(async {
        let limited = Limited::new(1);
        let members = r#","custom":{"unique_for":7200,"unique_until":"start"}"#;
        limited.push("first-job", "one", members).await;
        assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
        let limited = limited.restart();
        assert_eq!(limited.reserved().await.len(), 1);
        assert_eq!(limited.store.counts().await.unique_locks, 0);
    });
}

#[test]
fn a_fetch_that_the_client_gives_up_gives_back_the_lock_that_ended_at_the_start() {
    run(async {
        let limited = Limited::new(1);
        let members = r#","custom":{"unique_for":7200,"unique_until":"start"}"#;
        limited.push("first-job", "one", members).await;
        {
            let mut fetch = Box::pin(limited.fetch("one"));
            let is_pending = std::future::poll_fn(|context| {
                std::task::Poll::Ready(fetch.as_mut().poll(context).is_pending())
            });
            assert!(is_pending.await, "the job is delivered once its reservation is durable");
            assert_eq!(limited.store.counts().await.unique_locks, 0);
        }
        assert_eq!(limited.store.counts().await.unique_locks, 1);
    });
}

#[test]
fn a_running_job_is_tracked_as_working_after_a_power_cut() {
    run(async {
        let limited = Limited::new(1);
        limited.push("first-job", "one", r#","custom":{"track":1}"#).await;
        assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
        let limited = limited.restart();
        let track = limited.store.track("first-job").await.unwrap().expect("it is tracked");
        assert_eq!(track.state.as_str(), "working");
    });
}

#[test]
fn a_removed_queue_stays_removed_after_a_power_cut_while_its_last_job_runs() {
    run(async {
        let limited = Limited::new(1);
        limited.push("first-job", "one", "").await;
        assert_eq!(limited.fetch("one").await.as_deref(), Some("first-job"));
        limited.store.act_on_queues(&[queue("one")], QueueAction::Remove).await.expect("removed");
        assert!(limited.store.counts().await.queues.is_empty());
        let limited = limited.restart();
        assert_eq!(limited.reserved().await.len(), 1);
        assert!(limited.store.counts().await.queues.is_empty());
        assert_eq!(limited.store.ack_from(Some(&wid()), &["first-job"]).await, Ok(vec![]));
    });
}

/// Fetches all jobs of `eight` that may run now. Returns their numbers.
async fn fetch_all(store: &Limited) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(jid) = store.fetch("eight").await {
        numbers.push(jid.trim_start_matches("job-").parse().expect("a number"));
    }
    numbers
}

#[test]
fn few_jobs_under_a_limit_have_no_record_and_a_power_cut_presumes_that_they_run() {
    run(async {
        let mut store = Limited::new(1);
        for number in 0..20 {
            store.push(&format!("job-{number:04}"), "eight", "").await;
        }
        for _ in 0..3 {
            assert!(store.fetch("eight").await.is_some());
        }
        assert_eq!(store.store.counts().await.limits_lowered_until, None);
        store = store.restart();
        assert_eq!(fetch_all(&store).await, [0, 1, 3, 4, 5], "the third is reserved, two may run");
        let until = store.clock.now() + LEASE;
        assert_eq!(store.store.counts().await.limits_lowered_until, Some(until));
        let in_force = |store: &Limited| store.store.limit_states(0).concurrency(&queue("eight"));
        assert_eq!(in_force(&store), Some(6));
        store.clock.advance(LEASE);
        store.store.tick().await.expect("a tick");
        assert_eq!(store.store.counts().await.limits_lowered_until, None);
        assert_eq!(in_force(&store), Some(8));
        assert_eq!(fetch_all(&store).await.len(), 8, "those leases have ended");
    });
}

#[test]
fn a_closed_store_knows_all_jobs_under_limits_and_presumes_none() {
    run(async {
        let mut store = Limited::new(1);
        for number in 0..20 {
            store.push(&format!("job-{number:04}"), "eight", "").await;
        }
        for _ in 0..2 {
            assert!(store.fetch("eight").await.is_some());
        }
        store.store.close().await.expect("closed");
        store = store.restart();
        assert_eq!(fetch_all(&store).await, [2, 3, 4, 5, 6, 7], "two run");
        // What follows is no end of a closed store.
        store = store.restart();
        assert_eq!(fetch_all(&store).await.len(), 0, "eight run");
    });
}

#[test]
fn a_crash_right_after_a_restart_presumes_the_jobs_of_that_time() {
    run(async {
        let mut store = Limited::new(1);
        for number in 0..20 {
            store.push(&format!("job-{number:04}"), "eight", "").await;
        }
        store.store.close().await.expect("closed");
        store = store.restart();
        assert!(store.fetch("eight").await.is_some());
        assert!(store.fetch("eight").await.is_some());
        store = store.restart();
        assert_eq!(fetch_all(&store).await.len(), 5, "one is reserved, two may run");
    });
}

#[test]
fn a_lease_that_is_extended_for_long_is_in_the_log() {
    run(async {
        let mut store = Limited::new(1);
        store.push("job-0001", "eight", "").await;
        assert!(store.fetch("eight").await.is_some());
        let until = store.clock.now() + 2 * LEASE;
        assert_eq!(store.store.extend("job-0001", until).await, Ok(true));
        store = store.restart();
        assert_eq!(store.fetch("eight").await, None, "it is reserved");
    });
}

#[test]
fn jobs_that_start_while_others_are_presumed_have_a_record() {
    run(async {
        let mut store = Limited::new(1);
        for number in 0..20 {
            store.push(&format!("job-{number:04}"), "eight", "").await;
        }
        for _ in 0..2 {
            for _ in 0..2 {
                assert!(store.fetch("eight").await.is_some());
            }
            store = store.restart();
        }
        assert_eq!(fetch_all(&store).await, [2, 3, 4, 5], "two are reserved, and two may run");
    });
}

#[test]
fn a_limit_that_is_set_together_with_a_restart_counts_the_jobs_in_progress() {
    run(async {
        let store = Limited::new(1);
        for number in 0..20 {
            store.push(&format!("job-{number:04}"), "many", "").await;
        }
        store.push("other-job", "others", "").await;
        for _ in 0..9 {
            assert!(store.fetch("many").await.is_some());
        }
        assert!(store.fetch("others").await.is_some());
        store.store.close().await.expect("closed");
        let limits = [("many", 10)];
        let store = Limited::open_with(store.disk.crash(), store.clock.clone(), &limits);
        assert_eq!(store.store.reservations(20).await.len(), 9);
        assert_eq!(store.fetch("many").await.as_deref(), Some("job-0009"));
        assert_eq!(store.fetch("many").await, None, "ten run");
        // A job of a queue without a limit waits again, also if its worker goes on and Weir is killed.
        assert_eq!(store.fetch("others").await.as_deref(), Some("other-job"));
        let store = Limited::open_with(store.disk.crash(), store.clock.clone(), &limits);
        assert_eq!(store.fetch("others").await.as_deref(), Some("other-job"));
        assert_eq!(store.store.reservations(20).await.len(), 11);
    });
}

#[test]
fn a_job_without_a_limit_keeps_the_features_that_it_had_before_a_restart() {
    run(async {
        let store = Limited::new(1);
        let members = r#","custom":{"unique_for":7200,"unique_until":"start"}"#;
        store.push("first-job", "many", members).await;
        assert!(store.fetch("many").await.is_some());
        store.store.close().await.expect("closed");
        let store = store.restart();
        assert_eq!(store.reserved().await, []);
        assert_eq!(store.store.counts().await.unique_locks, 1, "it waits");
    });
}

#[test]
fn a_restart_does_not_prolong_what_a_crash_presumes() {
    run(async {
        let mut store = Limited::new(1);
        for number in 0..20 {
            store.push(&format!("job-{number:04}"), "eight", "").await;
        }
        assert!(store.fetch("eight").await.is_some());
        store = store.restart();
        store.clock.advance(LEASE - Duration::from_secs(60));
        store.store.close().await.expect("closed");
        store = store.restart();
        assert_eq!(fetch_all(&store).await.len(), 6, "two may run");
        store.clock.advance(Duration::from_secs(60));
        store.store.tick().await.expect("a tick");
        assert_eq!(fetch_all(&store).await.len(), 2, "those leases have ended");
        store.store.close().await.expect("closed");
        store = store.restart();
        assert_eq!(store.store.reservations(20).await.len(), 8);
    });
}

#[test]
fn a_fetch_that_waits_for_a_resource_goes_on_when_limits_apply_in_full_again() {
    run(async {
        let store = Limited::new(1);
        store.push("older-job", "many", "").await;
        let store = store.restart();
        store.clock.advance(LEASE - Duration::from_secs(1));
        store.push("first-job", "shared", "").await;
        store.push("second-job", "shared-too", "").await;
        assert_eq!(store.fetch("shared").await.as_deref(), Some("first-job"));
        let mut waiting = Box::pin(store.fetch_within("shared-too", WAIT));
        assert!(begin(&mut waiting).await);
        store.clock.advance(Duration::from_secs(1));
        store.store.tick().await.expect("a tick");
        assert_eq!(store.store.ack(&["first-job"]).await, Ok(vec![]));
        assert_eq!(waiting.await.expect("fetch works").as_deref(), Some("second-job"));
    });
}
