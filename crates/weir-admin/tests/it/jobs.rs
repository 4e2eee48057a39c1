//! The admin API as the command line uses it.

#![allow(
    clippy::unwrap_used,
    reason = "the functions that tests share assert what the API promises, too"
)]

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::faktory_server::{STORES, Server};
use weir_admin::jobs::router;
use weir_jobs::model::QueueName;
use weir_jobs::settings::{QueueSettings, StoreKind};

/// Sends a request to the router; returns the status and the body.
fn ask(server: &Server, method: Method, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap();
    server.block_on(async {
        let response = router(server.handle()).oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    })
}

fn get(server: &Server, path: &str) -> Value {
    let (status, body) = ask(server, Method::GET, path, Body::empty());
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn post(server: &Server, path: &str, body: impl Into<Body>) -> Value {
    let (status, body) = ask(server, Method::POST, path, body);
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn fill(server: &Server) {
    let lines = r#"{"jid":"ready-01","jobtype":"Mail","args":["red"],"queue":"mail"}

{"jid":"later-01","jobtype":"Mail","args":[1],"at":"2999-01-01T00:00:00Z"}
{"jid":"short"}
{"jid":"ready-02","jobtype":"Post","args":["blue [1]"],"queue":"mail"}"#;
    let pushed = post(server, "/push", lines);
    assert_eq!(pushed["accepted"], 3);
    assert_eq!(pushed["rejected_total"], 1);
    assert_eq!(pushed["rejected"][0]["line"], 4, "as an editor counts");
}

#[test]
fn a_full_queue_rejects_what_is_pushed_but_not_what_is_imported() {
    for store in STORES {
        let server = Server::start(store, |settings| {
            let queue = QueueName::parse("mail", &settings.limits).unwrap();
            let limited = QueueSettings { jobs_max: Some(1), ..QueueSettings::default() };
            settings.queues.insert(queue, limited);
        });
        let lines = r#"{"jid":"ready-01","jobtype":"Mail","args":[],"queue":"mail"}
{"jid":"other-01","jobtype":"Mail","args":[]}
{"jid":"ready-02","jobtype":"Mail","args":[],"queue":"mail"}"#;
        let pushed = post(&server, "/push", lines);
        assert_eq!((&pushed["accepted"], &pushed["rejected_total"]), (&json!(2), &json!(1)));
        let rejected = &pushed["rejected"][0];
        assert_eq!((&rejected["line"], &rejected["jid"]), (&json!(3), &json!("ready-02")));
        let error = rejected["error"].as_str().expect("a text");
        assert!(error.contains("1 of 1 jobs wait (jobs.queues.mail.jobs_max)"), "{error}");
        assert_eq!(post(&server, "/import", lines)["accepted"], 3);
    }
}

#[test]
fn pushed_jobs_are_listed_found_and_counted() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        fill(&server);
        let overview = get(&server, "/overview");
        assert_eq!((&overview["enqueued"], &overview["scheduled"]), (&json!(2), &json!(1)));
        let queues = get(&server, "/queues");
        let mail = queues.as_array().unwrap().iter().find(|queue| queue["name"] == "mail");
        assert_eq!(mail.expect("a queue")["depth"], 2);
        let page = get(&server, "/list?place=queue:mail&limit=1");
        assert_eq!((&page["jobs"][0]["jid"], &page["total"]), (&json!("ready-01"), &json!(2)));
        let after = page["next"].as_str().expect("there is more").replace('|', "%7C");
        let page = get(&server, &format!("/list?place=queue:mail&after={after}"));
        assert_eq!(page["jobs"][0]["jid"], "ready-02");
        let newest = get(&server, "/list?place=queue:mail&newest_first=true");
        assert_eq!(newest["jobs"][0]["jid"], "ready-02");
        let found = get(&server, "/list?place=queue:mail&search=blue%20%5B1%5D");
        assert_eq!(found["jobs"].as_array().unwrap().len(), 1, "plain text is no glob");
        assert_eq!(get(&server, "/count?place=queue:mail&search=r?d")["count"], 1);
        assert_eq!(get(&server, "/count?place=queue:mail&jobtype=Post")["count"], 1);
        assert_eq!(get(&server, "/count?place=scheduled")["count"], 1);
        let job = get(&server, "/job/later-01");
        assert_eq!((&job["state"], &job["jobtype"]), (&json!("scheduled"), &json!("Mail")));
    }
}

