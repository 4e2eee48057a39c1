//! Ten hostile inputs, each with the answer it gets, and a server that goes on serving others.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_base::secret::Secret;

use crate::faktory_server::{Client, STORES, Server, until};
use weir_jobs::settings::StoreKind;

const JOB: &str = r#"{"jid":"12345678","jobtype":"T","args":[]}"#;

/// An honest client next door is served as ever.
fn others_are_served(server: &Server) {
    let mut honest = server.worker("honest");
    honest.talk(&format!("> PUSH {JOB}\n< +OK\n> FETCH default\n< $*12345678*"));
    honest.talk("> ACK {\"jid\":\"12345678\"}\n< +OK");
}

#[test]
fn a_line_of_a_gigabyte() {
    let server = Server::start(StoreKind::Memory, |_| {});
    let mut client = server.producer();
    client.send(b"PUSH ");
    // The server says so after 16 MiB, reads on for a second, and closes.
    let megabyte = vec![b'x'; 1 << 20];
    for _ in 0..1_024 {
        client.send_what_is_taken(&megabyte);
    }
    client.talk("< -ERR line too long: more than 16777216 bytes (jobs.limits.line_bytes_max)");
    client.talk("< closed");
    others_are_served(&server);
}

#[test]
fn a_long_line_before_hello() {
    let server = Server::start(StoreKind::Memory, |_| {});
    let mut client = server.dial();
    client.talk("< +HI *");
    client.send_what_is_taken(&vec![b'x'; 1 << 20]);
    client
        .talk("< -ERR line too long: more than 16384 bytes (jobs.limits.advanced.hello_bytes_max)");
    client.talk("< closed");
    others_are_served(&server);
}

/// Open files of the process that [`serve_with_few_descriptors`] runs in.
const FEW_DESCRIPTORS: &str = "64";

/// The limit is the whole process's, so the server runs in one of its own: this test binary again,
/// told to run only [`serve_with_few_descriptors`].
#[test]
fn more_idle_connections_than_the_descriptor_limit() {
    let this_binary = std::env::current_exe().expect("a path");
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -n \"$1\"; exec \"$0\" --exact \"$2\" --ignored --nocapture"])
        .arg(this_binary)
        .args([FEW_DESCRIPTORS, "hostile::serve_with_few_descriptors"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let address = output
        .find_map(|line| line.expect("a line").strip_prefix("address ").map(str::to_owned))
        .expect("an address");
    let mut crowd: Vec<_> = (0..200).map(|_| Client::dial(&address)).collect();
    let mut turned_away = 0;
    for client in &mut crowd {
        match client.reply().as_str() {
            "+HI {\"v\":2}" => {}
            "-ERR too many connections: the server has no open files left" => turned_away += 1,
            other => panic!("unexpected {other}"),
        }
    }
    assert!(turned_away >= 100, "{turned_away} of 200 with {FEW_DESCRIPTORS} descriptors");
    drop(crowd);
    // With room again, all is as before.
    until("it serves again", || Client::dial(&address).reply() == "+HI {\"v\":2}");
    drop(child.stdin.take());
    assert!(child.wait().expect("an end").success());
}

/// Not a test: a server for the one above, until its standard input ends.
#[test]
#[ignore = "the other half of more_idle_connections_than_the_descriptor_limit"]
fn serve_with_few_descriptors() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.descriptors_reserved = 0;
        settings.limits.refusals_max = 0;
    });
    println!("\naddress {}", server.address);
    std::io::stdin().read_to_end(&mut Vec::new()).expect("standard input ends");
}

/// Idle connections within the descriptors but over `connections_max`.
#[test]
fn more_idle_connections_than_are_allowed() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.connections_max = 50;
        settings.limits.refusals_max = 10;
        settings.limits.hello_timeout = Duration::from_millis(500);
    });
    let mut idle: Vec<_> = (0..50).map(|_| server.producer()).collect();
    let mut crowd: Vec<_> = (0..200).map(|_| server.dial()).collect();
    // Nobody is left in the dark: each is greeted (and closed when it says nothing) or told at once.
    let mut turned_away = 0;
    for client in &mut crowd {
        match client.reply().as_str() {
            "+HI {\"v\":2}" => {}
            "-ERR too many connections" => turned_away += 1,
            other => panic!("unexpected {other}"),
        }
    }
    assert!(turned_away > 0, "there is no room to refuse 200 in the protocol's way");
    // Who has room goes on, and those that were only refused leave by themselves.
    idle[0].talk("> INFO\n< $*");
    let connections = || server.block_on(server.handle().overview()).unwrap().connections;
    until("idle refusals time out", || connections() == 50);
    drop(crowd);
    idle.clear();
    until("there is room again", || connections() == 0);
    others_are_served(&server);
}

#[test]
fn a_slow_loris_hello() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.hello_timeout = Duration::from_millis(200);
    });
    let mut slow = server.dial();
    slow.talk("< +HI *");
    slow.send(b"HELLO {\"v\"");
    slow.talk("< closed");
    assert!(server.scrape().contains("limit_hits_total{limit=\"hello_timeout\"} 1"));
    let mut wrong = server.dial();
    wrong.talk("< +HI *\n> GET / HTTP/1.1\n< closed");
    others_are_served(&server);
}

#[test]
fn invalid_utf_8() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        client.send(b"PUSH {\"jid\":\"12345678\",\"jobtype\":\"\xff\xfe\",\"args\":[]}\n");
        client.talk("< -ERR malformed job: invalid utf-8 sequence*");
        client.send(b"FETCH \xff\nACK {\"jid\":\"\xff\"}\n\xff\xff {}\n");
        client.talk("< -ERR malformed FETCH: *\n< -ERR malformed ACK: *");
        client.talk("< -ERR unknown command \u{fffd}\u{fffd}");
        client.send(b"PUSH {\"jid\":\"12345678\",\"jobtype\":\"\\ud800\",\"args\":[]}\n");
        client.talk("< -ERR malformed job: *surrogate*");
        others_are_served(&server);
    }
}

