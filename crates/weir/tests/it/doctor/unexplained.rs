//! Problems for which there is no rule: doctor says that it does not know the cause, and where it shows.

use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use super::follow::{Found, find};
use super::json;
use super::meanwhile::meanwhile;
use super::page::{Row, show};
use super::redis::url;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, now, push};
use crate::process::{output_of, wait_until};

/// Long enough for a heartbeat.
const WINDOW: &str = "12s";
const DAY_SECONDS: f64 = 86_400.0;

/// Lets jobs of a class wait for three minutes while two threads run it, and returns what doctor says.
fn late(redis: &RedisServer, class: &str, cause: &'static str) -> Option<(Sidekiq, Found)> {
    make_healthy(redis);
    push(redis, "default", class, 150, 180.0);
    let sidekiq = Sidekiq::start(redis, &["-c", "2", "-q", "default"])?;
    sidekiq.wait_until_busy(redis, 2);
    let advice = json(&["--redis", &url(redis), "--window", WINDOW]);
    let found = find(&advice, "unexplained", cause, "queue default");
    Some((sidekiq, found))
}

/// Follows the command, and checks that it shows the cause in the log of Sidekiq.
fn shown(sidekiq: &Sidekiq, found: Found, words: &str) -> Row {
    found.run();
    wait_until("the log has the threads", || sidekiq.log().contains(words));
    found.shown(&sidekiq.log(), words)
}

#[test]
fn a_service_that_does_not_respond_is_found_by_what_the_threads_do() {
    let Some(redis) = RedisServer::start() else { return };
    let service = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = service.local_addr().expect("an address").port().to_string();
    redis.run(&[&["SET", "service", &port]]);
    // It accepts connections and requests, as a service does that hangs.
    std::thread::spawn(move || {
        let connections = service.incoming().flatten();
        let requests = connections.map(|mut it| it.read(&mut [0; 512]).map(|_| it));
        requests.collect::<Vec<_>>()
    });
    let cause = "an HTTP service that accepts requests and does not respond";
    let Some((sidekiq, found)) = late(&redis, "Call", cause) else { return };
    let said = found.consequence();
    for part in ["2 are Call", "do not compute", "the database was not observed"] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
    show(&[shown(&sidekiq, found, "net/http.rb")]);
}

#[test]
fn a_locked_file_is_found_by_what_the_threads_do() {
    let Some(redis) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("export.lock");
    let file = File::create(&path).expect("created");
    file.lock().expect("locked");
    redis.run(&[&["SET", "lock", &path.display().to_string()]]);
    let cause = "jobs that wait for the lock of a file";
    let Some((sidekiq, found)) = late(&redis, "Lock", cause) else { return };
    assert!(found.consequence().contains("2 are Lock"), "{}", found.consequence());
    show(&[shown(&sidekiq, found, "`flock'")]);
}

#[test]
fn a_program_that_does_not_end_is_found_by_what_the_threads_do() {
    let Some(redis) = RedisServer::start() else { return };
    let cause = "jobs that start a program, which does not end";
    let Some((sidekiq, found)) = late(&redis, "Convert", cause) else { return };
    assert!(found.consequence().contains("2 are Convert"), "{}", found.consequence());
    show(&[shown(&sidekiq, found, "`system'")]);
}

#[test]
fn more_failures_than_usual_with_various_errors_are_counted() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    set_yesterday(&redis, 100_000, 100);
    let Some(_sidekiq) = Sidekiq::start(&redis, &["-c", "2", "-q", "default"]) else { return };
    let push_flaky = || {
        push(&redis, "default", "Flaky", 5, 0.0);
        std::thread::sleep(Duration::from_millis(100));
    };
    let advice = meanwhile(push_flaky, || {
        wait_until("Sidekiq has counted failures", || failed(&redis) >= 60);
        json(&["--redis", &url(&redis), "--window", WINDOW])
    });
    let cause = "one job in four fails, with one of four errors, and yesterday one in a thousand";
    let found = find(&advice, "unexplained", cause, "on the days before");
    let output = found.run();
    show(&[found.shown(&output, "ArgumentError")]);
}

fn failed(redis: &RedisServer) -> u64 {
    let count: Option<u64> =
        ::redis::cmd("GET").arg("stat:failed").query(&mut redis.client()).expect("a count");
    count.unwrap_or_default()
}

/// Sets what Sidekiq would have counted on the day before.
pub(super) fn set_yesterday(redis: &RedisServer, processed: u64, failed: u64) {
    let seconds = now(redis) - DAY_SECONDS;
    let mut date = std::process::Command::new("date");
    let output = output_of(date.args(["-u", "-d", &format!("@{seconds:.0}"), "+%Y-%m-%d"]));
    let date = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (processed, failed) = (processed.to_string(), failed.to_string());
    redis.run(&[
        &["SET", &format!("stat:processed:{date}"), &processed],
        &["SET", &format!("stat:failed:{date}"), &failed],
    ]);
}
