//! The real binary, killed with SIGKILL at random moments under load, again and again.
//!
//! What must hold: no acknowledged job is lost; with `fsync_acks` no acknowledged ACK is repeated;
//! a queue keeps its order. `WEIR_CRASH_KILLS` and `WEIR_CRASH_SEED` ask for more.

pub(crate) mod client;
mod ledger;
mod limits;
mod load;
pub(crate) mod server;

use std::collections::BTreeSet;
use std::time::Duration;

use client::Client;
use ledger::Ledger;
use server::{Server, Victim};

#[expect(clippy::disallowed_methods, reason = "a long run by hand asks for more kills")]
pub(crate) fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A worker that drains for long must say that it lives.
const BEAT_EVERY_JOBS: usize = 1_000;

#[test]
fn acknowledged_jobs_survive_sigkill() {
    let kills = number_from_environment("WEIR_CRASH_KILLS", 8);
    let seed = number_from_environment("WEIR_CRASH_SEED", 1);
    let mut random = fastrand::Rng::with_seed(seed);
    let ledger = Ledger::default();
    let mut server = Server::start();
    for _ in 0..kills {
        let load = load::start(&server, &ledger, &mut random);
        // How long the load runs is what makes the moment random; nothing waits for it.
        std::thread::sleep(Duration::from_millis(random.u64(5..250)));
        let victim = if random.bool() { Victim::Everything } else { Victim::Service };
        server.kill(victim);
        load.end();
        server.restart(victim);
    }
    server.kill(Victim::Everything);
    server.restart(Victim::Everything);
    let drained = drain(&server);
    let counts = ledger.check(&drained);
    println!("seed {seed}: {kills} kills; {counts}");
    server.stop();
}

/// Removes all remaining jobs, from every queue and set.
fn drain(server: &Server) -> Vec<String> {
    let mut client = Client::connect(server.address(), "drain").expect("a server that is up");
    for target in ["retries", "scheduled"] {
        let text = format!(r#"MUTATE {{"cmd":"requeue","target":"{target}"}}"#);
        assert_eq!(client.try_send_command(&text).as_deref(), Some("OK"), "{target}");
    }
    let mut seen = BTreeSet::new();
    let mut drained = Vec::new();
    let fetch = format!("FETCH {}", load::QUEUES.join(" "));
    loop {
        let answer = client.try_send_command(&fetch).expect("a server that stays up");
        let Some(jid) = client::jid_in_reply(&answer) else {
            break;
        };
        if seen.len() % BEAT_EVERY_JOBS == 0 {
            assert_eq!(client.try_send_command(r#"BEAT {"wid":"drain"}"#).as_deref(), Some("OK"));
        }
        assert!(seen.insert(jid.clone()), "{jid} came twice in one life");
        assert_eq!(client.ack(&jid).as_deref(), Some("OK"));
        drained.push(jid);
    }
    drained
}

/// A lock, a batch and a report of progress survive SIGKILL; each callback is enqueued once.
#[test]
fn locks_batches_and_progress_survive_sigkill() {
    let mut server = Server::start();
    let connect = |server: &Server| Client::connect(server.address(), "w").expect("it is up");
    let send =
        |client: &mut Client, command: &str| client.try_send_command(command).expect("it is up");
    let unique = |jid: &str| {
        format!(
            r#"PUSH {{"jid":"{jid}","jobtype":"U","args":[1],"queue":"u","custom":{{"unique_for":3600,"track":1}}}}"#
        )
    };
    let callback =
        |jid: &str| format!(r#"{{"jid":"{jid}","jobtype":"C","args":[],"queue":"callbacks"}}"#);
    let mut client = connect(&server);
    assert_eq!(send(&mut client, &unique("unique-01")), "OK");
    let definition =
        format!(r#"{{"complete":{},"success":{}}}"#, callback("complete-1"), callback("success-1"));
    let bid = send(&mut client, &format!("BATCH NEW {definition}"));
    for number in 0..20 {
        let job = format!(
            r#"{{"jid":"member-{number:03}","jobtype":"T","args":[],"queue":"m","custom":{{"bid":"{bid}"}}}}"#
        );
        assert_eq!(send(&mut client, &format!("PUSH {job}")), "OK");
    }
    assert_eq!(send(&mut client, &format!("BATCH COMMIT {bid}")), "OK");
    send(&mut client, r#"TRACK SET {"jid":"unique-01","percent":40}"#);
    let mut callbacks = Vec::new();
    for _ in 0..12 {
        for _ in 0..3 {
            if let Some(jid) = client::jid_in_reply(&send(&mut client, "FETCH m")) {
                assert_eq!(client.ack(&jid).as_deref(), Some("OK"));
            }
        }
        if let Some(jid) = client::jid_in_reply(&send(&mut client, "FETCH callbacks")) {
            assert_eq!(client.ack(&jid).as_deref(), Some("OK"));
            callbacks.push(jid);
        }
        server.kill(Victim::Service);
        server.restart(Victim::Service);
        client = connect(&server);
        assert_eq!(send(&mut client, &unique("unique-02")), "-NOTUNIQUE Job not unique");
        let track = send(&mut client, "TRACK GET unique-01");
        assert!(
            track.contains("\"percent\":40") && track.contains("\"state\":\"enqueued\""),
            "{track}"
        );
    }
    assert_eq!(callbacks, ["complete-1", "success-1"]);
    let status = send(&mut client, &format!("BATCH STATUS {bid}"));
    let end = r#""total":20,"pending":0,"failed":0,"complete_st":"2","success_st":"2"}"#;
    assert!(status.ends_with(end), "{status}");
    assert_eq!(client.ack("unique-01").as_deref(), Some("OK"));
    assert_eq!(send(&mut client, &unique("unique-03")), "OK");
    server.stop();
}