#[test]
fn deep_json() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        for depth in [130, 1_000_000] {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            client.talk(&format!(
                "> PUSH {{\"jid\":\"12345678\",\"jobtype\":\"T\",\"args\":{open}{close}}}"
            ));
            client.talk("< -ERR malformed job: *");
            client.talk(&format!("> MUTATE {open}{close}\n< -ERR malformed MUTATE: *"));
        }
        others_are_served(&server);
    }
}

#[test]
fn a_billion_digit_number() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        // A billion digits is a line of a gigabyte, above. What fits into a line is kept as it is.
        let digits = "7".repeat(10_000_000);
        client.talk(&format!(
            "> PUSH {{\"jid\":\"bignumber\",\"jobtype\":\"T\",\"args\":[{digits}]}}\n< +OK"
        ));
        client.talk("> FETCH default");
        let job = client.reply();
        assert!(job.contains(&digits), "the digits are kept");
        client.talk(&format!(
            "> PUSH {{\"jid\":\"12345678\",\"jobtype\":\"T\",\"args\":[],\"retry\":{digits}}}"
        ));
        client.talk("< -ERR malformed job: *retry*");
        others_are_served(&server);
    }
}

#[test]
fn duplicate_keys() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        client.talk(r#"> PUSH {"jid":"12345678","jid":"87654321","jobtype":"T","args":[]}"#);
        client.talk("< -ERR malformed job: jid is there twice");
        client.talk(r#"> ACK {"jid":"12345678","jid":"87654321"}"#);
        client.talk("< -ERR malformed ACK: duplicate field*");
        others_are_served(&server);
    }
}

#[test]
fn batches_of_any_size_and_of_nobodys_jobs() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.worker("w1");
        client.talk(&format!("> PUSH {JOB}\n< +OK"));
        for number in ["0", "-1", "+1", "1e3", "0x10", "none", "\u{fffd}"] {
            client.talk(&format!("> FETCHB {number} default\n< -ERR malformed FETCHB: *"));
        }
        let many = "9".repeat(1_000_000);
        let refused = "of more than 1000 jobs (jobs.limits.batch_jobs_max)";
        client.talk(&format!("> FETCHB {many} default\n< -ERR FETCHB {refused}"));
        let jids = vec!["\"\""; 4_000_000].join(",");
        client.talk(&format!("> ACKB [{jids}]\n< -ERR ACKB {refused}"));
        let failures = vec!["{}"; 4_000_000].join(",");
        client.talk(&format!("> FAILB [{failures}]\n< -ERR FAILB {refused}"));
        let deep = "[".repeat(1_000_000);
        client.talk(&format!("> ACKB {deep}\n< -ERR malformed ACKB: *"));
        client.talk(&format!("> FAILB {deep}\n< -ERR malformed FAILB: *"));
        client.talk("> ACKB [\"unknown-1\",\"unknown-1\",\"\",\"\\u0000\"]");
        client.talk("< ${\"\":\"Job not found \",\"\\u0000\":*,\"unknown-1\":*}");
        client.talk("> FETCHB 1 default\n< [$*12345678*]\n> ACKB [\"12345678\"]\n< ${}");
        others_are_served(&server);
    }
}

#[test]
fn negative_times() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.worker("w1");
        client.talk(r#"> PUSH {"jid":"12345678","jobtype":"T","args":[],"reserve_for":-1}"#);
        client.talk("< -ERR *reserve*");
        client.talk(
            r#"> PUSH {"jid":"12345678","jobtype":"T","args":[],"at":"-0001-01-01T00:00:00Z"}"#,
        );
        client.talk("< -ERR malformed job: at is not an RFC 3339 time*");
        client.talk(r#"> PUSH {"jid":"12345678","jobtype":"T","args":[],"at":-5}"#);
        client.talk("< -ERR malformed job: at must be a string");
        client.talk("> BEAT {\"wid\":\"w1\",\"rss_kb\":-1}\n< +OK");
        others_are_served(&server);
    }
}

#[test]
fn a_queue_name_of_ten_megabytes() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        let name = "q".repeat(10 << 20);
        let wanted =
            "queue name is longer than 255 bytes (jobs.limits.advanced.queue_name_bytes_max)";
        client.talk(&format!(
            "> PUSH {{\"jid\":\"12345678\",\"jobtype\":\"T\",\"args\":[],\"queue\":\"{name}\"}}"
        ));
        client.talk(&format!("< -ERR malformed job: {wanted}"));
        client.talk(&format!("> FETCH {name}\n< -ERR {wanted}"));
        client.talk(&format!("> QUEUE PAUSE {name}\n< -ERR {wanted}"));
        others_are_served(&server);
    }
}

#[test]
fn a_wrong_password_a_thousand_times() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.password = Some(Secret::new("swordfish"));
        settings.limits.wrong_password_delay = Duration::from_millis(1);
    });
    for _ in 0..1_000 {
        let mut client = server.dial();
        client.talk("< +HI {\"v\":2,\"i\":*,\"s\":\"*\"}\n> HELLO {\"v\":2,\"pwdhash\":\"00\"}");
        client.talk("< -ERR Invalid password\n< closed");
    }
    let overview = server.block_on(server.handle().overview()).unwrap();
    let hits = overview.limits_hit.iter().find(|hit| hit.limit == "wrong_passwords_max");
    assert_eq!(hits.map(|hit| hit.hits), Some(990), "all but the first ten had to wait");
}
