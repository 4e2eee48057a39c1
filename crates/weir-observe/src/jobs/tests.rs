use weir_advisor::Drain;
use weir_sidekiq::{OddKey, RejectedCommand};

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn sample(
    seconds: u64,
    queues: Vec<QueueSample>,
    retries: SetSample,
    dead: SetSample,
) -> RedisSnapshot {
    RedisSnapshot {
        at: at(seconds),
        lengths_at: at(seconds),
        counted_at: at(seconds),
        queues: Ok(queues),
        processes: Ok(Vec::new()),
        ghosts: Vec::new(),
        scheduled: Ok(SetSample::default()),
        retries: Ok(retries),
        dead: Ok(dead),
        processed: Ok(0),
        failed: Ok(0),
        days: None,
        classes: None,
        server: None,
        foreign_keys: None,
        odd: Vec::new(),
        cut: Vec::new(),
        commands: 0,
    }
}

fn queue(name: &str, length: u64, newest: &[u64]) -> QueueSample {
    let newest = newest.iter().map(|seconds| at(*seconds)).collect();
    let oldest = Some(at(100));
    QueueSample {
        name: name.to_owned(),
        pushed: true,
        length,
        newest,
        oldest,
        ..QueueSample::default()
    }
}

fn set(size: u64) -> SetSample {
    SetSample { size, due: size, first: Some(at(100)), ..SetSample::default() }
}

#[test]
fn two_looks_give_flows_of_queues_and_sets() {
    // Four jobs arrive per second and 100 are completed.
    let newest: Vec<u64> = (191..=210).rev().flat_map(|second| [second; 4]).collect();
    let first =
        sample(200, vec![queue("pull", 10_960, &[]), queue("gone", 5, &[])], set(1_000), set(7));
    let second =
        sample(210, vec![queue("pull", 10_000, &newest), queue("new", 3, &[])], set(1_050), set(7));
    let Fact::Known(jobs) = jobs(&first, &second) else { panic!() };
    let pull = jobs.queue("pull").unwrap();
    assert_eq!((pull.length, pull.latency), (10_000, Duration::from_secs(110)));
    let flow = pull.flow.known().unwrap();
    assert_eq!((flow.before, flow.after, flow.window.as_secs()), (10_960, 10_000, 10));
    assert_eq!(flow.net_per_second(), -96.0);
    assert!((4.0..4.5).contains(&flow.arrivals_per_second), "{flow:?}");
    let Drain::After(left) = flow.drain() else { panic!("{flow:?}") };
    assert_eq!(left.as_secs(), 104);
    assert_eq!(jobs.queue("new").unwrap().flow.known().unwrap().before, 0);

    let retries = jobs.retries.flow.known().unwrap();
    assert_eq!((retries.arrivals_per_second, retries.drain()), (5.0, Drain::Grows));
    assert_eq!((jobs.retries.overdue, jobs.retries.overdue_by.as_secs()), (1_050, 110));
    assert_eq!((jobs.dead.size, jobs.dead.overdue), (7, 0), "the dead are not late");
}

#[test]
fn a_burst_comes_at_the_pace_of_the_whole_window_and_not_at_its_own() {
    // 340 arrivals in ten seconds, all within a tenth of one: the newest hundred alone would
    // suggest 3,400 per second.
    let millis = |at: u64| Timestamp::from_millis(at);
    let newest: Vec<_> = (0..100).map(|job| millis(209_999 - job * 3 / 10)).collect();
    let after =
        QueueSample { newest, came: Some(340), oldest: Some(at(100)), ..queue("push", 5_340, &[]) };
    let first = sample(200, vec![queue("push", 5_000, &[])], set(0), set(0));
    let second = sample(210, vec![after], set(0), set(0));
    let Fact::Known(jobs) = jobs(&first, &second) else { panic!() };
    let push = jobs.queue("push").unwrap();
    assert_eq!(push.flow.known().unwrap().arrivals_per_second, 34.0);
    assert!(!push.flow_is_least);
}

