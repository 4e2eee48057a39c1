//! The commands and members of Faktory Enterprise, as their clients speak them.

use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};
use weir_jobs::cron::{CronJobSettings, CronSettings, MissedRuns};
use weir_jobs::handle::{CronAction, ImportMode};
use weir_jobs::settings::JobServerSettings;

use crate::faktory_server::{Client, STORES, Server, until};

fn job(jid: &str, custom: &str) -> String {
    format!(r#"{{"jid":"{jid}","jobtype":"T","args":[1, 2],"custom":{custom}}}"#)
}

#[test]
fn a_job_that_is_not_unique_is_refused_by_name() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.worker("w1");
        let unique = |jid: &str| job(jid, r#"{"unique_for":60}"#);
        client.talk(&format!("> PUSH {}\n< +OK", unique("unique-01")));
        client.talk(&format!("> PUSH {}\n< -NOTUNIQUE Job not unique", unique("unique-02")));
        let other = unique("unique-04").replace("[1, 2]", "[1.0,2]");
        let same = unique("unique-03").replace("[1, 2]", "[ 1,2 ]");
        let plain = job("plain-001", "{}");
        client.talk(&format!(
            "> PUSHB [{same},{other},{plain}]\n< ${{\"unique-03\":\"NOTUNIQUE Job not unique\"}}"
        ));
        let scraped = server.scrape();
        for line in ["weir_jobs_not_unique_total 2\n", "limit=\"unique_locks_max\"} 0\n"] {
            assert!(scraped.contains(line), "{line}");
        }
        client.talk("> FETCH default\n< $*unique-01*\n> ACK {\"jid\":\"unique-01\"}\n< +OK");
        client.talk(&format!("> PUSH {}\n< +OK", unique("unique-05")));
    }
}

#[test]
fn pipelined_pushes_are_refused_one_by_one() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.producer();
        let unique = |jid: &str| job(jid, r#"{"unique_for":60}"#);
        let pushes = ["unique-01", "unique-02", "unique-03"];
        let lines: String = pushes.iter().map(|jid| format!("PUSH {}\n", unique(jid))).collect();
        client.send(format!("{lines}PUSH {}\n", job("plain-001", "{}")).as_bytes());
        let refused = "< -NOTUNIQUE Job not unique";
        client.talk(&format!("< +OK\n{refused}\n{refused}\n< +OK"));
    }
}

#[test]
fn an_expired_job_is_dropped_and_counted() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.worker("w1");
        let expired = job("expired-1", r#"{"expires_at":"2020-01-01T00:00:00.123456789Z"}"#);
        let valid = job("valid-001", r#"{"expires_at":"2120-01-01T00:00:00Z"}"#);
        client.talk(&format!("> PUSHB [{expired},{valid}]\n< ${{}}"));
        client
            .talk("> FETCH default\n< $*valid-001*\"expires_at\":\"2120*\n> FETCH default\n< $-1");
        assert!(server.scrape().contains("weir_jobs_expired_total 1\n"));
    }
}

