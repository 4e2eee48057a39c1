use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use super::*;
use crate::journal::{EntryKind, EntryOutcome, JournalEntry};
use crate::lease::{LeaseReply, LeaseState};
use crate::load::{ClassFigures, DatabaseActivity, JobsLoad, QueueFigures, SessionFigures};
use crate::sources::CarriedLimits;
use crate::view::{ModeChange, OverrideChange};

/// Shorter than the time between two decisions.
const LEASE: Duration = Duration::from_secs(4);

/// A system that tests change while an autopilot runs.
#[derive(Debug, Default)]
struct World {
    /// Hog holds a lock that so many sessions of Mail wait for.
    waits: u32,
    is_database_away: bool,
    is_job_server_away: bool,
    ended: u64,
    /// Another autopilot holds the lease.
    has_other_the_lease: bool,
    is_lease_away: bool,
    /// Its holder has given it back.
    is_released: bool,
    /// What is in force.
    limits: CarriedLimits,
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
        let load = self.with(|world| {
            world.ended += 10;
            let class = |name: &str, in_flight| ClassFigures {
                name: name.to_owned(),
                queue: "default".to_owned(),
                in_flight,
                ended_total: world.ended,
                run_seconds_total: world.ended as f64 * 0.1,
            };
            let queue = QueueFigures { name: "default".to_owned(), ..QueueFigures::default() };
            JobsLoad {
                queues: vec![queue],
                classes: vec![class("Hog", 4), class("Mail", 2)],
                other_classes: None,
                busy: 6,
                idle: 4,
                ..JobsLoad::default()
            }
        });
        Box::pin(async { Ok(Some(load)) })
    }
}

impl DatabaseSource for Shared {
    fn activity(&mut self) -> BoxFuture<'_, Result<DatabaseActivity, String>> {
        let (waits, is_away) = self.with(|world| (world.waits, world.is_database_away));
        let session = |pid: u32, comment: &str| SessionFigures {
            pid,
            comment: Some(comment.to_owned()),
            is_waiting: pid > 1,
            blocked_by: if pid > 1 { vec![1] } else { Vec::new() },
            ..SessionFigures::default()
        };
        let mut sessions = vec![session(1, "Hog")];
        sessions.extend((2..2 + waits).map(|pid| session(pid, "Mail")));
        let activity = DatabaseActivity { sessions, connections: 20, connections_max: 100 };
        Box::pin(async move { if is_away { Err("is away".to_owned()) } else { Ok(activity) } })
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
        let applied = self.with(|world| {
            if world.is_job_server_away {
                return Err("is away".to_owned());
            }
            world.limits = limits.clone();
            Ok(())
        });
        Box::pin(async { applied })
    }
}

impl LeaseStore for Shared {
    fn name(&self) -> String {
        "Redis a:1".to_owned()
    }

    fn take<'a>(&'a mut self, _: &'a LeaseClaim) -> BoxFuture<'a, Result<LeaseReply, String>> {
        let reply = self.with(|world| match (world.is_lease_away, world.has_other_the_lease) {
            (true, _) => Err("is away".to_owned()),
            (_, true) => Ok(LeaseReply::HeldBy { holder: "web-2:/x".to_owned() }),
            _ => Ok(LeaseReply::Held),
        });
        Box::pin(async { reply })
    }

    fn release<'a>(&'a mut self, _: &'a LeaseClaim) -> BoxFuture<'a, Result<(), String>> {
        self.with(|world| world.is_released = true);
        Box::pin(async { Ok(()) })
    }
}

fn open(world: &Shared, directory: &Path, mode: Mode) -> (Autopilot, AutopilotHandle) {
    let mut settings = AutopilotSettings {
        mode,
        manage: vec![crate::mode::ManagedSystem::Jobs],
        ..AutopilotSettings::default()
    };
    settings.limits.lease = LEASE;
    Autopilot::open(AutopilotParts {
        settings,
        directory: directory.to_owned(),
        clock: Clock::system(),
        metrics: AutopilotMetrics::default(),
        system: JobSystem::JobServer,
        jobs: Box::new(world.clone()),
        jobs_interval: Duration::ZERO,
        database: Some(Box::new(world.clone())),
        actuator: Ok(Box::new(world.clone())),
        lease: Some(Box::new(world.clone())),
        machine: "web-1".to_owned(),
    })
    .unwrap()
}

