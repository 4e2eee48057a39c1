//! An app whose workers Weir starts itself: a small server in Python, three times.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{BASE, body};
use crate::http::{get, post};
use crate::weir::{Site, Weir, is_running};

/// Longer than anything takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
pub(super) const APP: &str = include_str!("app.py");

/// Starts Weir with three workers, and waits until all serve.
pub(super) fn start(more: &str) -> Weir {
    start_workers(3, more)
}

fn start_workers(count: usize, more: &str) -> Weir {
    let site = Site::new("");
    std::fs::write(site.path().join("app.py"), APP).expect("written");
    let folder = site.path().display();
    site.write(&format!(
        "{BASE}[[front.apps]]\nname = \"shop\"\nworkers = {count}\nfolder = \"{folder}\"\n\
         command = [\"python3\", \"app.py\", \"{{socket}}\"]\n{more}"
    ));
    let weir = site.start();
    wait_until_true(|| serving_pids(&weir).len() == count);
    weir
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
pub(super) fn wait_until_true(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < TEST_TIMEOUT, "it never was so");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the pids of the workers that respond to some requests.
pub(super) fn serving_pids(weir: &Weir) -> BTreeSet<i32> {
    (0..6).filter_map(|_| body(weir.front(), "/", "").parse().ok()).collect()
}

pub(super) fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).expect("a number"), Signal::KILL).expect("killed");
}

#[test]
fn dead_worker_is_replaced_while_others_serve() {
    let weir = start("");
    let before = serving_pids(&weir);
    let killed = *before.first().expect("a worker");
    kill(killed);
    wait_until_true(|| {
        let now = serving_pids(&weir);
        now.len() == 3 && !now.contains(&killed)
    });
    let after = serving_pids(&weir);
    assert_eq!(before.intersection(&after).count(), 2, "the others are those of before");
    assert!(weir.stop().success());
    assert!(after.iter().all(|&pid| !is_running(Pid::from_raw(pid).expect("a number"))));
}

#[test]
fn stuck_worker_is_evicted_losing_only_its_request() {
    let weir = start("evict_after = \"300ms\"\n");
    let before = serving_pids(&weir);
    let (status, _) = get(weir.front(), "/stuck", "");
    assert_eq!(status, "HTTP/1.1 502 Bad Gateway");
    wait_until_true(|| serving_pids(&weir).len() == 3);
    assert_eq!(before.intersection(&serving_pids(&weir)).count(), 2);
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let failed = "weir_front_app_failures_total{app=\"shop\",reason=\"broken\"} 1";
    assert!(metrics.contains(failed), "{metrics}");
    for line in ["worker_evictions_total{app=\"shop\"} 1", "worker_restarts_total{app=\"shop\"} 1"]
    {
        assert!(metrics.contains(line), "{line} is missing:\n{metrics}");
    }
    let (_, page) = get(weir.console(), "/front", "");
    assert!(page.contains("<span>Evicted</span> 1</li>"), "{page}");
    assert_eq!(listed(&weir)["evictions"], 1);
    assert!(weir.stop().success());
}

#[test]
fn console_shows_and_controls_workers() {
    let weir = start("");
    let (_, page) = get(weir.console(), "/front", "");
    assert!(page.contains("<h2 id=\"app-shop\">shop</h2>"), "{page}");
    assert_eq!(page.matches("<td data-label=\"State\">serving</td>").count(), 3);
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).expect("a form");
    let csrf = csrf.split('"').next().expect("a token");
    let act = |fields: &str| {
        let form = format!("csrf={csrf}&app=shop&{fields}");
        post(weir.console(), "/front/act", &form)
    };
    assert_eq!(act("do=scale&processes=1"), "HTTP/1.1 303 See Other");
    wait_until_true(|| listed(&weir)["workers"].as_array().map(Vec::len) == Some(1));
    let before = serving_pids(&weir);
    assert_eq!(act("do=restart&worker=0"), "HTTP/1.1 303 See Other");
    wait_until_true(|| serving_pids(&weir).is_disjoint(&before));
    assert_eq!(act("do=pause"), "HTTP/1.1 303 See Other");
    assert_eq!(listed(&weir)["is_paused"], true);
    let (_, metrics) = get(weir.console(), "/metrics", "");
    assert!(metrics.contains("weir_front_app_paused{app=\"shop\"} 1"), "{metrics}");
    assert_eq!(act("do=scale&processes=5000"), "HTTP/1.1 503 Service Unavailable");
    assert!(weir.stop().success());
}

