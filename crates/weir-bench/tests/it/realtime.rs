//! `weir-bench realtime`: the envelope, and that whatever a server does wrong is found, and never makes it hang.

use std::process::{Command, Output};

use serde_json::Value;

use crate::fake_realtime::{FakeRealtime, Fault};

const CLEAN: Option<i32> = Some(0);
const ERRORS_FOUND: Option<i32> = Some(1);
const IMPOSSIBLE: Option<i32> = Some(2);
const USAGE: Option<i32> = Some(64);

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    command.args(["realtime"]).args(arguments).output().expect("weir-bench runs")
}

/// Runs a scenario with 12 clients and little patience.
fn run(server: &FakeRealtime, scenario: &str, flags: &[&str]) -> (Option<i32>, Value, String) {
    let url = format!("ws://{}", server.address);
    let mut arguments = vec!["--json", "--url", &url, "--scenario", scenario, "--clients", "12"];
    for (flag, value) in
        [("--stall-timeout-seconds", "1"), ("--settle-seconds", "0.3"), ("--seconds", "0.3")]
    {
        if !flags.contains(&flag) {
            arguments.extend([flag, value]);
        }
    }
    arguments.extend(flags);
    let output = bench(&arguments);
    let envelope = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), envelope, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What was lost, reordered and duplicated.
fn delivery_errors(envelope: &Value) -> [u64; 3] {
    ["lost", "reordered", "duplicated"].map(|key| envelope[key].as_u64().expect("a number"))
}

fn first_error(envelope: &Value) -> &str {
    envelope["first_error"].as_str().unwrap_or_default()
}

const AT_A_RATE: [&str; 2] = ["--rate", "100"];

#[test]
fn fanout_reports_the_envelope_and_every_delivery() {
    let pid = std::process::id().to_string();
    for protocol in ["pusher", "centrifugo"] {
        for pace in [["--in-flight", "1"], ["--in-flight", "8"], AT_A_RATE] {
            let server = FakeRealtime::start(Fault::None);
            let arguments = ["--channels", "3", "--server-pid", &pid, "--protocol", protocol];
            let (code, envelope, stderr) =
                run(&server, "fanout", &[&arguments[..], &pace].concat());
            assert_eq!(code, CLEAN, "{protocol} {pace:?}: {envelope} {stderr}");
            assert_eq!(
                (&envelope["bench"], delivery_errors(&envelope)),
                (&"realtime".into(), [0; 3])
            );
            let events = server.published();
            assert!(events > 3, "{events} events");
            assert_eq!(envelope["deliveries"], events * 4, "12 clients on 3 channels");
            for figure in [
                "p99_us",
                "last_client_p50_us",
                "last_client_p99_us",
                "publish_p50_us",
                "publish_p99_us",
                "connects_per_second",
                "bytes_received",
                "client_cpu_seconds",
            ] {
                let value = envelope[figure].as_f64();
                assert!(value.is_some_and(|value| value > 0.0), "{figure}: {envelope}");
            }
            assert!(envelope["publisher_nice"].is_number(), "{envelope}");
            assert!(envelope["rss_bytes_per_connection"].is_number(), "{envelope}");
            assert!(envelope["connect_server_cpu_us"].is_number(), "{envelope}");
        }
    }
}

#[test]
fn lost_event_is_counted_once_and_ends_the_wait() {
    let (code, envelope, _) = run(&FakeRealtime::start(Fault::LosesAnEvent), "fanout", &AT_A_RATE);
    assert_eq!((code, delivery_errors(&envelope)), (ERRORS_FOUND, [1, 0, 0]), "{envelope}");
    assert_eq!(first_error(&envelope), "1 deliveries of accepted events never came");
    let in_flight = ["--in-flight", "1"];
    let (code, envelope, _) = run(&FakeRealtime::start(Fault::LosesAnEvent), "fanout", &in_flight);
    assert_eq!((code, delivery_errors(&envelope)), (ERRORS_FOUND, [1, 0, 0]), "{envelope}");
}

#[test]
fn pings_do_not_extend_the_wait_for_a_lost_event() {
    let server = FakeRealtime::start(Fault::LosesAnEventAndNeverRests);
    let (code, envelope, _) = run(&server, "fanout", &AT_A_RATE);
    assert_eq!((code, delivery_errors(&envelope)), (ERRORS_FOUND, [1, 0, 0]), "{envelope}");
}