#[test]
fn jobs_queues_and_workers_are_acted_on() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        fill(&server);
        let act = json!({"place":"scheduled","which":{"matching":{}},"action":"kill"});
        assert_eq!(post(&server, "/act", act.to_string())["count"], 1);
        let dead = get(&server, "/list?place=dead");
        let act =
            json!({"place":"dead","which":{"keys":[dead["jobs"][0]["key"]]},"action":"requeue"});
        assert_eq!(post(&server, "/act", act.to_string())["count"], 1);
        assert_eq!(post(&server, "/act", act.to_string())["count"], 0, "it is gone from there");

        let pause = json!({"queues":{"named":["mail"]},"action":"pause"});
        post(&server, "/queues/act", pause.to_string());
        let queues = get(&server, "/queues");
        let mail = queues.as_array().unwrap().iter().find(|queue| queue["name"] == "mail");
        assert_eq!(mail.expect("a queue")["paused"], true);
        let clear = json!({"queues":"all","action":"clear"});
        assert_eq!(post(&server, "/queues/act", clear.to_string())["count"], 3);

        let mut worker = server.worker("w1");
        let told =
            post(&server, "/workers/signal", json!({"wid":"w1","signal":"quiet"}).to_string());
        assert_eq!(told["count"], 1);
        worker.talk("> BEAT {\"wid\":\"w1\"}\n< ${\"state\":\"quiet\"}");
        let workers = get(&server, "/workers");
        assert_eq!((&workers[0]["wid"], &workers[0]["state"]), (&json!("w1"), &json!("quiet")));
    }
}

#[test]
fn reservations_are_listed() {
    let server = Server::start(StoreKind::Memory, |_| {});
    fill(&server);
    server.worker("w1").talk("> FETCH mail\n< $*ready-01*");
    let reserved = get(&server, "/reservations");
    assert_eq!((&reserved[0]["jid"], &reserved[0]["wid"]), (&json!("ready-01"), &json!("w1")));
    assert_eq!(get(&server, "/job/ready-01")["state"], "working");
}

