use std::path::Path;

use super::super::spec::GroupSpec;
use super::super::values::JobSpec;
use super::*;

/// A group whose command has these arguments.
fn blueprint(arguments: &[&str]) -> Blueprint {
    let mut command = vec!["sidekiq".to_owned()];
    command.extend(arguments.iter().map(|&argument| argument.to_owned()));
    let jobs = JobSpec::default();
    let variables = jobs.variables(&jobs.values);
    let spec =
        GroupSpec { jobs: Some(jobs), ..GroupSpec::new("mail".parse().expect("a name"), command) };
    Blueprint::new(GroupSpec { variables, ..spec }, Path::new("/run/weir")).expect("sound")
}

fn sidekiq() -> Blueprint {
    blueprint(&["-c", "{concurrency}", "{queues}"])
}

fn configured() -> GroupValues {
    GroupValues { processes: 2, threads: Some(25), queues: vec!["default".into()] }
}

fn checked(blueprint: &Blueprint, request: &OverrideRequest) -> Result<Override, String> {
    request.check(blueprint, None, configured(), 1_000)
}

fn with_queues(queues: &[&str]) -> OverrideRequest {
    let queues = Some(queues.iter().map(|&queue| queue.to_owned()).collect());
    OverrideRequest { queues, ..OverrideRequest::default() }
}

#[test]
fn values_that_are_not_named_stay_as_they_are() {
    let request = OverrideRequest { threads: Some(15), ..OverrideRequest::default() };
    let set = checked(&sidekiq(), &request).unwrap();
    assert_eq!((set.until, set.by.as_str(), set.keys()), (4_600, "an operator", vec!["threads"]));
    let after = set.applied_to(&configured(), &sidekiq());
    assert_eq!(after, GroupValues { threads: Some(15), ..configured() });
    let more = OverrideRequest {
        processes: Some(3),
        for_seconds: Some(60),
        by: "ann\n".into(),
        ..OverrideRequest::default()
    };
    let set = more.check(&sidekiq(), Some(&set), configured(), 2_000).unwrap();
    assert_eq!((set.processes, set.threads, set.until), (Some(3), Some(15), 2_060));
    assert_eq!(set.by, "ann");
}

#[test]
fn queues_become_arguments_with_their_weights() {
    let set = checked(&sidekiq(), &with_queues(&["default", "mailers=2"])).unwrap();
    assert_eq!(set.queues, Some(vec!["default".to_owned(), "mailers,2".to_owned()]));
    let joined = blueprint(&["--queues={queues}"]);
    assert!(checked(&joined, &with_queues(&["default", "mailers"])).is_ok());
    let error = checked(&joined, &with_queues(&["mailers=2"])).unwrap_err();
    assert!(error.contains("has to be an argument of its own"), "{error}");
}

