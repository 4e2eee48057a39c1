//! An autopilot of a system that has nothing to limit but threads, by replacing processes.

use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use super::*;
use crate::journal::{EntryKind, JournalEntry};
use crate::lease::LeaseReply;
use crate::load::{ClassFigures, DatabaseActivity, JobsLoad, QueueFigures, SessionFigures};
use crate::mode::ManagedSystem;
use crate::sources::{CarriedLimits, ChangeProgress};
use crate::thread_groups::{ThreadGroup, split};
use crate::view::{ModeChange, OverrideChange};

/// How long it takes to replace the processes.
const CHANGE_SECONDS: u64 = 60;
/// How often a sample is new.
const SAMPLE_SECONDS: u64 = 10;
/// Jobs that run side by side; each further one hinders all.
const SIDE_BY_SIDE: f64 = 4.0;

/// Two processes with 10 threads each.
#[derive(Debug, Default)]
struct World {
    is_flooded: bool,
    /// Sessions that wait for a lock of the jobs.
    waits: u32,
    ended: f64,
    limits: CarriedLimits,
    changed_at: Option<Instant>,
    sampled_at: Option<Instant>,
    /// Threads that the processes have.
    threads: Option<u32>,
    failure: Option<String>,
    is_set_by_hand: bool,
    /// Whether types can be limited.
    moves_jobs: bool,
    /// Nothing is known of the jobs, and no process that starts is ready.
    is_away: bool,
}

impl World {
    fn groups(&self) -> Vec<ThreadGroup> {
        let threads_now = self.limits.threads.map_or(10, |it| split(&[group(10)], it)[0]);
        if self.is_set_by_hand { Vec::new() } else { vec![group(threads_now)] }
    }

    fn settle(&mut self) {
        if self.is_away {
            return;
        }
        let since = self.changed_at.map(|at| at.elapsed().as_secs());
        if since.is_none_or(|since| since >= CHANGE_SECONDS) {
            self.changed_at = None;
            self.threads = Some(self.groups().iter().map(|it| it.processes * it.threads_now).sum());
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some thousand jobs"
    )]
    fn ended_total(&self) -> u64 {
        self.ended as u64
    }

    fn busy(&self) -> u32 {
        if self.is_flooded { self.threads.unwrap_or(20) } else { 2 }
    }

    fn load(&mut self) -> Option<JobsLoad> {
        self.settle();
        let elapsed = self.sampled_at.map_or(SAMPLE_SECONDS, |at| at.elapsed().as_secs());
        if elapsed < SAMPLE_SECONDS {
            return None;
        }
        self.sampled_at = Some(Instant::now());
        let busy = f64::from(self.busy());
        let slowdown = (busy / SIDE_BY_SIDE).max(1.0).powi(2);
        self.ended += busy / 0.1 / slowdown * elapsed as f64;
        let waiting = if self.is_flooded { 5_000 } else { 0 };
        let queue = QueueFigures {
            name: "q".to_owned(),
            waiting,
            oldest_age_seconds: waiting as f64,
            ..QueueFigures::default()
        };
        let class = ClassFigures {
            name: "Job".to_owned(),
            queue: "q".to_owned(),
            in_flight: self.busy(),
            ended_total: self.ended_total(),
            run_seconds_total: self.ended * 0.1,
        };
        Some(JobsLoad {
            queues: vec![queue],
            classes: vec![class],
            busy: self.busy(),
            groups: self.groups(),
            ..JobsLoad::default()
        })
    }
}

fn group(threads_now: u32) -> ThreadGroup {
    ThreadGroup {
        name: "workers.a".to_owned(),
        command: "weir workers set a --threads".to_owned(),
        processes: 2,
        threads: 10,
        threads_now,
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<World>>);

impl Shared {
    fn with<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }
}

impl JobSource for Shared {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<JobsLoad>, String>> {
        let load = self.with(|world| match world.is_away {
            true => Err("is away".to_owned()),
            false => Ok(world.load()),
        });
        Box::pin(async { load })
    }
}

impl DatabaseSource for Shared {
    fn activity(&mut self) -> BoxFuture<'_, Result<DatabaseActivity, String>> {
        let (busy, waits) = self.with(|world| (world.busy(), world.waits));
        let session = |pid: u32| SessionFigures {
            pid,
            comment: Some("Job".to_owned()),
            is_waiting: pid > busy,
            blocked_by: if pid > busy { vec![1] } else { Vec::new() },
            ..SessionFigures::default()
        };
        let sessions = (1..=busy + waits).map(session).collect();
        let activity = DatabaseActivity { sessions, connections: 20, connections_max: 100 };
        Box::pin(async { Ok(activity) })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Actuator for Shared {
    fn apply<'a>(
        &'a mut self,
        limits: &'a CarriedLimits,
        _: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.with(|world| {
            if world.limits.threads != limits.threads {
                world.changed_at = Some(Instant::now());
            }
            world.limits = limits.clone();
        });
        Box::pin(async { Ok(()) })
    }

