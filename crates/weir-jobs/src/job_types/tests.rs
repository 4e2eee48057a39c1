use weir_base::clock::Timestamp;

use super::*;
use crate::model::FailureState;

fn second(second: u64) -> Timestamp {
    Timestamp::from_millis(second * 1_000)
}

fn types(types_max: usize) -> JobTypes {
    JobTypes::new(TypeLimits { types_max, groups_max: 3 }, TypeLimitHits::default())
}

fn start(types: &JobTypes, jobtype: &str, at: u64) -> TypeRun {
    let run = types.run_of(jobtype, second(at));
    let job = StartedJob { jid: "jid", queue: "default", ready_at: Some(second(at)) };
    run.start(&job, second(at));
    run
}

fn names(types: &JobTypes) -> Vec<String> {
    let mut names: Vec<_> = types.read(60, None).types.into_iter().map(|it| it.jobtype).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_new_type_takes_the_place_of_one_that_had_no_job_for_an_hour() {
    let types = types(2);
    start(&types, "a", 0).succeeded(second(1));
    let running = start(&types, "b", 0);
    start(&types, "c", 3_000).succeeded(second(3_001));
    assert_eq!(names(&types), ["a", "b"]);
    start(&types, "c", 3_700).succeeded(second(3_701));
    assert_eq!(names(&types), ["b", "c"], "a had no job for an hour");
    start(&types, "d", 9_000).succeeded(second(9_001));
    assert_eq!(names(&types), ["b", "d"], "b is in progress");
    running.succeeded(second(9_100));
    let b = types.read_one("b", 60).unwrap().figures;
    assert_eq!((b.running, b.total.ended), (0, 1));
    assert_eq!(types.read_one("a", 60), None);
}

#[test]
fn a_type_that_was_named_is_not_replaced_before_its_job_starts() {
    let types = types(1);
    let run = types.run_of("a", second(9_000));
    let other = types.run_of("b", second(9_000));
    let job = StartedJob { jid: "jid", queue: "default", ready_at: None };
    run.start(&job, second(9_000));
    other.start(&job, second(9_000));
    assert_eq!(names(&types), ["a"]);
    assert_eq!(types.read(60, None).other.unwrap().running, 1);
}

#[test]
fn a_type_named_other_is_one_of_the_others() {
    let types = types(1);
    for name in [OTHER_TYPES, "a", "b"] {
        start(&types, name, 1).succeeded(second(2));
    }
    assert_eq!(names(&types), ["a"]);
    assert_eq!(types.read(60, None).other.unwrap().total.ended, 2);
    assert_eq!(types.read_one(OTHER_TYPES, 60).unwrap().figures.total.ended, 2);
    let exported: Vec<_> = types.totals().into_iter().map(|it| it.jobtype).collect();
    assert_eq!(exported, [OTHER_TYPES, "a"], "no series twice");
}

#[test]
fn names_and_errors_are_cut() {
    let types = types(5);
    let long = "é".repeat(5_000);
    let run = start(&types, &long, 1);
    let failure =
        FailureState { errtype: long.clone(), message: long.clone(), ..FailureState::default() };
    run.failed(&long, &failure, second(2));
    let shown = types.read_one(&long, 60).unwrap();
    assert_eq!(shown.figures.jobtype.len(), 254);
    let error = &shown.errors[0];
    assert_eq!([error.errtype.len(), error.message.len(), error.jid.len()], [100, 300, 256]);
}

#[test]
fn an_end_counts_once_and_what_is_dropped_was_given_back() {
    let types = types(5);
    let run = start(&types, "a", 1);
    run.succeeded(second(2));
    run.succeeded(second(3));
    run.failed("jid", &FailureState::default(), second(4));
    drop(run);
    drop(types.run_of("a", second(5)));
    drop(start(&types, "a", 6));
    let total = types.read_one("a", 60).unwrap().figures.total;
    assert_eq!((total.started, total.ended, total.failed, total.returned), (2, 1, 0, 1));
}

#[test]
fn a_job_that_returned_waits_from_then_on_also_if_its_next_start_is_not_delivered() {
    let types = types(5);
    let start_of = |ready_at, at| {
        let run = types.run_of("a", second(at));
        let job = StartedJob { jid: "jid", queue: "default", ready_at: Some(second(ready_at)) };
        run.start(&job, second(at));
        run
    };
    start_of(0, 100).returned("jid", second(200));
    drop(start_of(0, 201));
    drop(start_of(0, 203));
    drop(start_of(300, 305));
    let waited = types.read_one("a", 60).unwrap().figures.total.wait_seconds;
    assert_eq!(waited, 100.0 + 1.0 + 3.0 + 5.0, "until it is ready anew");
}

#[test]
fn a_resumed_job_ends_without_a_start() {
    let types = types(5);
    let run = types.resumed("a", second(10), second(50));
    assert_eq!(types.read_one("a", 60).unwrap().figures.running, 1);
    run.succeeded(second(60));
    let figures = types.read_one("a", 60).unwrap().figures;
    assert_eq!((figures.total.started, figures.total.ended, figures.running), (0, 1, 0));
    assert_eq!(figures.run.unwrap().max, 50.0);
}

#[test]
fn recent_figures_are_those_of_the_last_minutes() {
    let types = types(5);
    types.begin(second(0), false);
    start(&types, "a", 60).succeeded(second(70));
    start(&types, "a", 3_000).succeeded(second(3_010));
    let started = |minutes| {
        let shown = types.read_one("a", minutes).unwrap();
        (shown.figures.recent.started, shown.source.window_seconds, shown.slices.len())
    };
    assert_eq!(started(60), (2, 3_010.0, 11), "since the start");
    assert_eq!(started(1), (1, 310.0, 2), "the present slice may have begun just now");
    assert_eq!(started(6), (1, 610.0, 3));
    types.tick(second(4_000));
    assert_eq!(started(60), (1, 3_400.0, 12));
    assert_eq!((started(15).0, started(10).0), (1, 0), "it was in the fourth slice from the end");
    types.tick(second(40_000));
    assert_eq!(started(60).0, 0);
    let figures = types.read_one("a", 60).unwrap().figures;
    assert_eq!((figures.wait, figures.run, figures.total.started), (None, None, 2));
}

#[test]
fn a_queue_selects_types() {
    let types = types(5);
    start(&types, "a", 1).succeeded(second(2));
    assert_eq!(types.read(60, Some("default")).types.len(), 1);
    let none = types.read(60, Some("defaul"));
    assert!(none.types.is_empty());
    assert_eq!(none.run_seconds, 1.0, "those of all types");
}

#[test]
fn a_clock_that_is_set_back_leaves_no_slices_and_no_times_in_the_future() {
    let types = types(2);
    types.begin(second(100_000), false);
    let error = FailureState { errtype: "E".to_owned(), ..FailureState::default() };
    start(&types, "a", 100_000).failed("jid", &error, second(100_010));
    types.tick(second(99_900));
    assert_eq!(types.read_one("a", 60).unwrap().source.now, 100_010.0, "less than a slice");
    types.tick(second(1_000));
    start(&types, "b", 1_010).succeeded(second(1_020));
    let [a, b] = ["a", "b"].map(|name| types.read_one(name, 60).unwrap());
    assert_eq!((a.figures.recent.started, a.figures.total.started), (0, 1));
    assert_eq!((a.errors[0].recent, a.errors[0].last_at), (0, 1_000.0));
    assert_eq!((b.figures.recent.started, b.figures.run.map(|run| run.max)), (1, Some(10.0)));
    assert_eq!((b.source.since, b.source.window_seconds), (1_000.0, 20.0));
    start(&types, "c", 4_700).succeeded(second(4_701));
    assert_eq!(names(&types), ["b", "c"], "a had no job for an hour");
}

#[test]
fn a_type_may_have_had_jobs_from_a_queue_without_a_group() {
    let types = types(5);
    for queue in ["q1", "q2", "q3", "q4"] {
        let run = types.run_of("a", second(1));
        run.start(&StartedJob { jid: "jid", queue, ready_at: None }, second(1));
    }
    start(&types, "b", 1).succeeded(second(2));
    let selected = |queue| types.read(60, Some(queue)).types.len();
    assert_eq!((selected("q1"), selected("q4"), selected("default")), (1, 1, 2));
}

#[test]
fn one_type_takes_no_more_memory_than_is_documented() {
    let slices = 12 * (size_of::<slices::TypeSlice>() + size_of::<usize>());
    let fixed = size_of::<figures::TypeFigures>();
    assert!((13_000..14_000).contains(&(slices + fixed)), "{slices} {fixed}");
    let group = size_of::<groups::EventGroup<figures::FailedJob>>() + 100 + 300 + 256;
    assert!(group <= 820, "{group}");
}