#[test]
fn rates_are_over_the_time_between_the_values_and_not_between_the_samples() {
    // Each round trip takes long: the lengths are 10 s apart, the counts 12 s, the samples 20 s, and
    // arrivals were counted until 2 s after the length.
    let came_until = Some(at(215));
    let after = QueueSample { came: Some(120), came_until, ..queue("push", 1_050, &[214]) };
    let mut first = sample(190, vec![queue("push", 1_000, &[])], set(0), set(0));
    let mut second = sample(210, vec![after], set(0), set(0));
    (first.lengths_at, second.lengths_at) = (at(203), at(213));
    (first.counted_at, second.counted_at) = (at(205), at(217));
    (first.processed, second.processed) = (Ok(1_000), Ok(1_060));
    let Fact::Known(jobs) = jobs(&first, &second) else { panic!() };
    let flow = jobs.queue("push").unwrap().flow.known().unwrap();
    assert_eq!((flow.window.as_secs(), flow.net_per_second()), (10, 5.0));
    assert_eq!((flow.arrivals_per_second, flow.served_per_second()), (10.0, 5.0));
    assert_eq!(jobs.processed_per_second, Fact::Known(5.0));
}

#[test]
fn a_list_in_which_all_is_new_may_have_had_more() {
    let after =
        QueueSample { came: Some(300), oldest: Some(at(205)), ..queue("push", 300, &[209]) };
    let first = sample(200, vec![queue("push", 7, &[])], set(0), set(0));
    let second = sample(210, vec![after], set(0), set(0));
    let Fact::Known(jobs) = jobs(&first, &second) else { panic!() };
    let push = jobs.queue("push").unwrap();
    assert_eq!(push.flow.known().unwrap().arrivals_per_second, 30.0);
    assert!(push.flow_is_least);
}

/// Returns a process whose last heartbeat was at `beat` by its own clock and `age_seconds` ago by
/// Redis' clock.
fn beating(beat: u64, age_seconds: u64) -> ProcessSample {
    let beat_age = Some(Duration::from_secs(age_seconds));
    ProcessSample { beat: Some(at(beat)), beat_age, ..process("web:7:x", false) }
}

fn seen(before: ProcessSample, now: ProcessSample) -> JobProcess {
    let mut first = sample(1_000, Vec::new(), set(0), set(0));
    let mut second = sample(1_010, Vec::new(), set(0), set(0));
    (first.processes, second.processes) = (Ok(vec![before]), Ok(vec![now]));
    let Fact::Known(jobs) = jobs(&first, &second) else { panic!() };
    jobs.processes[0].clone()
}

#[test]
fn a_process_that_missed_a_beat_is_told_from_one_that_beats() {
    assert_eq!(seen(beating(995, 5), beating(1_005, 5)).presence, ProcessPresence::Seen);
    assert_eq!(seen(beating(992, 8), beating(992, 18)).presence, ProcessPresence::Presumed);
    assert_eq!(seen(beating(990, 10), beating(990, 20)).presence, ProcessPresence::Silent);
    assert_eq!(
        seen(beating(950, 50), beating(1_009, 1)).presence,
        ProcessPresence::Seen,
        "it was late"
    );
}

#[test]
fn a_clock_that_differs_makes_no_job_old() {
    // The clock is two hours behind: a heartbeat five seconds ago, and a job taken a minute ago.
    let run_at = Some(Timestamp::from_millis(20_000_000 - 7_200_000 - 60_000));
    let work = vec![RunningJobSample { queue: "push".to_owned(), run_at, job: None }];
    let clock = |beat: u64| ProcessSample { work: work.clone(), ..beating(beat, 5) };
    let mut first = sample(20_000, Vec::new(), set(0), set(0));
    let mut second = sample(20_010, Vec::new(), set(0), set(0));
    first.processes = Ok(vec![clock(20_000 - 7_200 - 5)]);
    second.processes = Ok(vec![clock(20_010 - 7_200 - 5)]);
    let Fact::Known(jobs) = jobs(&first, &second) else { panic!() };
    let process = &jobs.processes[0];
    assert_eq!((process.clock_ahead_seconds, process.presence), (-7_200.0, ProcessPresence::Seen));
    assert_eq!(process.in_hand[0].age, Duration::from_secs(70));
    assert_eq!(process.beat_age, Duration::from_secs(5));
}

