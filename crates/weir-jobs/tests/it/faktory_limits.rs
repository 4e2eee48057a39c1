//! Passwords, TLS, and what happens at each limit of the protocol.

use std::time::Duration;

use sha2::{Digest, Sha256};
use weir_base::secret::Secret;

use crate::faktory_server::{Client, Server, until};
use weir_jobs::settings::{JobServerSettings, StoreKind};

const JOB: &str = r#"{"jid":"12345678","jobtype":"T","args":[]}"#;

fn protected(settings: &mut JobServerSettings) {
    settings.password = Some(Secret::new("swordfish"));
    settings.limits.wrong_password_delay = Duration::from_millis(1);
}

/// `{"v":2,"i":4000,"s":".."}` -> iterations and salt.
fn challenge(greeting: &str) -> (u32, String) {
    let json = greeting.strip_prefix("+HI ").expect("a greeting");
    assert!(!json.contains(' '), "the Node client splits at spaces");
    let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let iterations = value["i"].as_u64().and_then(|i| u32::try_from(i).ok()).expect("i");
    assert!((4_000..=8_095).contains(&iterations));
    (iterations, value["s"].as_str().expect("s").to_owned())
}

fn proof(password: &str, salt: &str, iterations: u32) -> String {
    let mut digest = Sha256::digest(format!("{password}{salt}"));
    for _ in 1..iterations {
        digest = Sha256::digest(digest);
    }
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn log_in(server: &Server, password: &str, version: u32) -> (Client, String) {
    let mut client = server.dial();
    let (iterations, salt) = challenge(&client.reply());
    let rounds = if version < 2 { 1 } else { iterations };
    let proof = proof(password, &salt, rounds);
    client.send(format!("HELLO {{\"v\":{version},\"pwdhash\":\"{proof}\"}}\n").as_bytes());
    let reply = client.reply();
    (client, reply)
}

#[test]
fn the_right_password_opens_in_both_versions_of_the_protocol() {
    let server = Server::start(StoreKind::Memory, protected);
    for version in [1, 2] {
        let (mut client, reply) = log_in(&server, "swordfish", version);
        assert_eq!(reply, "+OK");
        client.talk("> INFO\n< $*");
    }
}

#[test]
fn a_wrong_password_or_none_closes_with_its_error() {
    let server = Server::start(StoreKind::Memory, protected);
    let (mut client, reply) = log_in(&server, "haddock", 2);
    assert_eq!(reply, "-ERR Invalid password");
    client.talk("< closed");
    let mut client = server.dial();
    client.talk("< +HI *\n> HELLO {\"v\":2}\n< -ERR Invalid password\n< closed");
}

#[test]
fn a_password_that_is_reloaded_counts_for_the_next_connection() {
    let server = Server::start(StoreKind::Memory, protected);
    let mut settings =
        JobServerSettings { store: StoreKind::Memory, ..JobServerSettings::default() };
    settings.password = Some(Secret::new("new"));
    server.block_on(server.handle().reload(settings)).unwrap();
    assert_eq!(log_in(&server, "new", 2).1, "+OK");
    assert_eq!(log_in(&server, "swordfish", 2).1, "-ERR Invalid password");
}

#[test]
fn one_connection_too_many_is_told_after_its_hello() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.connections_max = 2;
        settings.limits.refusals_max = 1;
    });
    let _one = server.producer();
    let two = server.producer();
    let mut three = server.dial();
    three.talk("< +HI *");
    let mut four = server.dial();
    four.talk("< -ERR too many connections\n< closed");
    three.talk("> HELLO {\"v\":2}\n< +OK\n< -ERR too many connections\n< closed");
    drop((two, three));
    let connections = || server.block_on(server.handle().overview()).unwrap().connections;
    until("there is room again", || connections() == 1);
    server.producer().talk("> INFO\n< $*");
    assert!(server.scrape().contains("limit_hits_total{limit=\"connections_max\"} 1"));
}

