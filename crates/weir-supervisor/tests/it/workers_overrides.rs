//! Threads, queues and processes that are overridden while real processes run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_supervisor::control::{GroupState, ParentCommand, ParentReport, RollingState};
use weir_supervisor::workers::{
    FleetLimits, GroupSpec, JobGroupState, JobSpec, OverrideRequest, WorkerValues,
};

use crate::rig::{Rig, script, wait_until};

/// Takes its time to end, as a worker with jobs does. Its last arguments are told to the sampler.
const WORKER: &str = "trap 'sleep 0.1; exit 0' TERM; echo up; while :; do sleep 0.01; done";

/// A group whose processes show `marker`, their threads and their queues in /proc.
fn group(name: &str, marker: &str, processes: u32, threads: u32) -> GroupSpec {
    let queues = vec!["default".to_owned()];
    let jobs = JobSpec {
        values: WorkerValues { threads: Some(threads), queues },
        connections_per_thread: 1,
        ..JobSpec::default()
    };
    let mut spec = script(WORKER);
    spec.command.extend([marker.to_owned(), "{concurrency}".to_owned(), "{queues}".to_owned()]);
    spec.variables = jobs.variables(&jobs.values);
    spec.name = name.parse().expect("a name");
    GroupSpec { processes, jobs: Some(jobs), ..spec }
}

/// Returns the arguments behind the marker of all children that run, such as `["10", "default"]`.
fn running(marker: &str) -> Vec<Vec<String>> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let arguments = processes.filter_map(|process| {
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut arguments = line.trim_end_matches('\0').split('\0').map(str::to_owned);
        arguments.find(|argument| argument == marker)?;
        // A child of the worker has its arguments until it executes its own program.
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        let parent = stat.rsplit(") ").next()?.split(' ').nth(1)?.to_owned();
        (parent == own).then(|| arguments.collect())
    });
    arguments.collect()
}

fn connections(marker: &str) -> u32 {
    let threads =
        running(marker).into_iter().filter_map(|arguments| arguments[0].parse::<u32>().ok());
    threads.sum()
}

/// Looks at the processes all the time; returns the most connections that it saw, and how often it
/// looked.
struct Sampler {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(u32, u32)>,
}

impl Sampler {
    fn start(marker: &str) -> Self {
        let (marker, stop) = (marker.to_owned(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen = (0, 0);
            while !is_over.load(Ordering::SeqCst) {
                seen = (connections(&marker).max(seen.0), seen.1 + 1);
            }
            seen
        });
        Self { stop, thread }
    }

    fn most(self) -> u32 {
        self.stop.store(true, Ordering::SeqCst);
        let (most, looks) = self.thread.join().expect("sampled");
        assert!(looks > 3, "only {looks} looks");
        most
    }
}

fn set(group: &str, change: OverrideRequest) -> ParentCommand {
    ParentCommand::Set { group: group.to_owned(), change }
}

fn threads(threads: u32) -> OverrideRequest {
    OverrideRequest { threads: Some(threads), ..OverrideRequest::default() }
}

/// The next state of a group that `matches` accepts.
fn state(rig: &mut Rig, name: &str, matches: impl Fn(&GroupState) -> bool) -> JobGroupState {
    rig.find(|report| match report {
        ParentReport::Group(state) if state.group == name && matches(state) => {
            state.jobs.as_deref().cloned()
        }
        _ => None,
    })
}

fn is_finished(state: &GroupState) -> bool {
    state.rolling == Some(RollingState::Finished)
}

/// The running processes by their arguments.
fn counts(marker: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for arguments in running(marker) {
        *counts.entry(arguments.join(" ")).or_default() += 1;
    }
    counts
}

fn become_so(marker: &str, expected: &[(&str, usize)]) {
    let expected: BTreeMap<String, usize> =
        expected.iter().map(|(arguments, count)| ((*arguments).to_owned(), *count)).collect();
    wait_until(&format!("{expected:?}"), || counts(marker) == expected);
}

fn limits(folder: &Path, connections_max: u32) -> FleetLimits {
    let overrides_file = Some(folder.join("overrides.json"));
    FleetLimits { connections_max: Some(connections_max), overrides_file, ..FleetLimits::default() }
}