/// Returns a runtime whose time passes at once.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// Runs `test` beside an autopilot, in a time that passes at once.
fn fly(world: &Shared, directory: &Path, mode: Mode, test: impl AsyncFnOnce(&AutopilotHandle)) {
    runtime().block_on(async {
        let (autopilot, handle) = open(world, directory, mode);
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

fn hog_limit(world: &Shared) -> Option<u32> {
    world.with(|world| world.limits.classes.get("Hog").copied())
}

fn mode(mode: Mode) -> ModeChange {
    ModeChange { mode, by: "ann".to_owned() }
}

#[test]
fn the_holder_of_a_lock_is_limited_and_let_go_again() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        seconds(60).await;
        assert_eq!(hog_limit(&world), None);
        world.with(|world| world.waits = 8);
        seconds(8).await;
        assert_eq!(hog_limit(&world), Some(1), "{:?}", handle.status());
        let decision = entries(handle, EntryKind::Decision).pop().unwrap();
        assert!(decision.text.starts_with("limited Hog to 1 at once, 4 before: "));
        assert_eq!(decision.forecast.as_ref().map(|it| it.expected), Some(0.0));
        world.with(|world| world.waits = 0);
        seconds(300).await;
        let outcomes = entries(handle, EntryKind::Outcome);
        let first = outcomes.iter().find(|it| it.of == Some(decision.id)).unwrap();
        assert!(first.outcome.is_some(), "{first:?}");
        assert!(outcomes.iter().any(|it| it.outcome == Some(EntryOutcome::Helped)), "{outcomes:?}");
        seconds(3_600).await;
        assert_eq!(hog_limit(&world), None, "{:?}", handle.status());
    });
}

#[test]
fn advice_changes_nothing_and_is_not_repeated() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::Advise, async |handle| {
        seconds(30).await;
        world.with(|world| world.waits = 8);
        seconds(500).await;
        let advice = entries(handle, EntryKind::Advice);
        assert_eq!(advice.len(), 1, "{advice:?}");
        assert!(advice[0].text.starts_with("limited Hog to 1"), "{}", advice[0].text);
        assert_eq!(world.with(|world| world.limits.clone()), CarriedLimits::default());
        assert!(entries(handle, EntryKind::Decision).is_empty());
    });
}

#[test]
fn off_by_hand_ends_limits_at_once_and_survives_a_restart() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        world.with(|world| world.waits = 8);
        seconds(30).await;
        assert!(hog_limit(&world).is_some());
        handle.set_mode(mode(Mode::Off)).await.unwrap();
        assert_eq!(hog_limit(&world), None);
        seconds(1).await;
        assert_eq!(handle.status().mode, Mode::Off);
        let entry = entries(handle, EntryKind::Mode).pop().unwrap();
        assert_eq!((entry.by.as_deref(), entry.mode), (Some("ann"), Mode::Off));
    });
    fly(&world, folder.path(), Mode::On, async |handle| {
        seconds(60).await;
        assert_eq!((handle.status().mode, hog_limit(&world)), (Mode::Off, None));
    });
    // The settings were changed later than the mode.
    fly(&world, folder.path(), Mode::Advise, async |handle| {
        seconds(10).await;
        assert_eq!(handle.status().mode, Mode::Advise);
    });
}

#[test]
fn limits_that_could_not_be_ended_are_ended_once_the_job_server_is_back() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        world.with(|world| world.waits = 8);
        seconds(30).await;
        world.with(|world| world.is_job_server_away = true);
        handle.set_mode(mode(Mode::Off)).await.unwrap();
        assert!(hog_limit(&world).is_some());
        world.with(|world| world.is_job_server_away = false);
        seconds(6).await;
        assert_eq!(hog_limit(&world), None);
    });
}

#[test]
fn without_data_it_holds_and_then_returns_to_the_static_plan() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        world.with(|world| world.waits = 8);
        seconds(30).await;
        let limit = hog_limit(&world);
        assert!(limit.is_some());
        world.with(|world| world.is_database_away = true);
        seconds(50).await;
        assert_eq!(hog_limit(&world), limit, "it holds");
        assert_eq!(handle.status().problem.as_deref(), Some("the database: is away"));
        seconds(90).await;
        assert_eq!(hog_limit(&world), None, "{:?}", handle.status());
        let last = entries(handle, EntryKind::Decision).remove(0);
        assert!(last.text.starts_with("returned a step towards the static plan"), "{}", last.text);
    });
}