fn odd() -> RejectedCommand {
    RejectedCommand { command: "LLEN".to_owned(), reason: "wrong kind".to_owned(), grant: None }
}

#[test]
fn what_can_not_be_read_takes_nothing_else_with_it() {
    let mut first = sample(200, vec![queue("pull", 7, &[])], set(1), set(2));
    first.retries = Err(odd());
    first.processed = Err(odd());
    first.odd = vec![OddKey { what: "queue odd".to_owned(), refusal: odd() }];
    first.cut = vec!["processes_max (1000)".to_owned()];
    let second = RedisSnapshot { at: at(210), ..first.clone() };
    let Fact::Known(jobs) = jobs(&first, &second) else { panic!() };
    let unread: Vec<_> = jobs.unread.iter().map(|it| it.what.as_str()).collect();
    let expected = ["queue odd", "the retry set", "the count of finished jobs"];
    assert_eq!(unread, expected, "each once");
    assert!(jobs.processed.missing().is_some() && jobs.failed.known() == Some(&0));
    assert!(jobs.retries.flow.missing().is_some());
    assert_eq!((jobs.queue("pull").unwrap().length, jobs.dead.size), (7, 2));
    assert!(!jobs.nobody_serves("pull"), "there are more processes");
    assert!(SidekiqObservation::default().nobody_serves("pull"));
}

#[test]
fn what_came_before_the_first_look_is_no_arrival() {
    let newest = |seconds: &[u64]| queue("pull", 9, seconds);
    let rate = |seconds: &[u64]| arrivals(&newest(seconds), at(200), at(210));
    assert_eq!(rate(&[190, 190, 190]), 0.0);
    assert_eq!(rate(&[209, 205, 200, 190]), 0.2);
    assert_eq!(rate(&[209, 208, 207, 206, 205]), 1.0);
    assert_eq!(arrivals(&newest(&[190]), at(200), at(200)), 0.1);
}

#[test]
fn a_queue_that_keeps_nothing_of_before_may_have_had_more_than_is_told() {
    for (length, newest, oldest, expected) in [
        (0, &[][..], None, true),
        (2, &[209, 205], Some(205), true),
        (2, &[209, 190], Some(190), false),
        (3, &[209, 208], Some(190), false),
        (900, &[209, 208], Some(207), false),
    ] {
        let sample = QueueSample { oldest: oldest.map(at), ..queue("pull", length, newest) };
        assert_eq!(is_least(&sample, at(200)), expected, "{length} {newest:?}");
    }
}

fn process(identity: &str, quiet: bool) -> ProcessSample {
    let started_at = Some(at(110));
    ProcessSample { identity: identity.to_owned(), quiet, started_at, ..ProcessSample::default() }
}

#[test]
fn who_is_quiet_at_both_looks_was_so_between_them_and_who_has_ended_is_gone() {
    let mut first = sample(200, Vec::new(), set(0), set(0));
    first.processes =
        Ok(vec![process("busy", false), process("ends", true), process("stays", true)]);
    let still = vec![process("busy", false), process("stays", true), process("starts", false)];
    let second = RedisSnapshot { at: at(210), processes: Ok(still), ..first.clone() };
    let Fact::Known(jobs) = jobs(&first, &second) else { panic!() };
    let seen: Vec<_> = jobs
        .processes
        .iter()
        .map(|it| (it.identity.as_str(), it.quiet_for.as_secs(), it.running_for.unwrap().as_secs()))
        .collect();
    assert_eq!(seen, [("busy", 0, 100), ("stays", 10, 100), ("starts", 0, 100)]);
    assert_eq!(jobs.processes[2].presence, ProcessPresence::Seen);
    let first = RedisSnapshot { processes: Err(odd()), ..first };
    let Fact::Known(jobs) = super::jobs(&first, &second) else { panic!() };
    assert_eq!(jobs.processes[2].presence, ProcessPresence::Presumed, "it may have run before");
}