/// This also holds when the parent reports the state of the app meanwhile.
#[test]
fn stuck_worker_finishes_other_requests_and_gets_no_new_ones() {
    let weir = start("concurrency = 3\nevict_after = \"2s\"\n");
    let (front, before) = (weir.front(), serving_pids(&weir));
    let all_workers = |condition: &dyn Fn(&Value) -> bool| {
        wait_until_true(|| {
            listed(&weir)["workers"].as_array().is_some_and(|all| all.iter().all(condition))
        });
    };
    let ask = |path| [(); 3].map(|()| std::thread::spawn(move || get(front, path, "")));
    let stuck = ask("/stuck");
    // The slow ones take 1.5 s: they end after the stuck ones are too old, and are not so themselves.
    all_workers(&|worker| worker["oldest_request_seconds"].as_f64().is_some_and(|age| age > 1.0));
    let slow = ask("/slow");
    all_workers(&|worker| worker["requests"] == 2);
    weir.site.ok(&["workers", "scale", "shop", "4"]);
    wait_until_true(|| {
        listed(&weir)["workers"][0]["oldest_request_seconds"].as_f64().is_none_or(|age| age > 2.1)
    });
    // More than the new worker takes at once: there is room at the old ones.
    let fresh = [(); 8].map(|()| std::thread::spawn(move || body(front, "/slow", "")));
    let fresh: Vec<i32> = fresh
        .into_iter()
        .map(|client| client.join().expect("a client").parse().expect("a number"))
        .collect();
    assert!(fresh.iter().all(|pid| !before.contains(pid)), "{fresh:?} of {before:?}");
    let bystanders: BTreeSet<i32> = slow
        .into_iter()
        .map(|client| client.join().expect("a client"))
        .map(|(status, body)| {
            assert_eq!(status, "HTTP/1.1 200 OK");
            body.parse().expect("a number")
        })
        .collect();
    assert_eq!(bystanders, before);
    for client in stuck {
        assert_eq!(client.join().expect("a client").0, "HTTP/1.1 502 Bad Gateway");
    }
    wait_until_true(|| {
        serving_pids(&weir).len() == 4 && serving_pids(&weir).is_disjoint(&bystanders)
    });
    assert!(weir.stop().success());
}