#[test]
fn limits_go_on_after_a_crash_or_are_known_to_have_ended() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    world.with(|world| world.waits = 8);
    fly(&world, folder.path(), Mode::On, async |_| seconds(30).await);
    assert!(hog_limit(&world).is_some());
    // The job server has lost them with its process.
    world.with(|world| world.limits = CarriedLimits::default());
    world.with(|world| world.is_database_away = true);
    fly(&world, folder.path(), Mode::On, async |handle| {
        seconds(1).await;
        assert!(hog_limit(&world).is_some());
        let text = entries(handle, EntryKind::Restart).remove(0).text;
        assert!(text.starts_with("limits from before the restart go on (Hog at 0)"), "{text}");
        seconds(70).await;
        assert_eq!(hog_limit(&world), None, "there have been no data");
    });
    // One that was not renewed for too long.
    let file = StateFile::within(folder.path());
    let mut state = file.read().unwrap();
    let limit = crate::state_file::KeptLimit { class: None, jobs: 3, since: 1.0 };
    (state.limits, state.limits_until) = (vec![limit], 2.0);
    file.write(&state).unwrap();
    fly(&world, folder.path(), Mode::On, async |handle| {
        seconds(1).await;
        assert_eq!(world.with(|world| world.limits.threads), None);
        let text = entries(handle, EntryKind::Restart).remove(0).text;
        assert!(text.contains("have ended (all queues at 3): they were not renewed for"), "{text}");
    });
}

#[test]
fn a_value_set_by_hand_holds_until_it_expires_and_no_rule_changes_it() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    let change = |jobs, for_seconds| OverrideChange {
        class: Some("Hog".to_owned()),
        jobs,
        for_seconds,
        by: "ann".to_owned(),
    };
    fly(&world, folder.path(), Mode::On, async |handle| {
        handle.set_override(change(Some(3), None)).await.unwrap();
        world.with(|world| world.waits = 8);
        seconds(60).await;
        assert_eq!(hog_limit(&world), Some(3));
        handle.set_override(change(None, None)).await.unwrap();
        assert_eq!(hog_limit(&world), None);
        let again = handle.set_override(change(None, None)).await;
        assert_eq!(again.unwrap_err().to_string(), "nothing is set by hand for Hog");
        handle.set_override(change(Some(2), Some(1))).await.unwrap();
        let too_long = handle.set_override(change(Some(2), Some(10_000_000))).await;
        assert!(matches!(too_long, Err(crate::CommandError::Invalid(_))));
    });
    // Its end is in the wall clock's time, which does not pass in this test.
    let file = StateFile::within(folder.path());
    let mut state = file.read().unwrap();
    assert_eq!(state.overrides.len(), 1);
    state.overrides[0].until = 2.0;
    file.write(&state).unwrap();
    // The job server has ended with its process.
    world.with(|world| world.limits = CarriedLimits::default());
    fly(&world, folder.path(), Mode::Advise, async |handle| {
        seconds(10).await;
        assert_eq!(hog_limit(&world), None);
        assert_eq!(
            entries(handle, EntryKind::Restart)[0].text,
            "the value of ann for Hog has ended"
        );
    });
}

#[test]
fn nothing_is_done_that_cannot_be_written_to_the_journal() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        let journal = folder.path().join("journal.jsonl");
        std::fs::create_dir(&journal).unwrap();
        world.with(|world| world.waits = 8);
        seconds(60).await;
        assert_eq!(hog_limit(&world), None);
        assert!(handle.status().journal_errors > 0);
        std::fs::remove_dir(&journal).unwrap();
        seconds(30).await;
        assert!(hog_limit(&world).is_some());
    });
}

#[test]
fn a_mode_that_is_not_possible_says_why() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    runtime().block_on(async {
        let (mut autopilot, handle) = open(&world, folder.path(), Mode::Advise);
        autopilot.settings.manage.clear();
        let stop = CancellationToken::new();
        tokio::join!(autopilot.run(stop.clone()), async {
            let error = handle.set_mode(mode(Mode::On)).await.unwrap_err().to_string();
            assert!(error.starts_with("autopilot.manage is empty"), "{error}");
            seconds(1).await;
            assert_eq!(handle.status().mode, Mode::Advise);
            stop.cancel();
        });
    });
}

#[test]
fn normal_values_survive_a_restart() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::Advise, async |_| seconds(120).await);
    let (autopilot, _) = open(&world, folder.path(), Mode::Advise);
    let hog = autopilot.sampler.roster.find_class("Hog").unwrap();
    let mail = autopilot.sampler.roster.find_class("Mail").unwrap();
    // One session, and two jobs a second.
    let base = autopilot.history.classes[hog].base_seconds.unwrap();
    assert!((base - 0.5).abs() < 0.05, "{base}");
    assert_eq!(autopilot.history.classes[mail].base_seconds, Some(0.0));
    assert!(autopilot.history.fast_sessions > 0.9);
}