#[test]
fn bad_input_is_refused_with_what_is_possible() {
    let long = "x".repeat(QUEUE_BYTES_MAX + 1);
    let many: Vec<String> = (0..=QUEUES_MAX).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let processes = |processes| OverrideRequest { processes, ..OverrideRequest::default() };
    let threads = |threads| OverrideRequest { threads, ..OverrideRequest::default() };
    let lasting = |seconds| OverrideRequest { for_seconds: Some(seconds), ..threads(Some(1)) };
    let reason = "r".repeat(OVERRIDE_REASON_BYTES_MAX + 1);
    for (request, expected) in [
        (OverrideRequest::default(), "nothing to change"),
        (processes(Some(0)), "processes: 0 is out of range; 1 to 1000"),
        (processes(Some(PROCESSES_MAX + 1)), "1 to 1000 are possible"),
        (threads(Some(0)), "threads: 0 is out of range"),
        (threads(Some(THREADS_MAX + 1)), "threads: 100001"),
        (lasting(0), "1s to 7d"),
        (lasting(OVERRIDE_MAX.as_secs() + 1), "1s to 7d"),
        (OverrideRequest { reason, ..threads(Some(1)) }, "longer than 200 bytes"),
        (with_queues(&[]), "queues: 0 are given"),
        (with_queues(&many), "queues: 101 are given"),
        (with_queues(&[""]), "has 0 bytes"),
        (with_queues(&[&long]), "has 129 bytes"),
        (with_queues(&["-r/tmp/x.rb"]), "would be an option"),
        (with_queues(&["a b"]), "a weight is written as NAME=2"),
        (with_queues(&["push,2"]), "a weight is written as NAME=2"),
        (with_queues(&["push=0"]), "is not 1 to 1000"),
        (with_queues(&["push=x"]), "is not 1 to 1000"),
        (with_queues(&["push", "push=2"]), "given twice"),
    ] {
        let error = checked(&sidekiq(), &request).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_command_without_a_placeholder_is_refused_with_the_line_to_add() {
    let plain = blueprint(&[]);
    let threads = OverrideRequest { threads: Some(1), ..OverrideRequest::default() };
    let error = checked(&plain, &threads).unwrap_err();
    assert!(error.contains("add \"-c\", \"{concurrency}\" to command"), "{error}");
    let error = checked(&plain, &with_queues(&["a"])).unwrap_err();
    assert!(error.contains("add \"{queues}\" to command"), "{error}");
    let set = Override { threads: Some(1), processes: Some(9), ..Override::default() };
    assert_eq!(set.ineffective(&plain), ["threads"]);
    let in_force = set.applied_to(&configured(), &plain);
    assert_eq!((in_force.processes, in_force.threads), (9, Some(25)));
}

#[test]
fn settings_that_changed_since_are_named() {
    let set = Override {
        threads: Some(1),
        queues: Some(vec!["a".into()]),
        configured: configured(),
        ..Override::default()
    };
    let now = GroupValues { processes: 9, threads: Some(30), ..configured() };
    assert_eq!(set.changed_settings(&now), ["threads"], "processes are not overridden");
}

#[test]
fn a_sum_beyond_the_budget_is_refused_with_the_arithmetic() {
    let group =
        |name: &str, processes, each| GroupConnections { name: name.into(), processes, each };
    let all = [group("mail", 3, 15), group("push", 2, 10)];
    assert_eq!(check_budget(&all, "mail", Some(65)), Ok(()));
    assert_eq!(check_budget(&all, "mail", None), Ok(()));
    assert_eq!(
        check_budget(&all, "mail", Some(64)).unwrap_err(),
        "mail: 3 processes x 15 connections = 45; with 20 of other groups that is 65, more than the \
         64 of [budget] (database_connections - reserve); use fewer processes or threads"
    );
}

#[test]
fn the_longest_request_fits_into_a_message() {
    let queues = (0..QUEUES_MAX).map(|number| format!("{number:0>128}=1000"));
    let request = OverrideRequest {
        queues: Some(queues.collect()),
        by: "\"".repeat(BY_BYTES_MAX),
        reason: "\"".repeat(OVERRIDE_REASON_BYTES_MAX),
        processes: Some(u32::MAX),
        threads: Some(u32::MAX),
        for_seconds: Some(u64::MAX),
        dry_run: true,
    };
    let group = "x".repeat(super::super::spec::GROUP_NAME_BYTES_MAX);
    let command = crate::control::ParentCommand::Set { group, change: request };
    let request = crate::control::ParentRequest { id: u64::MAX, command };
    let line = crate::control::encode(&request).unwrap();
    assert!(line.len() <= crate::control::REQUEST_BYTES_MAX, "{}", line.len());
}

#[test]
fn a_limit_of_threads_only_lowers_and_an_operators_number_has_precedence() {
    let limit = Override { threads: Some(5), ..Override::default() };
    let threads = |limit: Option<&Override>, set: Option<&Override>, of: GroupValues| {
        of.limited(limit, set).threads
    };
    assert_eq!(threads(Some(&limit), None, configured()), Some(5));
    assert_eq!(threads(None, None, configured()), Some(25));
    let few = GroupValues { threads: Some(3), ..configured() };
    assert_eq!(threads(Some(&limit), None, few), Some(3));
    let by_hand = Override { threads: Some(15), ..Override::default() };
    let values = GroupValues { threads: Some(15), ..configured() };
    assert_eq!(threads(Some(&limit), Some(&by_hand), values), Some(15));
    let processes = Override { processes: Some(3), ..Override::default() };
    assert_eq!(threads(Some(&limit), Some(&processes), configured()), Some(5));
    let unknown = GroupValues { threads: None, ..configured() };
    assert_eq!(threads(Some(&limit), None, unknown), None);
}