/// Opens a stream of events and reads the first one.
fn listen(front: SocketAddr, path: &str) -> BufReader<TcpStream> {
    let mut client = TcpStream::connect(front).expect("connects");
    client.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let request = format!("GET {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).expect("written");
    let mut stream = BufReader::new(client);
    read_event(&mut stream);
    stream
}

/// Returns the next event.
fn read_event(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    while !line.starts_with("data: ") {
        line.clear();
        assert!(stream.read_line(&mut line).expect("read") > 0, "ended without an event");
    }
    line
}

#[test]
fn event_stream_does_not_prevent_eviction() {
    let weir = start_workers(1, "concurrency = 2\nevict_after = \"300ms\"\n");
    let (front, before) = (weir.front(), serving_pids(&weir));
    let mut stream = listen(front, "/events/never");
    assert_eq!(get(front, "/stuck", "").0, "HTTP/1.1 502 Bad Gateway");
    wait_until_true(|| !serving_pids(&weir).is_empty());
    assert!(serving_pids(&weir).is_disjoint(&before));
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("its end");
    assert!(!rest.contains("data: "), "{rest}");
    assert_eq!(listed(&weir)["evictions"], 1);
    assert!(weir.stop().success());
}

#[test]
fn recovered_worker_receives_requests_again() {
    // A busy machine has ten seconds to send the second request before the first one is too old, and ten to see
    // the worker stuck before both are.
    let weir = start_workers(1, "concurrency = 2\nevict_after = \"20s\"\n");
    let (front, before) = (weir.front(), serving_pids(&weir));
    let mut stream = listen(front, "/events/enough");
    let worker = |weir: &Weir| listed(weir)["workers"][0].clone();
    let ask = || std::thread::spawn(move || get(front, "/until/enough", "").0);
    let old = ask();
    wait_until_true(|| {
        worker(&weir)["oldest_request_seconds"].as_f64().is_some_and(|age| age > 10.0)
    });
    // It is not too old when the other one is, so the worker is not evicted at once.
    let bystander = ask();
    wait_until_true(|| worker(&weir)["state"] == "stuck");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let stuck = "weir_front_workers{app=\"shop\",state=\"stuck\"} 1";
    assert!(metrics.contains(stuck), "{metrics}");
    std::fs::write(weir.site.path().join("enough"), "").expect("written");
    for client in [old, bystander] {
        assert_eq!(client.join().expect("a client"), "HTTP/1.1 200 OK");
    }
    assert_eq!(read_event(&mut stream), "data: last\n");
    assert_eq!(serving_pids(&weir), before);
    wait_until_true(|| worker(&weir)["state"] == "serving");
    assert_eq!(listed(&weir)["evictions"], 0);
    assert!(weir.stop().success());
}

#[test]
fn workers_survive_a_service_crash() {
    let mut weir = start("");
    let before = serving_pids(&weir);
    kill(weir.service().as_raw_nonzero().get());
    weir.wait_for_log("restarting");
    weir.wait_for_log("ready");
    wait_until_true(|| serving_pids(&weir).len() == 3);
    assert_eq!(serving_pids(&weir), before);
    assert!(weir.stop().success());
}

/// Returns the output of `weir workers list` for the app.
pub(super) fn listed(weir: &Weir) -> Value {
    let apps: Value =
        serde_json::from_str(&weir.site.ok(&["workers", "list", "--json"])).expect("JSON");
    apps[0].clone()
}

#[test]
fn rolling_restart_loses_no_request() {
    let weir = start("");
    let before = serving_pids(&weir);
    let front = weir.front();
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = [(); 4].map(|()| {
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            let mut statuses = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                statuses.push(get(front, "/", "").0);
            }
            statuses
        })
    });
    let told = weir.site.ok(&["workers", "restart", "shop"]);
    assert!(told.ends_with("the workers of shop: replaced\n"), "{told}");
    assert_eq!(listed(&weir)["rolling"], "finished");
    assert!(serving_pids(&weir).is_disjoint(&before));
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        let statuses = client.join().expect("a client");
        assert!(!statuses.is_empty());
        assert!(statuses.iter().all(|status| status == "HTTP/1.1 200 OK"), "{statuses:?}");
    }
    assert!(weir.stop().success());
}

#[test]
fn failed_restart_reports_why_workers_do_not_start() {
    let weir = start("");
    let before = serving_pids(&weir);
    let told = weir.site.ok(&["workers", "restart", "shop", "--worker", "1"]);
    assert_eq!(told, "worker 1 of shop: replaced\n");
    let now = serving_pids(&weir);
    assert_eq!(before.intersection(&now).count(), 2);
    std::fs::write(weir.site.path().join("app.py"), "raise SystemExit('no database')\n")
        .expect("written");
    for more in [&[][..], &["--worker", "2"]] {
        let shown = weir.site.shown(&[&["workers", "restart", "shop"], more].concat());
        assert!(shown.starts_with("exit: 1\n"), "{shown}");
        assert!(shown.contains("not replaced, the previous one keeps running: "), "{shown}");
        assert!(shown.contains("| no database"), "{shown}");
        assert_eq!(serving_pids(&weir), now, "the workers are those of before");
    }
    assert!(weir.stop().success());
}