#[test]
fn processes_never_have_more_connections_than_the_budget_while_they_are_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let groups = vec![group("mail", &marker, 3, 10), group("push", &marker, 1, 10)];
    let mut rig = Rig::start_within(groups, limits(folder.path(), 50));
    become_so(&marker, &[("10 default", 4)]);
    let sampler = Sampler::start(&marker);
    // 4 x 10 and a successor of 13 are more than 50: each process ends before its successor starts.
    rig.command(set("mail", threads(13))).expect("within the budget");
    state(&mut rig, "mail", is_finished);
    become_so(&marker, &[("10 default", 1), ("13 default", 3)]);
    // Two fewer, larger ones, while the other group grows into what is left.
    let fewer = OverrideRequest { processes: Some(1), ..threads(20) };
    rig.command(set("mail", fewer)).expect("within the budget");
    let lasting = |seconds| OverrideRequest { for_seconds: Some(seconds), ..threads(30) };
    let refused =
        rig.command(set("push", lasting(7_200))).expect_err("mail returns to 3 x 10 before");
    assert!(refused.starts_with("when the next override ends"), "{refused}");
    rig.command(set("push", lasting(600))).expect("within the budget");
    become_so(&marker, &[("20 default", 1), ("30 default", 1)]);
    state(&mut rig, "push", is_finished);
    assert_eq!(rig.command(ParentCommand::RestartRolling { group: "push".into() }), Ok(()));
    state(&mut rig, "push", |it| matches!(it.rolling, Some(RollingState::Running { .. })));
    state(&mut rig, "push", is_finished);
    let most = sampler.most();
    assert!((49..=50).contains(&most), "{most}");
    rig.stop_cleanly();
}

#[test]
fn a_change_beyond_the_budget_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let groups = vec![group("mail", &marker, 2, 10), group("push", &marker, 1, 10)];
    let mut rig = Rig::start_within(groups, limits(folder.path(), 50));
    let refused = rig.command(set("mail", threads(21))).expect_err("too many");
    assert!(
        refused.starts_with("mail: 2 processes x 21 connections = 42; with 10 of"),
        "{refused}"
    );
    let scaled = ParentCommand::Scale { group: "mail".into(), processes: 5 };
    let refused = rig.command(scaled).expect_err("too many");
    assert!(
        refused.starts_with("mail: 5 processes x 10 connections = 50; with 10 of"),
        "{refused}"
    );
    let dry = OverrideRequest { dry_run: true, ..threads(20) };
    rig.command(set("mail", dry)).expect("possible");
    become_so(&marker, &[("10 default", 3)]);
    let reset = ParentCommand::Reset { group: "mail".into(), by: String::new(), dry_run: false };
    assert_eq!(rig.command(reset), Err("no value of mail is overridden".to_owned()));
    rig.stop_cleanly();
}

#[test]
fn an_override_ends_by_itself_and_outlives_the_parent_until_then() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let groups = || vec![group("mail", &marker, 1, 10)];
    let mut rig = Rig::start_within(groups(), limits(folder.path(), 50));
    let queues = Some(vec!["default".to_owned(), "push=2".to_owned()]);
    let change = OverrideRequest { processes: Some(2), queues, ..threads(5) };
    rig.command(set("mail", OverrideRequest { for_seconds: Some(3_600), ..change })).expect("set");
    become_so(&marker, &[("5 default push,2", 2)]);
    rig.stop_cleanly();
    let mut rig = Rig::start_within(groups(), limits(folder.path(), 50));
    become_so(&marker, &[("5 default push,2", 2)]);
    // All values get the end of the newest request.
    rig.command(set("mail", OverrideRequest { for_seconds: Some(1), ..threads(6) })).expect("set");
    state(&mut rig, "mail", |it| it.jobs.as_ref().is_some_and(|jobs| jobs.set.is_none()));
    become_so(&marker, &[("10 default", 1)]);
    rig.stop_cleanly();
    let rig = Rig::start_within(groups(), limits(folder.path(), 50));
    become_so(&marker, &[("10 default", 1)]);
    rig.stop_cleanly();
}

#[test]
fn overrides_end_when_the_budget_has_become_too_small_for_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let groups = || vec![group("mail", &marker, 2, 10)];
    let mut rig = Rig::start_within(groups(), limits(folder.path(), 50));
    rig.command(set("mail", threads(25))).expect("within the budget");
    become_so(&marker, &[("25 default", 2)]);
    rig.stop_cleanly();
    let mut rig = Rig::start_within(groups(), limits(folder.path(), 49));
    let values = state(&mut rig, "mail", |_| true);
    assert_eq!((values.set, values.connections_max), (None, Some(49)));
    become_so(&marker, &[("10 default", 2)]);
    rig.stop_cleanly();
}