/// One client has nothing until 4 events are under way at once.
#[test]
fn events_in_flight_follow_the_flag() {
    let server = FakeRealtime::start(Fault::HoldsEvents(4));
    let (code, envelope, _) = run(&server, "fanout", &["--in-flight", "3"]);
    assert_eq!((code, delivery_errors(&envelope)), (ERRORS_FOUND, [3, 0, 0]), "{envelope}");
    assert_eq!(server.published(), 3, "no fourth before one of three has arrived everywhere");
    let server = FakeRealtime::start(Fault::HoldsEvents(4));
    let (code, envelope, _) = run(&server, "fanout", &["--in-flight", "4"]);
    assert_eq!((code, delivery_errors(&envelope)), (CLEAN, [0; 3]), "{envelope}");
    assert!(server.published() > 4);
}

#[test]
fn repeated_event_is_counted_once() {
    for protocol in ["pusher", "centrifugo"] {
        let arguments = ["--rate", "100", "--protocol", protocol];
        let (code, envelope, _) =
            run(&FakeRealtime::start(Fault::RepeatsAnEvent), "fanout", &arguments);
        assert_eq!((code, delivery_errors(&envelope)), (ERRORS_FOUND, [0, 0, 1]), "{envelope}");
    }
}

/// If the victim hears first, its order is the channel's, and all others are wrong.
#[test]
fn reordering_is_detected() {
    let (code, envelope, _) =
        run(&FakeRealtime::start(Fault::ReordersEvents), "fanout", &AT_A_RATE);
    let [lost, reordered, duplicated] = delivery_errors(&envelope);
    assert_eq!((code, lost, duplicated), (ERRORS_FOUND, 0, 0), "{envelope}");
    assert!(reordered >= 1, "{envelope}");
}

#[test]
fn rejected_publishes_are_errors_but_not_lost() {
    let server = FakeRealtime::start(Fault::RefusesPublishes);
    let (code, envelope, _) = run(&server, "fanout", &AT_A_RATE);
    assert_eq!((code, delivery_errors(&envelope)), (ERRORS_FOUND, [0; 3]), "{envelope}");
    assert!(first_error(&envelope).contains("401 Unauthorized"), "{envelope}");
}

#[test]
fn closed_client_is_an_error() {
    let server = FakeRealtime::start(Fault::ClosesTheVictim);
    let (code, envelope, _) = run(&server, "fanout", &AT_A_RATE);
    assert_eq!((code, &envelope["closed"]), (ERRORS_FOUND, &1.into()), "{envelope}");
    assert!(first_error(&envelope).contains("4200"), "{envelope}");
}

#[test]
fn clients_use_the_configured_source_addresses() {
    let server = FakeRealtime::start(Fault::None);
    let arguments = ["--source-addresses", "3", "--connects-in-flight", "2"];
    let (code, envelope, _) = run(&server, "connect", &arguments);
    assert_eq!((code, server.sources()), (CLEAN, 3), "{envelope}");
    let (rate, seconds) = (&envelope["operations_per_second"], &envelope["seconds"]);
    let clients = rate.as_f64().expect("a rate") * seconds.as_f64().expect("a time");
    assert!((clients - 12.0).abs() < 0.5, "{envelope}");
}

#[test]
fn temporarily_rejected_clients_reconnect() {
    for threads in ["1", "5"] {
        let server = FakeRealtime::start(Fault::IsBusyAtFirst);
        let arguments = ["--stall-timeout-seconds", "10", "--client-threads", threads];
        let (code, envelope, _) = run(&server, "connect", &arguments);
        assert_eq!((code, &envelope["refused"]), (CLEAN, &3.into()), "{envelope}");
    }
}

#[test]
fn clients_of_several_threads_receive_in_one_pool() {
    for scenario in ["fanout", "storm"] {
        let server = FakeRealtime::start(Fault::None);
        let arguments = ["--client-threads", "5", "--channels", "3", "--source-addresses", "2"];
        let (code, envelope, stderr) =
            run(&server, scenario, &[&arguments[..], &AT_A_RATE].concat());
        assert_eq!(
            (code, delivery_errors(&envelope)),
            (CLEAN, [0; 3]),
            "{scenario}: {envelope} {stderr}"
        );
        assert_eq!(envelope["deliveries"], server.published() * 4, "12 clients on 3 channels");
        assert_eq!(server.sources(), 2);
    }
}