#[test]
fn workers_can_be_listed_scaled_signalled_and_paused() {
    let mut weir = start("");
    let app = listed(&weir);
    assert_eq!((&app["name"], &app["processes"]), (&json!("shop"), &json!(3)));
    let pids: BTreeSet<i32> = (0..3)
        .filter_map(|index| i32::try_from(app["workers"][index]["pid"].as_i64()?).ok())
        .collect();
    assert_eq!(pids, serving_pids(&weir));
    assert_eq!(
        weir.site.ok(&["workers", "scale", "shop", "1"]),
        "shop: number of workers set to 1\n"
    );
    wait_until_true(|| listed(&weir)["workers"].as_array().map(Vec::len) == Some(1));
    assert_eq!(serving_pids(&weir).len(), 1);
    // The server in Python knows no USR1, and dies of it.
    weir.site.ok(&["workers", "dump", "shop", "0", "--signal", "USR1"]);
    weir.wait_for_log("was killed by signal 10");
    wait_until_true(|| serving_pids(&weir).len() == 1);

    weir.site.ok(&["workers", "pause", "shop"]);
    let front = weir.front();
    let waiting = std::thread::spawn(move || get(front, "/", "").0);
    wait_until_true(|| listed(&weir)["requests_waiting"] == 1);
    assert_eq!(listed(&weir)["is_paused"], true);
    weir.site.ok(&["workers", "resume", "shop"]);
    assert_eq!(waiting.join().expect("a client"), "HTTP/1.1 200 OK");
    insta::assert_snapshot!(weir.site.shown(&["workers", "restart", "cart"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: there is no app cart (weir workers list shows all)
    ");
    assert!(weir.stop().success());
}

#[test]
fn reload_keeps_the_processes_of_an_app() {
    let mut weir = start("");
    let before = serving_pids(&weir);
    let settings = std::fs::read_to_string(weir.site.path().join("weir.toml")).expect("read");
    let other = format!("{BASE}[[front.apps]]\nname = \"shop\"\nupstreams = [\"127.0.0.1:1\"]\n");
    for text in [&other, &settings] {
        weir.site.write(text);
        weir.signal(Signal::HUP);
        if text == &other {
            weir.wait_for_log("front.apps[0].command changed: needs `weir upgrade`");
        }
        weir.wait_for_log("settings reloaded");
        assert_eq!(serving_pids(&weir), before);
    }
    assert!(weir.stop().success());
}

#[test]
fn failed_start_is_reported_and_requests_time_out() {
    let site = Site::new("");
    site.write(&format!(
        "{BASE}[[front.apps]]\nname = \"shop\"\nqueue_timeout = \"200ms\"\n\
         command = [\"python3\", \"no-such-app.py\", \"{{socket}}\"]\n"
    ));
    let mut weir = site.start();
    weir.wait_for_log("no-such-app.py");
    let (status, text) = get(weir.front(), "/", "");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(text.contains("(queue_timeout)"), "{text}");
    assert!(weir.stop().success());
}

#[test]
fn missing_program_is_reported_and_retried() {
    let site = Site::new("");
    let program = site.path().join("shop");
    site.write(&format!(
        "{BASE}[[front.apps]]\nname = \"shop\"\nworkers = 2\ncommand = [\"{}\", \"{{socket}}\"]\n",
        program.display()
    ));
    let mut weir = site.start();
    assert_eq!(weir.field("failed"), Some("shop"), "{}", weir.ready_line);
    let (why, program) = (weir.next_line(), program.as_path());
    let expected = format!("shop does not run: shop-0 {} can't be started in ", program.display());
    assert!(why.starts_with(&expected) && why.contains("No such file"), "{why}");
    weir.wait_for_log("given up for now: shop-");
    wait_until_true(|| {
        get(weir.front(), "/", "").1.contains("no worker of this app can be started")
    });
    let (status, _) = get(weir.front(), "/", "");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    let shown = weir.site.ok(&["status"]);
    assert!(
        shown.contains("0 of 2 workers serving") && shown.contains("shop         PROBLEM: shop-"),
        "{shown}"
    );
    std::fs::write(weir.site.path().join("app.py"), APP).expect("written");
    let script = format!("#!/bin/sh\nexec python3 {}/app.py \"$1\"\n", weir.site.path().display());
    std::fs::write(program, script).expect("written");
    std::fs::set_permissions(program, Permissions::from_mode(0o755)).expect("set");
    // Otherwise it is tried again a minute later.
    weir.site.ok(&["workers", "restart", "shop"]);
    assert_eq!(serving_pids(&weir).len(), 2);
    assert!(weir.stop().success());
}

#[test]
fn failed_worker_start_is_reported() {
    let site = Site::new("");
    site.write(&format!(
        "{BASE}[[front.apps]]\nname = \"shop\"\n\
         command = [\"sh\", \"-c\", \"echo no module named shop; exit 3\", \"{{socket}}\"]\n"
    ));
    let weir = site.start();
    wait_until_true(|| {
        let worker = &listed(&weir)["workers"][0];
        let problem = worker["problem"].as_str().unwrap_or_default();
        worker["state"] == "waiting"
            && problem.contains("shop-0 exited with code 3")
            && problem.contains("no module named shop")
    });
    wait_until_true(|| weir.site.ok(&["workers", "list"]).contains("| no module named shop"));
    wait_until_true(|| listed(&weir)["deaths"].as_u64() > Some(1));
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let died = metrics.lines().find(|line| line.starts_with("weir_front_worker_deaths_total{"));
    assert!(died.is_some_and(|line| !line.ends_with(" 0")), "{died:?}");
    assert!(weir.stop().success());
}