#[test]
fn one_more_failed_job_is_chance() {
    let first = sample(200, Vec::new(), set(1_000), set(7));
    let second = sample(210, Vec::new(), set(1_001), set(8));
    let Fact::Known(jobs) = jobs(&first, &second) else { panic!() };
    assert_eq!(jobs.dead.flow.known().unwrap().drain(), Drain::Stands);
}

#[test]
fn the_largest_shares_are_kept() {
    let classes = ["A", "B", "B", "C", "D", "E", "F"];
    let job = |class: &&str| JobSummary { class: (*class).to_owned(), ..JobSummary::default() };
    let sample = sample_of(&classes.iter().map(job).collect::<Vec<_>>());
    assert_eq!((sample.size, sample.classes.len()), (7, SHARES_MAX));
    assert_eq!((sample.classes[0].name.as_str(), sample.classes[0].count), ("B", 2));
    assert_eq!(sample.hosts, []);
}

#[test]
fn each_error_of_a_set_has_its_most_frequent_message() {
    let job = |error: &str, message: Option<&str>| JobSummary {
        error: Some(error.to_owned()),
        error_message: message.map(str::to_owned),
        ..JobSummary::default()
    };
    let jobs = [
        job("IOError", Some("closed stream")),
        job("Timeout", Some("after 9 s")),
        job("Timeout", Some("after 10 s")),
        job("Timeout", Some("after 10 s")),
        job("KeyError", None),
    ];
    let messages = failed_sample_of(&jobs, at(1_000)).error_messages;
    let of = |error: &str| messages.get(error).map(String::as_str);
    assert_eq!((of("IOError"), of("Timeout")), (Some("closed stream"), Some("after 10 s")));
    assert_eq!(of("KeyError"), None);
    assert_eq!(sample_of(&jobs).error_messages.len(), 0, "a queue's are not reported");
}

#[test]
fn failed_jobs_are_grouped_by_class_and_error_with_their_times() {
    let job = |class: &str, failed: u64, retried: Option<u64>, bytes| JobSummary {
        class: class.to_owned(),
        error: Some("IOError".to_owned()),
        failed_at: Some(at(failed)),
        retried_at: retried.map(at),
        bytes,
        ..JobSummary::default()
    };
    let jobs = [job("A", 100, Some(900), 10), job("A", 400, None, 30), job("B", 990, None, 500)];
    let sample = failed_sample_of(&jobs, at(1_000));
    let first = &sample.failing[0];
    assert_eq!((first.class.as_str(), first.error.as_str(), first.count), ("A", "IOError", 2));
    let seconds = [first.first_before, first.last_before].map(|it| it.as_secs());
    assert_eq!(seconds, [900, 100]);
    let sizes: Vec<_> = sample
        .payloads
        .iter()
        .map(|it| (it.class.as_str(), it.mean_bytes, it.largest_bytes))
        .collect();
    assert_eq!(sizes, [("B", 500, 500), ("A", 20, 30)], "the largest total first");
}

#[test]
fn due_jobs_that_are_taken_move_however_many_become_due() {
    let due =
        |due, first| SetSample { size: 900, due, first: Some(at(first)), ..SetSample::default() };
    let of = |before, after| {
        let set = job_set(&before, &after, at(200), at(210));
        (set.overdue_moves, set.overdue_fewer_per_second)
    };
    assert_eq!(of(due(500, 100), due(500, 100)), (false, 0.0), "stuck");
    assert_eq!(of(due(500, 100), due(510, 100)), (false, 0.0));
    assert_eq!(of(due(500, 100), due(480, 100)), (true, 2.0), "many are due at the same time");
    assert_eq!(of(due(500, 100), due(510, 120)), (true, 0.0));
    assert_eq!(of(due(0, 300), due(0, 310)), (false, 0.0));
}
