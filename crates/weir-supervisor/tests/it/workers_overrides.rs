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

/// A group for a limited class of the jobs of `of`.
fn limited_group(of: &GroupSpec, marker: &str) -> GroupSpec {
    let name = of.name.to_string();
    let mut spec = group(&weir_supervisor::workers::limited_group(&name), marker, 0, 10);
    spec.jobs = spec.jobs.map(|jobs| JobSpec { limited_of: Some(name), ..jobs });
    spec
}

fn class_limit(threads: u32, seconds: u64) -> OverrideRequest {
    OverrideRequest {
        processes: Some(1),
        queues: Some(vec!["default_limited_Import".to_owned()]),
        for_seconds: Some(seconds),
        by: "autopilot".to_owned(),
        ..self::threads(threads)
    }
}

#[test]
fn a_limited_class_has_a_process_within_the_budget_until_the_limit_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let groups = || {
        let mail = group("mail", &marker, 2, 10);
        let limited = limited_group(&mail, &marker);
        vec![mail, limited]
    };
    let mut rig = Rig::start_within(groups(), limits(folder.path(), 20));
    become_so(&marker, &[("10 default", 2)]);
    let sampler = Sampler::start(&marker);
    let class = |limited| limit("mail-limited", limited);
    rig.command(class(Some(class_limit(3, 3_600)))).expect("limited");
    become_so(&marker, &[("8 default", 2), ("3 default_limited_Import", 1)]);
    // A higher limit: the other group does without more threads first, and no two processes serve the class.
    rig.command(class(Some(class_limit(6, 3_600)))).expect("limited");
    become_so(&marker, &[("7 default", 2), ("6 default_limited_Import", 1)]);
    let refused = rig.command(class(Some(class_limit(19, 3_600)))).expect_err("too many");
    assert!(refused.contains("mail-limited: 1 processes x 19 connections = 19"), "{refused}");
    // A paused class has no process.
    rig.command(class(None)).expect("ended");
    become_so(&marker, &[("10 default", 2)]);
    rig.command(class(Some(class_limit(3, 3_600)))).expect("limited");
    become_so(&marker, &[("8 default", 2), ("3 default_limited_Import", 1)]);
    let most = sampler.most();
    assert!((19..=20).contains(&most), "{most}");
    rig.stop_cleanly();
    // It outlives the parent, and ends by itself.
    let mut rig = Rig::start_within(groups(), limits(folder.path(), 20));
    become_so(&marker, &[("8 default", 2), ("3 default_limited_Import", 1)]);
    rig.command(class(Some(class_limit(3, 1)))).expect("renewed");
    become_so(&marker, &[("10 default", 2)]);
    rig.stop_cleanly();
}

#[test]
fn a_limited_class_never_has_two_processes_also_where_there_is_no_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let mail = group("mail", "of-mail", 1, 10);
    let limited = limited_group(&mail, &marker);
    let mut rig = Rig::start_within(vec![mail, limited], FleetLimits::default());
    let class = |threads| limit("mail-limited", Some(class_limit(threads, 3_600)));
    rig.command(class(5)).expect("limited");
    become_so(&marker, &[("5 default_limited_Import", 1)]);
    let sampler = Sampler::start(&marker);
    for threads in [6, 4, 6] {
        rig.command(class(threads)).expect("limited");
        let expected = format!("{threads} default_limited_Import");
        become_so(&marker, &[(expected.as_str(), 1)]);
    }
    assert_eq!(sampler.most(), 6);
    rig.stop_cleanly();
}

#[test]
fn operators_do_not_change_a_group_for_a_limited_class() {
    let folder = tempfile::tempdir().expect("a folder");
    let marker = folder.path().display().to_string();
    let mail = group("mail", &marker, 1, 10);
    let limited = limited_group(&mail, &marker);
    let mut rig = Rig::start_within(vec![mail, limited], limits(folder.path(), 12));
    let name = "mail-limited".to_owned();
    let scaled = ParentCommand::Scale { group: name.clone(), processes: 1 };
    for command in [set(&name, threads(1)), scaled] {
        let refused = rig.command(command).expect_err("its values are the limit's");
        assert!(refused.contains("change that with weir autopilot override"), "{refused}");
    }
    // What an operator has set stays, also if there is no room beside it.
    rig.command(set("mail", threads(11))).expect("set");
    become_so(&marker, &[("11 default", 1)]);
    let refused = rig.command(limit(&name, Some(class_limit(2, 60)))).expect_err("no room");
    assert!(refused.contains("with 11 of other groups"), "{refused}");
    rig.command(limit(&name, Some(class_limit(1, 60)))).expect("limited");
    become_so(&marker, &[("11 default", 1), ("1 default_limited_Import", 1)]);
    rig.stop_cleanly();
}