    fn can_limit(&mut self, class: &str, _: bool) -> Result<(), String> {
        self.with(|world| match world.limits.classes.keys().find(|it| *it != class) {
            Some(other) => Err(format!("{other} is limited")),
            None if world.moves_jobs => Ok(()),
            None => Err("autopilot.move_jobs is off".to_owned()),
        })
    }

    fn describe_limit(&self, class: &str, queue: &str, jobs: Option<u32>) -> Option<String> {
        let jobs = jobs.map_or("moved back".to_owned(), |jobs| format!("{jobs} threads"));
        Some(format!("{class} of {queue}: {jobs}"))
    }

    fn progress(&mut self) -> ChangeProgress {
        self.with(|world| {
            world.settle();
            match (&world.failure, world.changed_at) {
                (Some(failure), _) => ChangeProgress::Failed(failure.clone()),
                (None, Some(_)) => ChangeProgress::UnderWay,
                (None, None) => ChangeProgress::Done,
            }
        })
    }
}

impl LeaseStore for Shared {
    fn name(&self) -> String {
        "Redis a:1".to_owned()
    }

    fn take<'a>(&'a mut self, _: &'a LeaseClaim) -> BoxFuture<'a, Result<LeaseReply, String>> {
        Box::pin(async { Ok(LeaseReply::Held) })
    }

    fn release<'a>(&'a mut self, _: &'a LeaseClaim) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// Runs `test` beside an autopilot, in a time that passes at once.
fn fly(world: &Shared, directory: &Path, mode: Mode, test: impl AsyncFnOnce(&AutopilotHandle)) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut settings = AutopilotSettings {
            mode,
            manage: vec![ManagedSystem::Workers("a".to_owned())],
            ..AutopilotSettings::default()
        };
        settings.limits.lease = Duration::from_secs(4);
        let (autopilot, handle) = Autopilot::open(AutopilotParts {
            settings,
            directory: directory.to_owned(),
            clock: Clock::system(),
            metrics: AutopilotMetrics::default(),
            system: JobSystem::Sidekiq,
            jobs: Box::new(world.clone()),
            jobs_interval: Duration::from_secs(SAMPLE_SECONDS),
            database: Some(Box::new(world.clone())),
            actuator: Ok(Box::new(world.clone())),
            lease: Some(Box::new(world.clone())),
            machine: "web-1".to_owned(),
        })
        .unwrap();
        let stop = CancellationToken::new();
        tokio::join!(autopilot.run(stop.clone()), async {
            test(&handle).await;
            stop.cancel();
        });
    });
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn entries(handle: &AutopilotHandle, kind: EntryKind) -> Vec<JournalEntry> {
    let query = crate::view::JournalQuery { before: None, limit: Some(1_000) };
    handle.journal(&query).into_iter().filter(|entry| entry.kind == kind).collect()
}

/// Waits for the first decision of a flood.
async fn wait_for_decision(world: &Shared, handle: &AutopilotHandle) {
    seconds(300).await;
    world.with(|world| world.is_flooded = true);
    for _ in 0..60 {
        if !entries(handle, EntryKind::Decision).is_empty() {
            return;
        }
        seconds(1).await;
    }
    panic!("nothing was decided: {:?}", handle.status());
}

#[test]
fn the_outcome_and_the_next_change_wait_until_the_processes_are_replaced() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        wait_for_decision(&world, handle).await;
        let first = entries(handle, EntryKind::Decision).remove(0);
        assert!(first.text.starts_with("reduced threads from 20 to 10: "), "{}", first.text);
        let how = "; threads of workers.a from 10 to 5 in each of 2 processes";
        assert!(first.text.ends_with(how), "{}", first.text);
        // The outcome would be judged after half a minute.
        seconds(CHANGE_SECONDS - 5).await;
        assert!(handle.status().is_changing);
        seconds(20).await;
        assert!(!handle.status().is_changing && entries(handle, EntryKind::Outcome).is_empty());
        seconds(40).await;
        let outcome = entries(handle, EntryKind::Outcome).remove(0);
        assert_eq!(outcome.of, Some(first.id));
        assert!(outcome.text.contains(" helped"), "{}", outcome.text);
        // It is still too slow, but the least time between two changes is two minutes.
        assert_eq!(entries(handle, EntryKind::Decision).len(), 1);
        seconds(90).await;
        let second = entries(handle, EntryKind::Decision).remove(0);
        assert!(second.text.starts_with("reduced threads from 10 to 4"), "{}", second.text);
        // The cause is over.
        world.with(|world| world.is_flooded = false);
        seconds(600).await;
        assert_eq!(world.with(|world| world.limits.threads), None);
        let last = entries(handle, EntryKind::Decision).remove(0);
        assert!(last.text.starts_with("returned threads from "), "{}", last.text);
    });
}