#[test]
fn values_that_cannot_be_obeyed_are_errors() {
    let server = Server::start(STORES[0], |_| {});
    let mut client = server.producer();
    for (custom, error) in [
        (r#"{"unique_for":"60"}"#, "custom.unique_for must be a number of seconds above 0"),
        (
            r#"{"unique_for":6,"unique_until":"end"}"#,
            "custom.unique_until must be success or start",
        ),
        (r#"{"expires_at":60}"#, "custom.expires_at must be an RFC 3339 time"),
    ] {
        let pushed = job("job-00001", custom);
        client.talk(&format!("> PUSH {pushed}\n< -ERR malformed job: {error}"));
    }
}

#[test]
fn a_worker_reports_its_progress() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.worker("w1");
        client.talk("> TRACK GET track-001\n< ${\"jid\":\"track-001\",\"state\":\"unknown\",\"updated_at\":\"\"}");
        client.talk(&format!("> PUSH {}\n< +OK", job("track-001", r#"{"track":1}"#)));
        client.talk("> TRACK GET track-001\n< ${\"jid\":\"track-001\",\"state\":\"enqueued\",\"updated_at\":\"20*Z\"}");
        client.talk("> FETCH default\n< $*track-001*");
        client.talk("> TRACK SET {\"jid\":\"track-001\",\"percent\":32,\"desc\":\"Still \\\"processing\\\"\"}\n< +OK");
        client.talk("> TRACK SET {\"jid\":\"track-001\",\"percent\":33.5,\"desc\":null}\n< +OK");
        client.talk("> TRACK GET track-001\n< ${\"jid\":\"track-001\",\"percent\":33,\"desc\":\"Still \\\"processing\\\"\",\"state\":\"working\",*");
        client.talk("> ACK {\"jid\":\"track-001\"}\n< +OK\n> TRACK GET track-001\n< $*\"percent\":33*\"state\":\"success\"*");
        client.talk("> TRACK SET {\"jid\":\"untracked\",\"percent\":5}\n< +OK");
        for line in [
            "TRACK",
            "TRACK GET",
            "TRACK GET ",
            "TRACK PUT a",
            "TRACK get a",
            "TRACK SET 5",
            "TRACK SET {}",
        ] {
            client.talk(&format!("> {line}\n< -ERR malformed TRACK: *"));
        }
        client.talk("> TRACK SET {\"jid\":\"track-001\",\"reserve_until\":\"soon\"}\n< -ERR malformed TRACK: reserve_until is not an RFC 3339 time*");
    }
}

#[test]
fn a_report_extends_the_reservation_by_a_day_at_most() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.worker("w1");
        client.talk(&format!("> PUSH {}\n< +OK\n> FETCH default\n< $*", job("track-001", "{}")));
        let reserved_for = || {
            let held = server.block_on(server.handle().reservations(9)).unwrap().remove(0);
            held.expires_at - held.since
        };
        assert!((reserved_for() - 1_800.0).abs() < 1.0);
        client.talk(
            "> TRACK SET {\"jid\":\"track-001\",\"reserve_until\":\"2020-01-01T00:00:00Z\"}\n< +OK",
        );
        assert!((reserved_for() - 1_800.0).abs() < 1.0, "a report never shortens it");
        client.talk(
            "> TRACK SET {\"jid\":\"track-001\",\"reserve_until\":\"2120-01-01T00:00:00Z\"}\n< +OK",
        );
        assert!((86_000.0..87_000.0).contains(&reserved_for()));
    }
}

/// Sends BATCH NEW; the id in the reply.
fn new_batch(client: &mut Client, definition: &str) -> String {
    client.send(format!("BATCH NEW {definition}\n").as_bytes());
    let reply = client.reply();
    assert!(reply.starts_with("$b-"), "{reply}");
    reply[1..].to_owned()
}

#[test]
fn a_batch_runs_its_callbacks() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        let mut client = server.worker("w1");
        let callback = |jobtype: &str| {
            format!(
                r#"{{"jobtype":"{jobtype}","args":[12345678901234567890],"queue":"callbacks"}}"#
            )
        };
        let definition = format!(
            r#"{{"description":"Import","success":{},"complete":{}}}"#,
            callback("Done"),
            callback("Tried")
        );
        let bid = new_batch(&mut client, &definition);
        let member = |jid: &str| job(jid, &format!(r#"{{"bid":"{bid}"}}"#));
        client.talk(&format!("> PUSHB [{},{}]\n< ${{}}", member("job-00001"), member("job-00002")));
        client.talk(&format!("> BATCH OPEN {bid}\n< ${bid}\n> BATCH COMMIT {bid}\n< +OK"));
        let status = |rest: &str| {
            format!(
                "> BATCH STATUS {bid}\n< ${{\"bid\":\"{bid}\",\"description\":\"Import\",\"created_at\":\"20*Z\",{rest}}}"
            )
        };
        client.talk(&status(
            "\"total\":2,\"pending\":2,\"failed\":0,\"complete_st\":\"\",\"success_st\":\"\"",
        ));
        client.talk("> FETCH default\n< $*job-00001*\n> FETCH default\n< $*job-00002*");
        client.talk("> ACK {\"jid\":\"job-00001\"}\n< +OK\n> FETCH callbacks\n< $-1");
        client.talk("> FAIL {\"jid\":\"job-00002\"}\n< +OK");
        client.talk(&status(
            "\"total\":2,\"pending\":1,\"failed\":1,\"complete_st\":\"1\",\"success_st\":\"\"",
        ));
        client.talk(&format!(
            "> FETCH callbacks\n< $*\"args\":[12345678901234567890],\"custom\":{{\"_bid\":\"{bid}\"}},\"jid\":\"callback-*\"jobtype\":\"Tried\"*"
        ));
        let child = new_batch(
            &mut client,
            &format!(r#"{{"parent_bid":"{bid}","success":{}}}"#, callback("Child")),
        );
        client.talk(&format!("> BATCH STATUS {child}\n< $*\"parent_bid\":\"{bid}\"*"));
    }
}

#[test]
fn batches_that_cannot_be_are_errors() {
    for store in STORES {
        let server = Server::start(store, |settings| {
            settings.limits.batch_definition_bytes_max = 1_024;
        });
        let mut client = server.producer();
        for line in [
            "BATCH",
            "BATCH NEW",
            "BATCH new {}",
            "BATCH NEW {}",
            "BATCH NEW []",
            "BATCH CLOSE b-1",
        ] {
            client.talk(&format!("> {line}\n< -ERR malformed BATCH: *"));
        }
        client.talk("> BATCH NEW {\"success\":{\"jobtype\":\"T\"}}\n< -ERR jobs must have an args parameter");
        client.talk("> BATCH NEW {\"success\":7}\n< -ERR malformed BATCH: callback: *");
        for word in ["OPEN", "COMMIT", "STATUS"] {
            client.talk(&format!("> BATCH {word} nosuchbatch\n< -ERR No such batch nosuchbatch"));
            let id = "b-00000000000000ff";
            client.talk(&format!("> BATCH {word} {id}\n< -ERR No such batch {id}"));
        }
        let callback = r#"{"jobtype":"T","args":[]}"#;
        client.talk(&format!(
            "> BATCH NEW {{\"parent_bid\":\"b-1\",\"success\":{callback}}}\n< -ERR No such batch b-1"
        ));
        client.talk(&format!(
            "> BATCH NEW {{\"description\":\"{}\",\"success\":{callback}}}\n< -ERR BATCH NEW of more than 1024 bytes*",
            "x".repeat(1_024)
        ));
        let member = r#"{"jobtype":"T","args":[],"custom":{"bid":"b-1"}}"#;
        client.talk(&format!(
            "> BATCH NEW {{\"success\":{member}}}\n< -ERR malformed BATCH: a callback belongs to no batch: remove its custom.bid"
        ));
        let member = job("job-00001", r#"{"bid":"b-00000000000000ff"}"#);
        client.talk(&format!("> PUSH {member}\n< -ERR No such batch b-00000000000000ff"));
        client.talk(&format!(
            "> PUSHB [{member}]\n< ${{\"job-00001\":\"No such batch b-00000000000000ff\"}}"
        ));
    }
}

#[test]
fn cron_jobs_are_enqueued_at_their_times() {
    for store in STORES {
        let clock = Clock::manual(Timestamp::from_millis(1_795_824_030_000));
        let minutely = |settings: &mut JobServerSettings| {
            let job = CronJobSettings { jobtype: "Tick".to_owned(), ..CronJobSettings::default() };
            let schedule = "* * * * *".parse().unwrap();
            let name = "ticker".to_owned();
            settings.cron.push(CronSettings { name, schedule, job, ..CronSettings::default() });
        };
        let server = Server::start_with(store, None, clock.clone(), minutely);
        let cron = || server.block_on(server.handle().cron()).unwrap().remove(0);
        until("it is known", || cron().last_at.is_some());
        assert_eq!((cron().next_at, cron().paused), (Some(1_795_824_060.0), false));
        let act = |action| {
            server.block_on(server.handle().act_on_cron("ticker".to_owned(), action)).unwrap();
        };
        act(CronAction::Run);
        let mut client = server.worker("w1");
        client.talk("> FETCH default\n< ${\"jid\":\"cron-ticker-now-*\"jobtype\":\"Tick\"*");
        clock.advance(Duration::from_secs(45));
        act(CronAction::Pause);
        client.talk("> FETCH default\n< $*\"jid\":\"cron-ticker-1795824060\"*");
        clock.advance(Duration::from_secs(60));
        act(CronAction::Resume);
        assert_eq!(cron().last_at, Some(1_795_824_120.0));
        client.talk("> FETCH default\n< $-1");
        clock.advance(Duration::from_secs(60));
        act(CronAction::Resume);
        client.talk(
            "> FETCH default\n< $*\"jid\":\"cron-ticker-1795824180\"*\n> FETCH default\n< $-1",
        );
        let handle = server.handle();
        let unknown = handle.act_on_cron("other".to_owned(), CronAction::Run);
        let error = server.block_on(unknown).unwrap_err();
        assert_eq!(error.to_string(), "there is no cron job \"other\"");
    }
}

#[test]
fn a_cron_job_whose_lock_is_held_is_not_run_now() {
    for store in STORES {
        let server = Server::start(store, |settings| {
            let job = CronJobSettings {
                jobtype: "Tick".to_owned(),
                custom: r#"{"unique_for":60}"#.to_owned(),
                ..CronJobSettings::default()
            };
            let name = "ticker".to_owned();
            settings.cron.push(CronSettings { name, job, ..CronSettings::default() });
        });
        let run = || {
            let handle = server.handle();
            server.block_on(handle.act_on_cron("ticker".to_owned(), CronAction::Run))
        };
        run().unwrap();
        let refused = "the job of \"ticker\" was not enqueued: an equal job holds its unique lock";
        assert_eq!(run().unwrap_err().to_string(), refused);
    }
}

#[test]
fn an_imported_cron_job_continues_where_the_other_weir_stopped() {
    for store in STORES {
        let clock = Clock::manual(Timestamp::from_millis(1_795_824_030_000));
        let minutely = |settings: &mut JobServerSettings| {
            let job = CronJobSettings { jobtype: "Tick".to_owned(), ..CronJobSettings::default() };
            let (name, schedule) = ("ticker".to_owned(), "* * * * *".parse().unwrap());
            let missed = MissedRuns::RunOnce;
            settings.cron.push(CronSettings {
                name,
                schedule,
                missed,
                job,
                ..CronSettings::default()
            });
        };
        let server = Server::start_with(store, None, clock.clone(), minutely);
        let import = |line: &str| {
            let lines = vec![line.as_bytes().to_vec()];
            server.block_on(server.handle().import(lines, ImportMode::All)).unwrap()
        };
        let line = |name: &str, last: &str| {
            format!(
                r#"{{"place":"cron","key":"{name}","job":{{"name":"{name}","last":"{last}","paused":false}}}}"#
            )
        };
        let other = import(&line("other", "2026-11-28T00:00:00Z"));
        assert_eq!(other.rejected[0].error, "cron: there is no cron job \"other\"");
        // The other one stopped half an hour ago: one job for the times that were missed.
        let imported = import(&line("ticker", "2026-11-27T23:30:00Z"));
        assert_eq!((imported.entries, imported.rejected_total), (1, 0));
        clock.advance(Duration::from_secs(1));
        server
            .block_on(server.handle().act_on_cron("ticker".to_owned(), CronAction::Resume))
            .unwrap();
        let mut client = server.worker("w1");
        client.talk(
            "> FETCH default\n< $*\"jid\":\"cron-ticker-1795824000\"*\n> FETCH default\n< $-1",
        );
        let again = import(&line("ticker", "2026-11-27T23:30:00Z"));
        assert_eq!(again.entries, 1);
        server
            .block_on(server.handle().act_on_cron("ticker".to_owned(), CronAction::Resume))
            .unwrap();
        client.talk("> FETCH default\n< $-1");
    }
}