#[test]
fn rejecting_server_ends_the_run_with_its_error() {
    for (fault, reason) in [
        (Fault::NeverSubscribes, "no answer"),
        (Fault::ClosesAtOnce(4001), "Code(4001)"),
        (Fault::ClosesAtOnce(4100), "no answer"),
    ] {
        let (code, _, stderr) = run(&FakeRealtime::start(fault), "connect", &[]);
        assert_eq!(code, IMPOSSIBLE, "{stderr}");
        assert!(stderr.contains("only 0 of 12 clients") && stderr.contains(reason), "{stderr}");
    }
}

const STORM: [&str; 6] = ["--rate", "100", "--seconds", "20", "--stall-timeout-seconds", "1"];

#[test]
fn all_clients_recover_after_a_storm() {
    let server = FakeRealtime::start(Fault::None);
    let (code, envelope, stderr) = run(&server, "storm", &STORM);
    assert_eq!((code, delivery_errors(&envelope)), (CLEAN, [0; 3]), "{envelope} {stderr}");
    assert_eq!((&envelope["recovered"], server.recoveries()), (&12.into(), 12), "{envelope}");
    assert_eq!((&envelope["gaps"], &envelope["offset_jumps"]), (&0.into(), &0.into()));
    assert!(envelope["all_back_s"].as_f64().is_some_and(|seconds| seconds > 0.0), "{envelope}");
    assert_eq!((&envelope["back"], &envelope["never_back"]), (&12.into(), &0.into()));
    assert_eq!(envelope["deliveries"], server.published() * 12);
}

#[test]
fn storm_without_reconnects_ends_after_patience_seconds() {
    let server = FakeRealtime::start(Fault::LetsNobodyBack);
    let arguments = ["--rate", "100", "--seconds", "20", "--patience-seconds", "1.5"];
    let (code, envelope, stderr) = run(&server, "storm", &arguments);
    assert_eq!(code, ERRORS_FOUND, "{envelope} {stderr}");
    assert_eq!((&envelope["back"], &envelope["never_back"]), (&0.into(), &12.into()));
    assert!(envelope["all_back_s"].is_null() && envelope["refused"].as_u64() >= Some(12));
    assert!(envelope["lost"].as_u64() > Some(0), "{envelope}");
    assert_eq!(first_error(&envelope), "12 clients did not come back");
}

#[test]
fn storm_by_the_server_is_waited_for() {
    for code in [4100, 4200] {
        let server = FakeRealtime::start(Fault::ClosesEverybody(code));
        let arguments = [&STORM[..], &["--storm", "server"]].concat();
        let (exit, envelope, stderr) = run(&server, "storm", &arguments);
        assert_eq!((exit, delivery_errors(&envelope)), (CLEAN, [0; 3]), "{envelope} {stderr}");
        assert_eq!((&envelope["closed"], server.recoveries()), (&12.into(), 12), "{envelope}");
    }
    let arguments = ["--storm", "server", "--rate", "100"];
    let (exit, _, stderr) = run(&FakeRealtime::start(Fault::None), "storm", &arguments);
    assert_eq!(exit, IMPOSSIBLE);
    assert!(stderr.contains("the server closed nobody"), "{stderr}");
}

#[test]
fn events_missing_from_a_recovery_are_lost() {
    let (code, envelope, _) = run(&FakeRealtime::start(Fault::ForgetsHistory), "storm", &STORM);
    assert_eq!((code, &envelope["gaps"]), (ERRORS_FOUND, &12.into()), "{envelope}");
    assert!(envelope["lost"].as_u64() > Some(0), "{envelope}");
    let (code, envelope, _) = run(&FakeRealtime::start(Fault::RecoversTooLittle), "storm", &STORM);
    assert_eq!((code, &envelope["gaps"]), (ERRORS_FOUND, &0.into()), "{envelope}");
    let (lost, jumps) = (envelope["lost"].as_u64(), envelope["offset_jumps"].as_u64());
    assert!(lost > Some(0) && jumps > Some(0), "{envelope}");
}