#[test]
fn waiting_fetches_are_limited() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.waiting_fetches_max = 1;
        settings.limits.fetch_wait = Duration::from_secs(60);
    });
    let mut one = server.worker("w1");
    one.talk("> FETCH default");
    let waiting = || server.block_on(server.handle().overview()).unwrap().fetches_waiting;
    until("the FETCH waits", || waiting() == 1);
    server.worker("w2").talk("> FETCH default\n< -ERR *jobs.limits.waiting_fetches_max*");
    server.producer().talk(&format!("> PUSH {JOB}\n< +OK"));
    one.talk("< $*12345678*");
}

#[test]
fn the_limits_of_a_command_are_named() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.pushb_jobs_max = 1;
        settings.limits.fetch_queues_max = 2;
        settings.limits.queue_name_bytes_max = 5;
        settings.limits.id_bytes_max = 8;
    });
    let mut client = server.producer();
    client.talk(&format!("> PUSHB [{JOB},{JOB}]\n< -ERR *jobs.limits.pushb_jobs_max*"));
    client.talk("> FETCH a b c\n< -ERR *jobs.limits.advanced.fetch_queues_max*");
    client.talk("> FETCH abcdef\n< -ERR *jobs.limits.advanced.queue_name_bytes_max*");
    client.talk("> QUEUE PAUSE abcdef\n< -ERR *jobs.limits.advanced.queue_name_bytes_max*");
    client.talk("> PUSH {\"jid\":\"123456789\",\"jobtype\":\"T\",\"args\":[]}");
    client.talk("< -ERR *jobs.limits.advanced.id_bytes_max*");
    let mut worker = server.dial();
    worker.talk(
        "< +HI *\n> HELLO {\"wid\":\"123456789\"}\n< -ERR *jobs.limits.advanced.id_bytes_max*",
    );
}

#[test]
fn one_worker_too_many_is_refused() {
    let server = Server::start(StoreKind::Memory, |settings| settings.limits.workers_max = 1);
    let _one = server.worker("w1");
    let _again = server.worker("w1");
    let mut two = server.dial();
    two.talk("< +HI *\n> HELLO {\"wid\":\"w2\"}\n< -ERR too many workers*workers_max*\n< closed");
}

#[test]
fn half_read_lines_share_their_memory() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.buffered_bytes_max = 1 << 20;
    });
    let mut hog = server.producer();
    hog.send(b"PUSH ");
    hog.send(&vec![b' '; 700 << 10]);
    until("it is held", || !server.scrape().contains("weir_jobs_buffered_bytes 0\n"));
    let mut second = server.producer();
    second.send(b"PUSH ");
    second.send_what_is_taken(&vec![b' '; 700 << 10]);
    second.talk("< -ERR *jobs.limits.advanced.buffered_bytes_max*\n< closed");
    // Ordinary commands go on.
    server.producer().talk(&format!("> PUSH {JOB}\n< +OK"));
}

#[test]
fn a_line_that_is_never_finished_is_given_up() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.line_timeout = Duration::from_millis(50);
    });
    let mut client = server.producer();
    client.send(b"PUSH {");
    client.talk("< -ERR line not complete*jobs.limits.advanced.line_timeout*\n< closed");
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.write_timeout = Duration::from_millis(100);
    });
    let mut client = server.producer();
    let large = "x".repeat(1 << 20);
    for number in 0..32 {
        let job =
            format!("{{\"jid\":\"job-{number:05}\",\"jobtype\":\"T\",\"args\":[\"{large}\"]}}");
        client.talk(&format!("> PUSH {job}\n< +OK"));
    }
    client.send(&b"FETCH default\n".repeat(32));
    let connections = || server.block_on(server.handle().overview()).unwrap().connections;
    until("it is cut off", || connections() == 0);
    until("it is counted", || {
        server.scrape().contains("limit_hits_total{limit=\"write_timeout\"} 1")
    });
}