#[test]
fn a_process_that_does_not_start_ends_the_change_and_a_reset_undoes_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let mut spec = group("mail", &marker, 2, 10);
    // Any other number of threads is an error.
    spec.command[2] = format!("[ \"$1\" = 10 ] || exit 3; {WORKER}");
    let mut rig = Rig::start_within(vec![spec], FleetLimits::default());
    become_so(&marker, &[("10 default", 2)]);
    rig.command(set("mail", threads(11))).expect("accepted");
    state(&mut rig, "mail", |it| matches!(it.rolling, Some(RollingState::Failed { .. })));
    become_so(&marker, &[("10 default", 2)]);
    let reset = ParentCommand::Reset { group: "mail".into(), by: "ann".into(), dry_run: false };
    rig.command(reset).expect("reset");
    let values = state(&mut rig, "mail", |it| it.rolling.is_none());
    assert_eq!((values.set, values.in_force), (None, values.configured));
    rig.stop_cleanly();
}

#[test]
fn a_scaled_group_keeps_its_size_until_the_setting_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let start = |processes| {
        let groups = vec![group("mail", &marker, processes, 10)];
        Rig::start_within(groups, limits(folder.path(), 50))
    };
    let mut rig = start(1);
    rig.command(ParentCommand::Scale { group: "mail".into(), processes: 3 }).expect("scaled");
    become_so(&marker, &[("10 default", 3)]);
    rig.stop_cleanly();
    let rig = start(1);
    become_so(&marker, &[("10 default", 3)]);
    rig.stop_cleanly();
    let rig = start(2);
    become_so(&marker, &[("10 default", 2)]);
    rig.stop_cleanly();
}

fn limit(group: &str, limit: Option<OverrideRequest>) -> ParentCommand {
    ParentCommand::Limit { group: group.to_owned(), limit }
}

#[test]
fn a_limit_of_threads_is_beside_an_override_and_ends_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let groups = || vec![group("mail", &marker, 2, 10)];
    let mut rig = Rig::start_within(groups(), limits(folder.path(), 50));
    let queues = Some(vec!["default".to_owned(), "push=2".to_owned()]);
    let change = OverrideRequest { queues, ..OverrideRequest::default() };
    rig.command(set("mail", OverrideRequest { for_seconds: Some(3_600), ..change })).expect("set");
    become_so(&marker, &[("10 default push,2", 2)]);
    let lasting = |seconds| OverrideRequest {
        for_seconds: Some(seconds),
        by: "autopilot".to_owned(),
        ..threads(4)
    };
    rig.command(limit("mail", Some(lasting(3_600)))).expect("limited");
    become_so(&marker, &[("4 default push,2", 2)]);
    rig.stop_cleanly();
    let mut rig = Rig::start_within(groups(), limits(folder.path(), 50));
    become_so(&marker, &[("4 default push,2", 2)]);
    // An operator's number has precedence, and leaves the limit as it is.
    rig.command(set("mail", OverrideRequest { for_seconds: Some(3_600), ..threads(6) }))
        .expect("set");
    become_so(&marker, &[("6 default push,2", 2)]);
    let reset = ParentCommand::Reset { group: "mail".into(), by: String::new(), dry_run: false };
    rig.command(reset).expect("reset");
    become_so(&marker, &[("4 default", 2)]);
    // Without it, 2 x 10 connections are needed again at any time.
    let refused =
        rig.command(set("mail", OverrideRequest { processes: Some(6), ..Default::default() }));
    assert!(refused.expect_err("too many").contains("6 processes x 10 connections = 60"));
    let renewed = lasting(1);
    rig.command(limit("mail", Some(renewed))).expect("renewed");
    let values =
        state(&mut rig, "mail", |it| it.jobs.as_ref().is_some_and(|it| it.limit.is_none()));
    assert_eq!((values.in_force, values.unlimited_threads), (values.configured, Some(10)));
    become_so(&marker, &[("10 default", 2)]);
    rig.stop_cleanly();
}

#[test]
fn a_limit_is_one_of_threads_and_can_be_ended_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let mut rig = Rig::start_within(vec![group("mail", &marker, 1, 10)], FleetLimits::default());
    let processes = OverrideRequest { processes: Some(2), ..threads(4) };
    for wrong in [OverrideRequest::default(), processes] {
        let refused = rig.command(limit("mail", Some(wrong))).expect_err("no limit of threads");
        assert_eq!(refused, "a limit is one of threads, and of nothing else");
    }
    rig.command(limit("mail", Some(threads(4)))).expect("limited");
    become_so(&marker, &[("4 default", 1)]);
    rig.command(limit("mail", None)).expect("ended");
    become_so(&marker, &[("10 default", 1)]);
    rig.command(limit("mail", None)).expect("there is none");
    rig.stop_cleanly();
}