#[test]
fn permanently_rejected_client_in_a_storm_is_an_error() {
    let server = FakeRealtime::start(Fault::ClosesEverybody(4009));
    let arguments =
        ["--storm", "server", "--rate", "100", "--seconds", "20", "--patience-seconds", "1"];
    let (code, envelope, _) = run(&server, "storm", &arguments);
    assert_eq!((code, &envelope["refused_for_good"]), (ERRORS_FOUND, &12.into()), "{envelope}");
    assert!(envelope["all_back_s"].is_null(), "{envelope}");
}

#[test]
fn members_learn_the_count_and_followers_the_list() {
    let server = FakeRealtime::start(Fault::None);
    let (code, envelope, stderr) = run(&server, "presence", &["--followers", "3"]);
    assert_eq!(code, CLEAN, "{envelope} {stderr}");
    for phase in ["", "leave_"] {
        for figure in ["count_all_s", "lists_exact_s", "members_cpu_seconds"] {
            let value = &envelope[format!("{phase}{figure}")];
            assert_eq!(value.is_number(), figure != "members_cpu_seconds", "{figure}: {envelope}");
        }
        for figure in ["wrong_counts", "wrong_lists"] {
            assert_eq!(envelope[format!("{phase}{figure}")], 0, "{figure}: {envelope}");
        }
        assert!(envelope[format!("{phase}members_bytes_received")].as_u64() > Some(500));
    }
    // Each client is told by its own subscription and of all who come after it; 3 of them otherwise.
    let heard = |figure: &str| envelope[figure].as_u64().expect("a number");
    assert_eq!(heard("member_counts"), 12, "{envelope}");
    assert_eq!(heard("member_events") + heard("member_changes"), 12 * 11 / 2, "{envelope}");
    assert!(heard("member_pages") >= 1 + 2 + 3, "a page has one member: {envelope}");
    assert_eq!(envelope["leave_member_changes"], 6 * 3, "{envelope}");
    assert_eq!(envelope["leave_member_pages"], 0);
}

#[test]
fn wrong_member_count_is_an_error() {
    let none = ["--followers", "0"];
    let server = FakeRealtime::start(Fault::MiscountsMembers);
    let (code, envelope, _) = run(&server, "presence", &none);
    assert_eq!((code, &envelope["wrong_counts"]), (ERRORS_FOUND, &1.into()), "{envelope}");
    assert!(envelope["count_all_s"].is_null() && envelope["lists_exact_s"].is_number());
    assert!(first_error(&envelope).contains("1 of 12 clients"), "{envelope}");
    let (code, envelope, _) = run(&FakeRealtime::start(Fault::KeepsMembers), "presence", &none);
    assert_eq!((code, &envelope["wrong_counts"]), (ERRORS_FOUND, &0.into()), "{envelope}");
    assert_eq!(envelope["leave_wrong_counts"], 1, "{envelope}");
    assert!(first_error(&envelope).contains("1 of 6 clients"), "{envelope}");
}

/// The victim comes first, and the first is a follower.
#[test]
fn wrong_member_list_is_an_error_with_a_correct_count() {
    for (fault, why) in [
        (Fault::MislistsMembers, "client 0: 1 of 6 members are wrong"),
        (Fault::LosesADifference, "client 0: no difference came from version 12 to 13"),
    ] {
        let arguments = ["--followers", "3"];
        let (code, envelope, _) = run(&FakeRealtime::start(fault), "presence", &arguments);
        assert_eq!((code, &envelope["leave_wrong_lists"]), (ERRORS_FOUND, &1.into()), "{envelope}");
        for figure in ["wrong_lists", "wrong_counts", "leave_wrong_counts"] {
            assert_eq!(envelope[figure], 0, "{figure}: {envelope}");
        }
        assert!(first_error(&envelope).contains(why), "{envelope}");
        let (lists, counts) = (&envelope["leave_lists_exact_s"], &envelope["leave_count_all_s"]);
        assert!(lists.is_null() && counts.is_number(), "{envelope}");
    }
}

#[test]
fn server_without_member_lists_is_an_error_for_followers_only() {
    let server = FakeRealtime::start(Fault::KnowsNoLists);
    let (code, envelope, _) = run(&server, "presence", &[]);
    assert_eq!((code, &envelope["wrong_lists"]), (ERRORS_FOUND, &6.into()), "{envelope}");
    assert!(first_error(&envelope).contains("does not tell how members change"), "{envelope}");
    let server = FakeRealtime::start(Fault::KnowsNoLists);
    let (code, envelope, _) = run(&server, "presence", &["--followers", "0"]);
    assert_eq!(code, CLEAN, "{envelope}");
}