#[test]
fn errors_have_hints() {
    let server = Server::start(StoreKind::Memory, |_| {});
    let cases = [
        (Method::GET, "/list?place=nowhere", "", 400, "not one of"),
        (Method::GET, "/list", "", 400, "place"),
        (Method::GET, "/list?place=dead&after=x", "", 400, "not an entry key"),
        (Method::GET, "/job/unknown-jid", "", 404, "there is no job"),
        (Method::GET, "/nothing", "", 404, "no such request"),
        (Method::POST, "/overview", "", 405, "another method"),
        (Method::POST, "/act", "{", 400, "JSON"),
        (
            Method::POST,
            "/act",
            r#"{"place":"dead","which":{"keys":["x"]},"action":"kill"}"#,
            400,
            "key",
        ),
        (
            Method::POST,
            "/queues/act",
            r#"{"queues":{"named":["nope"]},"action":"pause"}"#,
            400,
            "no queue",
        ),
        (Method::POST, "/workers/signal", r#"{"wid":"w9","signal":"quiet"}"#, 404, "no worker"),
    ];
    for (method, path, body, status, error) in cases {
        let (got, text) = ask(&server, method, path, body);
        assert_eq!(got.as_u16(), status, "{path}: {text}");
        let problem: Value = serde_json::from_str(&text).unwrap();
        assert!(problem["error"].as_str().unwrap().contains(error), "{path}: {text}");
        assert!(!problem["hint"].as_str().unwrap().is_empty(), "{path}: {text}");
    }
}

#[test]
fn stopped_server_is_unavailable() {
    let server = Server::start(StoreKind::Memory, |_| {});
    let handle = server.handle();
    server.stop_gracefully();
    server.join();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let response = runtime.block_on(async {
        let request = Request::get("/overview").body(Body::empty()).unwrap();
        router(handle).oneshot(request).await.unwrap()
    });
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// Returns all jobs of a place, page by page.
fn all_pages(server: &Server, place: &str) -> Vec<Value> {
    let mut jobs = Vec::new();
    let mut page = get(server, &format!("/list?place={place}"));
    loop {
        jobs.extend(page["jobs"].as_array().unwrap().clone());
        let Some(after) = page["next"].as_str() else {
            return jobs;
        };
        let after = after.replace('|', "%7C");
        page = get(server, &format!("/list?place={place}&after={after}"));
    }
}

/// Returns the sets as JSON, without what an import may change: keys, and what a queue sets again.
fn places(server: &Server) -> Vec<Value> {
    let mut all = Vec::new();
    for place in ["scheduled", "retries", "dead"] {
        for mut job in all_pages(server, place) {
            job.as_object_mut().unwrap().remove("key");
            let payload: Value = serde_json::from_str(job["payload"].as_str().unwrap()).unwrap();
            job["payload"] = payload;
            job["payload"].as_object_mut().unwrap().remove("enqueued_at");
            job["place"] = place.into();
            all.push(job);
        }
    }
    all
}

#[test]
fn export_can_be_imported_into_the_same_sets() {
    for store in STORES {
        let from = Server::start(store, |settings| settings.limits.page_jobs_max = 2);
        let mut worker = from.worker("w1");
        for (number, retry) in [(1, 5), (2, -1), (3, 3), (4, -1), (5, 7)] {
            worker.talk(&format!(
                "> PUSH {{\"jid\":\"job-{number:05}\",\"jobtype\":\"T\",\"args\":[109326485893512345],\"retry\":{retry}}}\n< +OK"
            ));
            worker.talk(&format!("> FETCH default\n< $*job-{number:05}*"));
            worker.talk(&format!(
                "> FAIL {{\"jid\":\"job-{number:05}\",\"errtype\":\"E\",\"message\":\"m\",\"backtrace\":[\"b\"]}}\n< +OK"
            ));
        }
        fill(&from);
        let before = places(&from);
        assert_eq!(before.len(), 6);

        let to = Server::start(store, |settings| settings.limits.page_jobs_max = 2);
        for place in ["scheduled", "retries", "dead", "queue:mail"] {
            let (status, lines) =
                ask(&from, Method::GET, &format!("/export?place={place}"), Body::empty());
            assert_eq!(status, StatusCode::OK);
            let imported = post(&to, "/import", lines);
            assert_eq!(imported["rejected_total"], 0, "{imported}");
        }
        assert_eq!(places(&to), before);
        to.worker("w2").talk("> FETCH mail\n< $*ready-01*\n> FETCH mail\n< $*ready-02*");
        // The failures so far count: one try is left of three.
        let requeue = json!({"place":"retries","which":{"matching":{"search":"job-00003"}},"action":"requeue"});
        assert_eq!(post(&to, "/act", requeue.to_string())["count"], 1);
        let mut worker = to.worker("w3");
        worker.talk("> FETCH default\n< $*job-00003*109326485893512345*\"retry_count\":0*");
        worker.talk("> FAIL {\"jid\":\"job-00003\",\"errtype\":\"E\",\"message\":\"m\"}\n< +OK");
        let failed = get(&to, "/job/job-00003");
        assert_eq!(failed["failure"]["retry_count"], 1);
    }
}

#[test]
fn import_accepts_plain_jobs_and_lists_rejected_lines() {
    let server = Server::start(StoreKind::Memory, |_| {});
    let lines = r#"{"jid":"plain-01","jobtype":"T","args":[]}
{"place":"nowhere","job":{"jid":"place-01","jobtype":"T","args":[]}}
{"place":"dead","at":"yesterday","job":{"jid":"times-01","jobtype":"T","args":[]}}
{"place":"dead","job":{"jid":"fails-01","jobtype":"T","args":[],"failure":7}}
nonsense
"#;
    let imported = post(&server, "/import", lines);
    assert_eq!((&imported["accepted"], &imported["rejected_total"]), (&json!(1), &json!(4)));
    let rejected: Vec<_> =
        imported["rejected"].as_array().unwrap().iter().map(|line| line["line"].clone()).collect();
    assert_eq!(rejected, [2, 3, 4, 5]);
}

#[test]
fn long_imports_are_stored_in_batches() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.line_bytes_max = 1_000;
    });
    let job = |number| format!("{{\"jid\":\"job-{number:06}\",\"jobtype\":\"T\",\"args\":[]}}\n");
    let lines: String = (0..5_000).map(job).collect();
    assert_eq!(post(&server, "/push", lines)["accepted"], 5_000);
    let (status, text) = ask(&server, Method::POST, "/push", "x".repeat(2_000));
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    assert!(text.contains("jobs.limits.line_bytes_max"), "{text}");
}

#[test]
fn too_many_requests_are_rejected_as_busy() {
    let server = Server::start(StoreKind::Memory, |settings| {
        settings.limits.admin_requests_max = 2;
        settings.limits.heartbeat_timeout = Duration::from_secs(60);
    });
    let handle = server.handle();
    let answers = server.block_on(async {
        // So many that the server, which answers meanwhile, can't keep up with their being asked.
        let asked: Vec<_> = (0..5_000).map(|_| handle.overview()).collect();
        let mut asked: Vec<_> = asked.into_iter().map(Box::pin).collect();
        let mut early = Vec::new();
        for future in &mut asked {
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(future.as_mut().poll(context))
            });
            early.push(polled.await);
        }
        early
    });
    let busy = answers.iter().filter(|answer| {
        matches!(answer, std::task::Poll::Ready(Err(weir_jobs::handle::HandleError::Busy)))
    });
    assert!(busy.count() >= 1, "two at once, and the rest is told so");
}