#[test]
fn a_paused_type_is_not_tried_again_because_of_a_restart() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    world.with(|world| world.waits = 8);
    fly(&world, folder.path(), Mode::On, async |_| seconds(30).await);
    assert_eq!(hog_limit(&world), Some(0));
    world.with(|world| world.waits = 0);
    // Less than the rules wait for after a change.
    fly(&world, folder.path(), Mode::On, async |_| {
        seconds(12).await;
        assert_eq!(hog_limit(&world), Some(0));
    });
}

#[test]
fn without_the_lease_it_only_advises_and_takes_over_when_the_holder_is_gone() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    world.with(|world| (world.has_other_the_lease, world.waits) = (true, 8));
    fly(&world, folder.path(), Mode::On, async |handle| {
        seconds(300).await;
        assert_eq!(world.with(|world| world.limits.clone()), CarriedLimits::default());
        assert!(entries(handle, EntryKind::Decision).is_empty());
        assert!(entries(handle, EntryKind::Advice)[0].text.starts_with("limited Hog to 1"));
        let expected = "web-2:/x holds the lease in Redis a:1: this autopilot only advises";
        let said = entries(handle, EntryKind::Lease);
        assert_eq!(said.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), [expected]);
        let lease = handle.status().lease.clone().unwrap();
        assert_eq!((lease.state, lease.text.as_str()), (LeaseState::Other, expected));
        assert_eq!(lease.holder.as_deref(), Some("web-2:/x"));
        world.with(|world| world.has_other_the_lease = false);
        seconds(30).await;
        assert!(hog_limit(&world).is_some());
        let last = entries(handle, EntryKind::Lease).remove(0).text;
        assert_eq!(last, "this autopilot holds the lease in Redis a:1, and acts");
        assert!(!world.with(|world| world.is_released));
    });
    assert!(world.with(|world| world.is_released), "it is given back at the end");
}

#[test]
fn a_holder_that_cannot_renew_changes_nothing_more_and_returns_to_the_static_plan() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    fly(&world, folder.path(), Mode::On, async |handle| {
        world.with(|world| world.waits = 8);
        seconds(30).await;
        let limit = hog_limit(&world);
        assert!(limit.is_some());
        world.with(|world| world.is_lease_away = true);
        // The rules would raise the limit now.
        world.with(|world| world.waits = 0);
        seconds(50).await;
        assert_eq!(hog_limit(&world), limit, "it holds");
        seconds(90).await;
        assert_eq!(hog_limit(&world), None, "{:?}", handle.status());
        world.with(|world| world.waits = 8);
        seconds(300).await;
        assert_eq!(hog_limit(&world), None, "it does not act");
        let lost = entries(handle, EntryKind::Lease).remove(0);
        assert!(lost.text.ends_with("this autopilot only advises: is away"), "{}", lost.text);
        let later = entries(handle, EntryKind::Decision).into_iter().filter(|it| it.id > lost.id);
        let texts: Vec<_> = later.map(|it| it.text).collect();
        let expected = "returned a step towards the static plan: this autopilot has not held the";
        assert!(texts.iter().all(|text| text.starts_with(expected)), "{texts:?}");
        // Off needs neither the lease nor its store.
        world.with(|world| world.is_released = false);
        handle.set_mode(mode(Mode::Off)).await.unwrap();
        seconds(1).await;
        assert_eq!((handle.status().mode, handle.status().lease.clone()), (Mode::Off, None));
        assert!(world.with(|world| world.is_released));
    });
}

#[test]
fn on_is_not_possible_without_a_place_for_the_lease() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    runtime().block_on(async {
        let (mut autopilot, handle) = open(&world, folder.path(), Mode::Advise);
        autopilot.lease.store = None;
        let stop = CancellationToken::new();
        tokio::join!(autopilot.run(stop.clone()), async {
            let error = handle.set_mode(mode(Mode::On)).await.unwrap_err().to_string();
            assert!(error.contains("neither [observe.redis] nor"), "{error}");
            stop.cancel();
        });
    });
}

#[test]
fn a_folder_that_is_gone_at_the_end_is_no_error() {
    let (world, folder) = (Shared::default(), tempfile::tempdir().unwrap());
    let metrics = AutopilotMetrics::default();
    runtime().block_on(async {
        let (mut autopilot, _) = open(&world, folder.path(), Mode::Off);
        autopilot.metrics = metrics.clone();
        let stop = CancellationToken::new();
        tokio::join!(autopilot.run(stop.clone()), async {
            seconds(1).await;
            folder.close().unwrap();
            stop.cancel();
        });
    });
    assert_eq!(metrics.journal_errors(), 0);
}
