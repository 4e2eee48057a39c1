//! Waiting, hanging up, being told: what happens to jobs, workers and connections over time.

use std::net::Shutdown;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::faktory_server::{PATIENCE, STORES, Server, until};
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::handle::WorkerSignal;
use weir_jobs::server::OwnerEnd;
use weir_jobs::settings::{JobServerSettings, StoreKind};

const JOB: &str = r#"{"jid":"12345678","jobtype":"T","args":[]}"#;

/// A FETCH in these tests ends because of what the test does, not because its wait is over.
fn long_wait(settings: &mut JobServerSettings) {
    settings.limits.fetch_wait = 10 * PATIENCE;
}

fn fetches_waiting(server: &Server) -> u64 {
    server.block_on(server.handle().overview()).expect("an answer").fetches_waiting
}

#[test]
fn work_wakes_a_waiting_fetch_on_any_of_its_queues() {
    for store in STORES {
        let server = Server::start(store, long_wait);
        let mut worker = server.worker("w1");
        worker.talk("> FETCH a b default");
        until("the FETCH waits", || fetches_waiting(&server) == 1);
        server.producer().talk(&format!("> PUSH {JOB}\n< +OK"));
        worker.talk("< $*12345678*");
    }
}

#[test]
fn a_waiting_fetch_holds_no_buffer() {
    let server = Server::start(StoreKind::Memory, long_wait);
    let mut worker = server.worker("w1");
    worker.talk("> FETCH default");
    until("the FETCH waits and holds nothing", || {
        let scraped = server.scrape();
        scraped.contains("weir_jobs_fetches_waiting 1\n")
            && scraped.contains("weir_jobs_buffered_bytes 0\n")
    });
}

#[test]
fn a_client_that_hangs_up_while_it_waits_leaves_the_job_in_its_queue() {
    for store in STORES {
        let server = Server::start(store, long_wait);
        let mut gone = server.worker("w1");
        gone.talk("> FETCH default");
        until("the FETCH waits", || fetches_waiting(&server) == 1);
        drop(gone);
        until("the hang-up is noticed", || fetches_waiting(&server) == 0);
        server.producer().talk(&format!("> PUSH {JOB}\n< +OK"));
        server.worker("w2").talk("> FETCH default\n< $*12345678*");
    }
}

#[test]
fn closing_only_its_sending_side_counts_as_hanging_up() {
    let server = Server::start(StoreKind::Memory, long_wait);
    let mut worker = server.worker("w1");
    worker.talk("> FETCH default");
    until("the FETCH waits", || fetches_waiting(&server) == 1);
    worker.socket().shutdown(Shutdown::Write).expect("a shutdown");
    worker.talk("< closed");
}

#[test]
fn what_was_sent_before_the_end_is_still_answered() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        client.send(format!("PUSH {JOB}\nINFO\nFETCH default\nPUSH half").as_bytes());
        client.socket().shutdown(Shutdown::Write).expect("a shutdown");
        client.talk("< +OK\n< $*\"default\":1*\n< $*12345678*\n< closed");
    }
}

#[test]
fn a_reservation_stays_when_its_connection_closes() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut worker = server.worker("w1");
        worker.talk(&format!("> PUSH {JOB}\n< +OK\n> FETCH default\n< $*12345678*"));
        drop(worker);
        let connections = || server.block_on(server.handle().overview()).unwrap().connections;
        until("the connection is gone", || connections() == 0);
        let mut other = server.worker("w2");
        other.talk("> FETCH default\n< $-1\n> INFO\n< $*\"working\":1*");
        other.talk("> ACK {\"jid\":\"12345678\"}\n< +OK\n> INFO\n< $*\"working\":1*");
        let mut again = server.worker("w1");
        again.talk("> ACK {\"jid\":\"12345678\"}\n< +OK\n> INFO\n< $*\"working\":0*");
    }
}

#[test]
fn what_time_brings_is_in_the_tasks_of_info() {
    for store in STORES {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let server = Server::start_with(store, None, clock.clone(), |settings| {
            settings.limits.heartbeat_timeout = Duration::from_millis(50);
        });
        let _dead = server.worker("dead");
        let mut client = server.producer();
        // Due in 50 ms: until the clock is moved, the store looks at it that often.
        client.talk(
            r#"> PUSH {"jid":"12345678","jobtype":"T","args":[],"at":"2023-11-14T22:13:20.05Z"}
               < +OK
               > PUSH {"jid":"lapses-01","jobtype":"T","args":[],"queue":"q","reserve_for":60}
               < +OK
               > FETCH q
               < $*lapses-01*"#,
        );
        clock.advance(Duration::from_secs(60));
        until("the job is due, the reservation lapsed and the worker is gone", || {
            // The step above looks like a pause of the server, after which workers live on.
            clock.advance(Duration::from_millis(1));
            client.send(b"INFO\r\n");
            let info = client.reply();
            let json: serde_json::Value = serde_json::from_str(&info[1..]).expect("JSON");
            let tasks = &json["faktory"]["tasks"];
            let scheduled = &tasks["Scheduled"];
            let gone = serde_json::json!({"reaped": 1, "size": 0});
            (&tasks["Workers"], &tasks["Busy"]) == (&gone, &gone)
                && (&scheduled["enqueued"], &scheduled["size"]) == (&1.into(), &0.into())
                && scheduled["cycles"].as_u64() > Some(0)
        });
    }
}