#[test]
fn slow_clients_are_not_waited_for() {
    let server = FakeRealtime::start(Fault::None);
    let (code, envelope, stderr) = run(&server, "slow", &["--slow", "3", "--rate", "100"]);
    assert_eq!((code, delivery_errors(&envelope)), (CLEAN, [0; 3]), "{envelope} {stderr}");
    let operations = |key: &str| envelope[key]["operations"].as_u64().expect("a number");
    let (without, with) = (operations("without_slow"), operations("with_slow"));
    assert!(without > 0 && without.is_multiple_of(12), "{envelope}");
    assert!(with > 0 && with.is_multiple_of(9), "{envelope}");
    assert_eq!(without / 12 + with / 9, server.published());
    assert_eq!(envelope["slow_endings"], serde_json::json!({}), "they are still there");
}

#[test]
fn close_reasons_of_slow_clients_are_reported() {
    // Everybody who reads has read all events but the last when the next is published.
    let server = FakeRealtime::start(Fault::ClosesSlowClients(20));
    let arguments = ["--slow", "3", "--in-flight", "1", "--seconds", "1"];
    let (code, envelope, stderr) = run(&server, "slow", &arguments);
    assert_eq!((code, delivery_errors(&envelope)), (CLEAN, [0; 3]), "{envelope} {stderr}");
    let expected = serde_json::json!({ "closed with 4100": 3 });
    assert_eq!(envelope["slow_endings"], expected, "{envelope}");
}

#[test]
fn floor_needs_no_server() {
    let output = bench(&["--json", "--scenario", "floor", "--clients", "20", "--seconds", "0.2"]);
    let envelope: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), CLEAN, "{envelope}");
    for figure in ["cpu_us_per_write_of_1_frame", "cpu_us_per_frame_of_8", "operations_per_second"]
    {
        assert!(envelope[figure].as_f64().is_some_and(|value| value > 0.0), "{envelope}");
    }
}

#[test]
fn comparison_runs_every_peer_in_every_round() {
    let (one, other) = (FakeRealtime::start(Fault::None), FakeRealtime::start(Fault::None));
    let peers = [
        format!("one=pusher,ws://{},app:key:secret", one.address),
        format!("other=centrifugo,ws://{},app:key:secret", other.address),
    ];
    let mut arguments = vec!["compare", "--peer", &peers[0], "--peer", &peers[1], "--floor"];
    arguments.extend(["--rounds", "2", "--clients", "2,4", "--scenario", "fanout"]);
    arguments.extend(["--seconds", "0.2", "--settle-seconds", "0"]);
    let output = bench(&arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), CLEAN, "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 2 * 2 * 3);
    for line in [
        "| fanout, 2 clients, events in flight: 1 | one | other | one/other | floor | one/floor |",
        "| fanout, 4 clients, events in flight: 1 | one | other | one/other | floor | one/floor |",
        "| lost | 0.0 | 0.0 | - | - | - |",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(one.published() > 0 && other.published() > 0);
}

#[test]
fn usage_errors_and_impossible_settings_have_different_exit_codes() {
    assert_eq!(bench(&[]).status.code(), USAGE);
    assert_eq!(bench(&["--scenario", "fanout", "--app", "incomplete"]).status.code(), USAGE);
    let both = ["--scenario", "fanout", "--rate", "1", "--in-flight", "1"];
    assert_eq!(bench(&both).status.code(), USAGE);
    let server = FakeRealtime::start(Fault::None);
    for (scenario, flags) in [
        ("fanout", ["--payload-bytes", "20"]),
        ("fanout", ["--rate", "0"]),
        ("fanout", ["--source-addresses", "0"]),
        ("slow", ["--slow", "12"]),
        ("presence", ["--protocol", "centrifugo"]),
        ("presence", ["--followers", "7"]),
        ("storm", ["--in-flight", "1"]),
        ("storm", ["--patience-seconds", "0"]),
        ("fanout", ["--client-threads", "0"]),
        ("presence", ["--client-threads", "2"]),
    ] {
        let (code, _, stderr) = run(&server, scenario, &flags);
        assert_eq!(code, IMPOSSIBLE, "{flags:?}");
        let named = stderr.contains(flags[0]) || stderr.contains("--scenario storm");
        assert!(named, "{flags:?}: {stderr}");
    }
}