#[test]
fn off_ends_the_limit_while_processes_are_being_replaced() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        wait_for_decision(&world, handle).await;
        seconds(5).await;
        let change = ModeChange { mode: Mode::Off, by: "ann".to_owned() };
        handle.set_mode(change).await.unwrap();
        assert_eq!(world.with(|world| world.limits.threads), None);
    });
}

#[test]
fn without_data_a_change_that_never_ends_keeps_no_limit() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        wait_for_decision(&world, handle).await;
        world.with(|world| world.is_away = true);
        seconds(50).await;
        assert!(world.with(|world| world.limits.threads).is_some(), "it holds");
        seconds(20).await;
        assert_eq!(world.with(|world| world.limits.threads), None);
        assert_eq!(entries(handle, EntryKind::Decision).len(), 1, "nothing else is decided");
        let end = entries(handle, EntryKind::End).remove(0).text;
        assert!(
            end.starts_with("ended all limits: no data for ") && end.contains("replaced"),
            "{end}"
        );
    });
}

#[test]
fn no_type_is_limited_where_none_can_be() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        seconds(120).await;
        world.with(|world| world.waits = 8);
        seconds(300).await;
        assert!(entries(handle, EntryKind::Decision).is_empty());
        let advice = entries(handle, EntryKind::Advice);
        assert_eq!(advice.len(), 1, "{advice:?}");
        assert!(advice[0].text.starts_with("limited Job to 1 at once, 2 before: 8 sessions wait"));
        assert!(
            advice[0].text.contains("; the observed Sidekiq has no limit for a job type: give")
                && advice[0].text.ends_with("can't do that here: autopilot.move_jobs is off"),
            "{}",
            advice[0].text
        );
        let of_type = OverrideChange {
            class: Some("Job".to_owned()),
            jobs: Some(2),
            ..OverrideChange::default()
        };
        let error = handle.set_override(of_type).await.unwrap_err().to_string();
        assert!(error.contains("has no limit for a job type"), "{error}");
        assert!(handle.status().limits.is_empty());
    });
}

#[test]
fn a_type_is_limited_where_its_jobs_can_be_moved() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    world.with(|world| world.moves_jobs = true);
    fly(&world, folder.path(), Mode::On, async |handle| {
        seconds(120).await;
        world.with(|world| world.waits = 8);
        seconds(30).await;
        let first = entries(handle, EntryKind::Decision).pop().expect("a decision");
        assert!(first.text.starts_with("limited Job to 1 at once, 2 before: "), "{}", first.text);
        assert!(first.text.ends_with("; Job of q: 1 threads"), "{}", first.text);
        let limits = world.with(|world| world.limits.clone());
        assert_eq!(limits.class_queues["Job"], "q");
        assert!(limits.classes.contains_key("Job") && limits.threads.is_none());
        // One type at a time.
        let other = OverrideChange {
            class: Some("Other".to_owned()),
            jobs: Some(2),
            ..OverrideChange::default()
        };
        let error = handle.set_override(other).await.unwrap_err().to_string();
        assert!(error.contains("can't limit it here: Job is limited"), "{error}");
        handle.set_mode(ModeChange { mode: Mode::Off, by: "ann".to_owned() }).await.unwrap();
        assert!(world.with(|world| world.limits.classes.is_empty()));
    });
}

#[test]
fn a_change_that_stops_half_way_is_in_the_journal_once() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        wait_for_decision(&world, handle).await;
        world.with(|world| world.failure = Some("workers.a: exited with code 1".to_owned()));
        seconds(30).await;
        let failures = entries(handle, EntryKind::Failure);
        let texts: Vec<&str> = failures.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(texts, ["the threads were not changed: workers.a: exited with code 1"]);
    });
}

#[test]
fn a_limit_ends_when_an_operator_sets_the_threads() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        wait_for_decision(&world, handle).await;
        world.with(|world| world.is_set_by_hand = true);
        seconds(30).await;
        assert_eq!(world.with(|world| world.limits.threads), None);
        assert!(handle.status().limits.is_empty());
        let ended = entries(handle, EntryKind::End).remove(0);
        assert!(ended.text.starts_with("ended the limit for all queues"), "{}", ended.text);
        seconds(600).await;
        assert_eq!(world.with(|world| world.limits.threads), None);
        assert_eq!(entries(handle, EntryKind::Decision).len(), 1);
    });
}

#[test]
fn advice_has_the_commands_that_carry_it_out() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::Advise, async |handle| {
        seconds(300).await;
        world.with(|world| world.is_flooded = true);
        seconds(60).await;
        let advice = entries(handle, EntryKind::Advice).remove(0);
        let how = "from 10 to 5 in each of 2 processes (weir workers set a --threads 5)";
        assert!(advice.text.ends_with(how), "{}", advice.text);
        assert_eq!(world.with(|world| world.limits.clone()), CarriedLimits::default());
    });
}