#[test]
fn a_worker_that_stops_beating_is_reaped_and_its_jobs_return() {
    for store in STORES {
        let server = Server::start(store, |settings| {
            long_wait(settings);
            settings.limits.heartbeat_timeout = Duration::from_millis(300);
        });
        let mut dead = server.worker("dead");
        dead.talk(&format!("> PUSH {JOB}\n< +OK\n> FETCH default\n< $*12345678*"));
        let mut alive = server.worker("alive");
        until("the dead one is reaped", || {
            alive.talk("> BEAT {\"wid\":\"alive\"}\n< +OK");
            let workers = server.block_on(server.handle().workers()).unwrap();
            workers.iter().all(|worker| worker.wid == "alive")
        });
        dead.talk("< closed");
        alive.talk("> FETCH default\n< $*12345678*\n> BEAT {\"wid\":\"dead\"}");
        alive.talk("< -ERR unknown worker dead");
    }
}

#[test]
fn another_process_under_the_wid_of_a_killed_worker_does_not_have_its_jobs() {
    for store in STORES {
        let server = Server::start(store, long_wait);
        let process = |pid| {
            let mut client = server.dial();
            let hello = format!(r#"HELLO {{"v":2,"wid":"w1","pid":{pid}}}"#);
            client.talk(&format!("< +HI {{\"v\":2}}\n> {hello}\n< +OK"));
            client
        };
        let connections = || server.block_on(server.handle().overview()).unwrap().connections;
        let mut first = process(7);
        first.talk(&format!("> PUSH {JOB}\n< +OK\n> FETCH default\n< $*12345678*"));
        drop(first);
        until("the connection is gone", || connections() == 0);
        let again = process(7);
        let working = || server.block_on(server.handle().overview()).unwrap().working;
        assert_eq!(working(), 1, "its network was away");
        drop(again);
        until("the connection is gone", || connections() == 0);
        let mut other = process(8);
        other.talk("> FETCH default\n< $*12345678*");
        other.talk("> ACK {\"jid\":\"12345678\"}\n< +OK\n> INFO\n< $*\"working\":0*");
    }
}

#[test]
fn a_worker_told_to_be_quiet_stops_waiting_at_once() {
    for store in STORES {
        let server = Server::start(store, long_wait);
        let mut worker = server.worker("w1");
        worker.talk("> FETCH default");
        until("the FETCH waits", || fetches_waiting(&server) == 1);
        let told = server.handle();
        let told = server.block_on(told.signal_workers(Some("w1".into()), WorkerSignal::Quiet));
        assert_eq!(told, Ok(1));
        worker.talk("< $-1\n> BEAT {\"wid\":\"w1\"}\n< ${\"state\":\"quiet\"}");
        server.producer().talk(&format!("> PUSH {JOB}\n< +OK\n> INFO\n< $*\"default\":1*"));
    }
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.worker("w1");
        let mut sent = String::new();
        let mut wanted = String::new();
        for number in 0..500 {
            sent +=
                &format!("PUSH {{\"jid\":\"job-{number:05}\",\"jobtype\":\"T\",\"args\":[]}}\n");
            wanted += "< +OK\n";
            if number % 7 == 0 {
                sent += "PUSH {\"jid\":\"bad\"}\nNONSENSE\n";
                wanted += "< -ERR jobs must have a reasonable jid*\n< -ERR unknown command*\n";
            }
        }
        for number in 0..500 {
            sent += &format!("FETCH default\nACK {{\"jid\":\"job-{number:05}\"}}\nACK {{}}\n");
            wanted += &format!("< $*job-{number:05}*\n< +OK\n< -ERR malformed ACK*\n");
        }
        client.send(sent.as_bytes());
        client.talk(&wanted);
        client.talk("> INFO\n< $*\"working\":0*\"total_processed\":500*");
    }
}

#[test]
fn replies_before_a_fetch_that_waits_are_sent_first() {
    let server = Server::start(StoreKind::Memory, long_wait);
    let mut client = server.worker("w1");
    client.send(b"BEAT {\"wid\":\"w1\"}\nFETCH default\n");
    client.talk("< +OK");
}

#[test]
fn a_graceful_end_answers_waiting_fetches_and_closes_cleanly() {
    for store in STORES {
        let server = Server::start(store, long_wait);
        let mut waiting = server.worker("w1");
        waiting.talk("> FETCH default");
        let mut idle = server.producer();
        until("the FETCH waits", || fetches_waiting(&server) == 1);
        server.stop_gracefully();
        waiting.talk("< $-1\n< closed");
        idle.talk("< closed");
        let handle = server.handle();
        let outcome = server.join();
        assert_eq!((outcome.ended, outcome.closed), (OwnerEnd::Clean, Ok(())));
        assert!(!handle.is_running());
    }
}

