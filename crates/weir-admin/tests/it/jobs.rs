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
use weir_jobs::settings::{Fsync, QueueSettings, StoreKind};

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
        let found = get(&server, "/list?place=queue:mail&jid=ready-02");
        assert_eq!((&found["jobs"][0]["jid"], &found["scanned"]), (&json!("ready-02"), &json!(2)));
        let found = get(&server, "/list?place=queue:mail&search=blue%20%5B1%5D");
        assert_eq!(found["jobs"].as_array().unwrap().len(), 1, "plain text is no glob");
        assert_eq!(get(&server, "/count?place=queue:mail&search=r?d")["count"], 1);
        assert_eq!(get(&server, "/count?place=queue:mail&jobtype=Post")["count"], 1);
        assert_eq!(get(&server, "/count?place=scheduled")["count"], 1);
        let job = get(&server, "/job/later-01");
        assert_eq!((&job["state"], &job["jobtype"]), (&json!("scheduled"), &json!("Mail")));
    }
}

/// The rows of a group: value and jobs among those that were read.
fn xray_rows(xray: &Value, by: &str) -> Vec<(String, u64)> {
    let groups = xray["groups"].as_array().unwrap();
    let group = groups.iter().find(|group| group["by"] == by).expect("a group");
    let row =
        |row: &Value| (row["value"].as_str().unwrap().to_owned(), row["read"].as_u64().unwrap());
    group["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn an_x_ray_shows_what_a_queue_consists_of() {
    for store in STORES {
        let server = Server::start(store, |settings| settings.limits.page_jobs_max = 7);
        let line = |n: u64| {
            let (jobtype, tenant) = if n.is_multiple_of(4) { ("Post", "b") } else { ("Mail", "a") };
            format!(
                r#"{{"jid":"job-{n:05}","jobtype":"{jobtype}","args":[],"custom":{{"tenant":"{tenant}"}}}}"#
            )
        };
        let lines: Vec<String> = (0..100).map(line).collect();
        post(&server, "/push", lines.join("\n"));

        let all = get(&server, "/xray?place=queue:default&by=custom.tenant");
        assert_eq!(
            (&all["coverage"], &all["total"], &all["read"]),
            (&json!("all"), &json!(100), &json!(100))
        );
        let expected = [("Mail".to_owned(), 75), ("Post".to_owned(), 25)];
        assert_eq!(xray_rows(&all, "jobtype"), expected);
        assert_eq!(xray_rows(&all, "key"), [("a".to_owned(), 75), ("b".to_owned(), 25)]);
        let row = &all["groups"][0]["rows"][0];
        assert_eq!((&row["jobs_low"], &row["jobs_high"]), (&json!(75), &json!(75)));

        let samples = get(&server, "/xray?place=queue:default&sample=20");
        assert_eq!((&samples["coverage"], &samples["read"]), (&json!("samples"), &json!(20)));
        assert_eq!(samples["total"], 100);
        let row = &samples["groups"][0]["rows"][0];
        assert!(row["share_low"].as_f64() < row["share"].as_f64(), "{row}");
        assert!(row["share_low"].as_f64() < row["share_high"].as_f64(), "{row}");

        let full = get(&server, "/xray?place=queue:default&sample=20&full=true");
        assert_eq!((&full["coverage"], &full["read"]), (&json!("all"), &json!(100)));
        assert_eq!(xray_rows(&full, "jobtype"), expected);
        let part = get(&server, "/xray?place=queue:default&sample=20&full=true&seconds=0");
        assert_eq!((&part["coverage"], &part["read"]), (&json!("part"), &json!(7)));
        assert_eq!(part["total"], 100);
        let row = &part["groups"][0]["rows"][0];
        assert_eq!((&row["jobs_low"], &row["jobs_high"]), (&json!(5), &json!(98)));

        let top = get(&server, "/xray?place=queue:default&top=1");
        assert_eq!(xray_rows(&top, "jobtype"), expected[..1]);
        assert_eq!(top["groups"][0]["other"]["read"], 25);
        let nothing = get(&server, "/xray?place=queue:nobody");
        assert_eq!((&nothing["total"], &nothing["read"]), (&json!(0), &json!(0)));
        let (status, body) = ask(&server, Method::GET, "/xray?place=dead&by=tenant", Body::empty());
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(body.contains("custom.NAME or a JSON pointer"), "{body}");
    }
}

/// The number of jobs for the X-ray.
const XRAY_JOBS: u64 = 20_000;

#[test]
fn samples_of_many_jobs_are_close_to_the_truth() {
    let server = Server::start(StoreKind::Embedded, |settings| settings.fsync = Fsync::Never);
    // By position, so that samples of only a part of the place are wrong.
    let jobtype = |n: u64| match n * 100 / XRAY_JOBS {
        0..70 => "Mail",
        70..95 => "Sync",
        _ => "Rare",
    };
    let line = |n: u64| {
        let at = if n.is_multiple_of(2) { "" } else { r#","at":"2999-01-01T00:00:00Z""# };
        let jobtype = jobtype(n);
        format!(r#"{{"jid":"job-{n:09}","jobtype":"{jobtype}","args":[{n},"some text"]{at}}}"#)
    };
    for first in (0..XRAY_JOBS).step_by(1_000) {
        let jobs = (first..first + 1_000).map(|n| line(n).into_bytes()).collect();
        let pushed = server.block_on(server.handle().push(jobs)).unwrap();
        assert_eq!(pushed.rejected_total, 0);
    }
    for place in ["queue:default", "scheduled"] {
        let xray = get(&server, &format!("/xray?place={place}"));
        assert_eq!((&xray["coverage"], &xray["total"]), (&json!("samples"), &json!(XRAY_JOBS / 2)));
        // Fewer than 2,000 on a machine that is too busy.
        let samples = xray["read"].as_f64().unwrap();
        for (value, read) in xray_rows(&xray, "jobtype") {
            let truth = match &*value {
                "Mail" => 0.7,
                "Sync" => 0.25,
                _ => 0.05,
            };
            // Five standard deviations.
            let distance = (read as f64 / samples - truth).abs();
            assert!(distance < 5.0 * (truth * (1.0 - truth) / samples).sqrt(), "{value}: {read}");
        }
    }
}

/// Runs all steps of an action; returns the jobs that were changed and the number of steps.
fn run_steps(server: &Server, first: &Value, mut between: impl FnMut()) -> (u64, usize) {
    let (mut step, mut count) = (first.clone(), 0);
    for steps in 1..1_000 {
        let done = post(server, "/act/step", step.to_string());
        count += done["count"].as_u64().unwrap();
        let Some(next) = done["next"].as_str() else { return (count, steps) };
        step["cursor"] = json!(next);
        between();
    }
    panic!("the action does not end");
}

#[test]
fn an_action_in_steps_changes_only_what_was_there() {
    for store in STORES {
        let server = Server::start(store, |settings| settings.limits.scan_jobs_max = 10);
        let line = |n: usize, queue: &str| {
            format!(r#"{{"jid":"{queue}-{n:05}","jobtype":"Mail","args":[{n}],"queue":"{queue}"}}"#)
        };
        let lines: Vec<String> = (0..45).map(|n| line(n, "mail")).collect();
        post(&server, "/push", lines.join("\n"));
        let mut pushed = 100;
        let first = json!({"place":"queue:mail","action":{"move":"other"}});
        let moved = run_steps(&server, &first, || {
            pushed += 1;
            post(&server, "/push", line(pushed, "mail"));
        });
        assert_eq!(moved, (45, 5));
        assert_eq!(get(&server, "/count?place=queue:mail")["count"], 4, "they came later");
        let first = json!({"place":"queue:other","jobtype":"Mail","action":"kill"});
        assert_eq!(run_steps(&server, &first, || {}), (45, 5));
        let first = json!({"place":"dead","search":"[7]","action":"discard"});
        assert_eq!(run_steps(&server, &first, || {}).0, 1);
        let first = json!({"place":"dead","action":"kill"});
        assert_eq!(run_steps(&server, &first, || {}).0, 0, "they are dead");
        let first = json!({"place":"dead","action":"requeue"});
        assert_eq!(run_steps(&server, &first, || {}).0, 44);
        let (status, body) = ask(
            &server,
            Method::POST,
            "/act/step",
            r#"{"place":"dead","action":"kill","cursor":"x"}"#,
        );
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(body.contains("not a cursor"), "{body}");
    }
}

/// Starts a task and waits for its end.
fn run_task(server: &Server, request: &Value) -> Value {
    let id = post(server, "/tasks", request.to_string())["id"].as_u64().unwrap();
    for _ in 0..10_000 {
        let task = get(server, &format!("/tasks/{id}"));
        if task["state"] != "running" {
            return task;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the task does not end");
}

#[test]
fn a_task_runs_all_steps_of_an_action() {
    for store in STORES {
        let server = Server::start(store, |settings| settings.limits.scan_jobs_max = 10);
        let line = |n: usize, queue: &str| {
            format!(r#"{{"jid":"{queue}-{n:05}","jobtype":"Mail","args":[{n}],"queue":"{queue}"}}"#)
        };
        let lines: Vec<String> = (0..45).map(|n| line(n, ["mail", "post"][n % 2])).collect();
        post(&server, "/push", lines.join("\n"));
        for (queue, jobs) in [("mail", 23), ("post", 22)] {
            let request = json!({"place":format!("queue:{queue}"),"action":{"quarantine":"poison"},"by":"a test"});
            let done = run_task(&server, &request);
            assert_eq!(
                (&done["state"], &done["changed"], &done["by"]),
                (&json!("done"), &json!(jobs), &json!("a test"))
            );
            assert_eq!((&done["total"], &done["examined"]), (&json!(jobs), &json!(jobs)));
        }
        let back = json!({"place":"quarantine:poison","search":"[7]","action":"take_back"});
        assert_eq!(run_task(&server, &back)["changed"], 1);
        let back = json!({"place":"quarantine:poison","action":"take_back"});
        let done = run_task(&server, &back);
        assert_eq!((&done["total"], &done["changed"]), (&json!(44), &json!(44)), "of two queues");
        assert_eq!(get(&server, "/count?place=queue:post")["count"], 22);
        for (request, error) in [
            (json!({"place":"quarantine:poison","action":{"move":"a b"}}), "queue"),
            (json!({"place":"quarantine:none","action":"take_back"}), "there is no quarantine"),
            (json!({"place":"dead","action":"take_back"}), "only jobs of a quarantine"),
            (json!({"place":"nowhere","action":"kill"}), "place \"nowhere\" is not one of"),
            (json!({"place":"dead","action":"kill","cursor":"x"}), "not a cursor"),
        ] {
            let (status, body) = ask(&server, Method::POST, "/tasks", request.to_string());
            assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
            assert!(body.contains(error.replace('"', "\\\"").as_str()), "{body}");
        }
        assert_eq!(
            get(&server, "/tasks").as_array().unwrap().len(),
            4,
            "rejected ones did not begin"
        );
        assert_eq!(ask(&server, Method::GET, "/tasks/x", Body::empty()).0, StatusCode::NOT_FOUND);
        let (status, _) = ask(&server, Method::POST, "/tasks/1/resume", Body::empty());
        assert_eq!(status, StatusCode::CONFLICT, "it is done");
    }
}

#[test]
fn quarantined_jobs_wait_until_they_are_taken_back() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        fill(&server);
        let quarantine = |place: &str| {
            let first = json!({"place": place, "action": {"quarantine": "poison"}});
            run_steps(&server, &first, || {}).0
        };
        assert_eq!((quarantine("queue:mail"), quarantine("scheduled")), (2, 1));
        let depth = |name: &str| {
            let queues = get(&server, "/queues");
            let queue = queues.as_array().unwrap().iter().find(|queue| queue["name"] == name);
            queue.map(|queue| (queue["depth"].clone(), queue["paused"].clone()))
        };
        assert_eq!(depth("quarantine.poison.mail"), Some((json!(2), json!(true))));
        assert_eq!(depth("quarantine.poison.default"), Some((json!(1), json!(true))));
        for action in ["resume", "clear", "remove"] {
            let all = json!({"queues":"all","action":action});
            post(&server, "/queues/act", all.to_string());
        }
        assert_eq!(depth("quarantine.poison.mail"), Some((json!(2), json!(true))));
        let again = json!({"place":"queue:quarantine.poison.mail","action":{"quarantine":"x"}});
        let (status, _) = ask(&server, Method::POST, "/act/step", again.to_string());
        assert_eq!(status, StatusCode::BAD_REQUEST, "its origin would be lost");
        let back = json!({"place":"queue:quarantine.poison.mail","action":{"move":"mail"}});
        assert_eq!(run_steps(&server, &back, || {}).0, 2);
        assert_eq!(depth("mail"), Some((json!(2), json!(false))));
        let list = get(&server, "/list?place=queue:mail");
        assert!(list["jobs"][0]["payload"].as_str().unwrap().contains(r#""queue":"mail""#));
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

#[test]
fn types_of_jobs_have_statistics() {
    for store in STORES {
        let server = Server::start(store, |_| {});
        fill(&server);
        assert_eq!(get(&server, "/types")["types"], json!([]));
        let mut worker = server.worker("w1");
        worker.talk(
            "> FETCH mail\n< $*ready-01*\n> FAIL {\"jid\":\"ready-01\",\"errtype\":\"Oops\",\"message\":\"m\"}\n< +OK\n\
             > FETCH mail\n< $*ready-02*",
        );
        let types = get(&server, "/types?sort=started&minutes=5&queue=mail");
        let names: Vec<_> =
            types["types"].as_array().unwrap().iter().map(|it| it["jobtype"].clone()).collect();
        assert_eq!(names, [json!("Mail"), json!("Post")]);
        assert_eq!(get(&server, "/types?sort=failed")["types"][0]["recent"]["failed"], 1);
        assert_eq!(get(&server, "/types?queue=other")["types"], json!([]));
        let mail = get(&server, "/type?name=Mail");
        assert_eq!(
            (&mail["errors"][0]["errtype"], &mail["errors"][0]["jid"]),
            (&json!("Oops"), &json!("ready-01"))
        );
        assert_eq!(mail["queues"][0]["queue"], "mail");
        assert_eq!(
            (&mail["total"]["failed_share"], &mail["is_shared"]),
            (&json!(1.0), &json!(false))
        );
        assert_eq!(get(&server, "/type?name=Post")["running"], 1);
        let (status, body) = ask(&server, Method::GET, "/type?name=Nobody", Body::empty());
        assert_eq!(status, StatusCode::NOT_FOUND, "{body}");
        for wrong in [
            "/types?minutes=61",
            "/types?minutes=0",
            "/type?name=Mail&minutes=61",
            "/types?sort=x",
            "/type",
        ] {
            let (status, body) = ask(&server, Method::GET, wrong, Body::empty());
            assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}: {body}");
        }
    }
}