#[test]
fn the_second_word_ends_it_at_once() {
    let server = Server::start(StoreKind::Memory, |_| {});
    let mut stuck = server.producer();
    // A client that never reads keeps its connection busy for as long as it is allowed to.
    let job =
        format!("PUSH {{\"jid\":\"12345678\",\"jobtype\":\"{}\",\"args\":[]}}\n", "T".repeat(99));
    stuck.send(job.as_bytes());
    server.stop_at_once();
    let outcome = server.join();
    assert_eq!(outcome.closed, Ok(()));
}

#[test]
fn jobs_survive_a_restart_of_the_embedded_server() {
    let directory = tempfile::tempdir().unwrap();
    let inside = |settings: &mut JobServerSettings| {
        settings.directory = directory.path().join("jobs");
        settings.limits.fetch_wait = Duration::from_millis(20);
    };
    let server = Server::start(StoreKind::Embedded, inside);
    server.producer().talk(&format!("> PUSH {JOB}\n< +OK"));
    server.stop_gracefully();
    assert_eq!(server.join().closed, Ok(()));
    let server = Server::start(StoreKind::Embedded, inside);
    server.worker("w1").talk("> FETCH default\n< $*12345678*");
}

#[test]
fn settings_are_reloaded_while_it_runs() {
    let server = Server::start(StoreKind::Memory, |_| {});
    server.producer().talk("> FLUSH\n< -ERR FLUSH is not allowed*");
    let mut settings =
        JobServerSettings { store: StoreKind::Memory, ..JobServerSettings::default() };
    settings.allow_flush = true;
    settings.limits.queues_max = 1;
    let fixed = server.block_on(server.handle().reload(settings)).unwrap();
    assert!(fixed.contains(&"jobs.limits.advanced.queues_max".to_owned()), "{fixed:?}");
    server.producer().talk("> FLUSH\n< +OK");
}

/// Wherever a client stops, the server goes on and keeps nothing.
#[test]
fn a_client_may_hang_up_at_any_byte() {
    let server = Server::start(StoreKind::Memory, |_| {});
    let push = format!("PUSHB [{JOB}]\r\n");
    let talk =
        format!("HELLO {{\"v\":2,\"wid\":\"w1\"}}\r\n{push}FETCH default\r\nMUTATE {{}}\r\n");
    for length in 0..talk.len() {
        let mut client = server.dial();
        client.send(&talk.as_bytes()[..length]);
        drop(client);
    }
    let overview = || server.block_on(server.handle().overview()).unwrap();
    until("all are gone", || overview().connections == 0);
    server.producer().talk("> INFO\n< $*");
    let buffered = || server.scrape().contains("weir_jobs_buffered_bytes 0\n");
    until("no buffer is kept", buffered);
}

/// Lines of commands with contents of all kinds, none of which ends the connection.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let verbs =
        ["PUSH", "PUSHB", "FETCH", "ACK", "FAIL", "BEAT", "INFO", "FLUSH", "QUEUE", "MUTATE"];
    let verb = prop_oneof![
        8 => proptest::sample::select(verbs.to_vec()).prop_map(str::to_owned),
        1 => "[A-Za-z]{0,8}".prop_filter("the end", |word| word != "END"),
    ];
    let rest = prop_oneof![
        Just(JOB.as_bytes().to_vec()),
        Just(format!("[{JOB},7,{JOB}]").into_bytes()),
        Just(br#"{"jid":"12345678","wid":"w1","errtype":"E"}"#.to_vec()),
        Just(br#"{"cmd":"clear","target":"dead","filter":{"regexp":"[*\\"}}"#.to_vec()),
        Just(b"PAUSE * a LATENCY".to_vec()),
        "\\PC{0,40}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    (verb, rest).prop_map(|(verb, rest)| {
        let mut line = format!("{verb} ").into_bytes();
        line.extend(rest.into_iter().filter(|byte| *byte != b'\n'));
        line.push(b'\n');
        line
    })
}

/// Whatever the lines hold and however they are cut into packets: one well-formed reply each.
#[test]
fn every_line_gets_exactly_one_reply() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.fetch_wait = Duration::ZERO;
        settings.allow_flush = true;
    });
    let mut runner = TestRunner::new(Config { cases: 200, ..Config::default() });
    let input = (prop::collection::vec(any_line(), 1..30), 1..200_usize);
    let outcome = runner.run(&input, |(lines, cut)| {
        let mut client = server.worker("w1");
        let bytes = lines.concat();
        for packet in bytes.chunks(cut) {
            client.send(packet);
        }
        for _ in &lines {
            let reply = client.reply();
            prop_assert!(reply.starts_with(['+', '-', '$']), "{reply}");
        }
        client.talk("> BEAT {\"wid\":\"nobody\"}\n< -ERR unknown worker nobody");
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
