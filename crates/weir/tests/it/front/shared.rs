//! Apps whose workers take connections themselves. Where the kernel takes no programs from whoever
//! runs the tests, those that are about them say so and end.

mod replacement;

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::processes::{kill, listed, wait_until_true};
use super::{BASE, body};
use crate::http::get;
use crate::weir::{Site, Weir};

const APP: &str = include_str!("shared.py");
const ADAPTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/busy-word");

/// Creates a folder with the app and `workers` workers.
fn site(workers: usize, word: &str, more: &str) -> Site {
    let site = Site::new("");
    std::fs::write(site.path().join("shared.py"), APP).expect("written");
    write(&site, workers, word, more);
    site
}

fn write(site: &Site, workers: usize, word: &str, more: &str) {
    let folder = site.path().display();
    site.write(&format!(
        "{BASE}[[front.apps]]\nname = \"shop\"\nworkers = {workers}\nfolder = \"{folder}\"\n\
         mode = \"sockets\"\nlisten = \"127.0.0.1:0\"\n\
         command = [\"python3\", \"shared.py\", \"{ADAPTERS}\", \"{word}\"]\n{more}"
    ));
}

fn start(workers: usize, word: &str, more: &str) -> Weir {
    let weir = site(workers, word, more).start();
    wait_until_true(|| states(&weir) == vec!["serving"; workers]);
    weir
}

/// None: the kernel does not support it.
fn start_join_idle(more: &str) -> Option<Weir> {
    let weir = start(3, "keeps", &format!("selection = \"join-idle\"\n{more}"));
    (!is_refused(&weir)).then_some(weir)
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn is_refused(weir: &Weir) -> bool {
    let selection = listed(weir)["selection"].as_str().unwrap_or_default().to_owned();
    if selection.contains("refused") {
        eprintln!("SKIPPED: {selection}");
    }
    selection.contains("refused")
}

fn workers(weir: &Weir) -> Vec<Value> {
    listed(weir)["workers"].as_array().cloned().unwrap_or_default()
}

fn states(weir: &Weir) -> Vec<String> {
    let state = |worker: &Value| worker["state"].as_str().unwrap_or_default().to_owned();
    workers(weir).iter().map(state).collect()
}

fn pids(weir: &Weir) -> BTreeSet<i32> {
    let pid = |worker: &Value| i32::try_from(worker["pid"].as_i64()?).ok();
    workers(weir).iter().filter_map(pid).collect()
}

fn get_pid(address: SocketAddr, path: &str) -> i32 {
    body(address, path, "").parse().expect("a pid")
}

/// Sends requests until each worker has responded to one.
fn reach_all_workers(weir: &Weir) {
    let mut served = BTreeSet::new();
    wait_until_true(|| {
        served.insert(get_pid(weir.app("shop"), "/"));
        served == pids(weir)
    });
}

/// A request that is answered when `finish_slow_requests` is there.
fn start_slow_request(weir: &Weir) -> JoinHandle<(String, String)> {
    let (address, path) = (weir.app("shop"), weir.site.path().join("go"));
    std::thread::spawn(move || get(address, &format!("/until/{}", path.display()), ""))
}

fn finish_slow_requests(weir: &Weir) {
    std::fs::write(weir.site.path().join("go"), "").expect("written");
}

/// Some who ask until they are told to stop.
struct Clients {
    is_over: Arc<AtomicBool>,
    clients: [JoinHandle<()>; 4],
}

impl Clients {
    fn start(address: SocketAddr) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let clients = [(); 4].map(|()| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(get(address, "/", "").0, "HTTP/1.1 200 OK");
                }
            })
        });
        Self { is_over, clients }
    }

    fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("every request was answered");
        }
    }
}

fn busy(weir: &Weir) -> usize {
    workers(weir).iter().filter(|worker| worker["requests"] == 1).count()
}

#[test]
fn workers_share_one_socket_and_are_replaced() {
    let weir = start(3, "keeps", "");
    let app = listed(&weir);
    assert_eq!((&app["mode"], &app["selection"]), (&json!("sockets"), &json!("kernel")));
    let address = weir.app("shop");
    assert_eq!(app["listen"], json!(address.to_string()));
    let slow = [start_slow_request(&weir), start_slow_request(&weir)];
    wait_until_true(|| busy(&weir) == 2);
    // Nobody waits behind those who are busy.
    let third = get_pid(address, "/");
    assert!((0..5).all(|_| get_pid(address, "/") == third));
    assert!(pids(&weir).contains(&third));
    finish_slow_requests(&weir);
    for client in slow {
        assert_eq!(client.join().expect("a client").0, "HTTP/1.1 200 OK");
    }
    wait_until_true(|| busy(&weir) == 0);
    let given = |worker: &Value| worker["given"].as_u64();
    assert_eq!(workers(&weir).iter().filter_map(given).sum::<u64>(), 8);
    kill(third);
    wait_until_true(|| !pids(&weir).contains(&third) && states(&weir) == vec!["serving"; 3]);
    assert_eq!(listed(&weir)["restarts"], 1);
    assert_eq!(workers(&weir)[0]["waited_seconds"], Value::Null, "nobody knows");
    assert!(weir.stop().success());
}

#[test]
fn console_shows_reported_load_and_possible_actions() {
    let weir = start(2, "keeps", "advanced.recycle_interval = \"50ms\"\n");
    let page = || get(weir.console(), "/front", "").1;
    let sockets = format!("{}, selection kernel", weir.app("shop"));
    assert!(page().contains(&sockets) && page().contains("value=\"restart\""));
    assert!(!page().contains("value=\"pause\""));
    let slow = start_slow_request(&weir);
    wait_until_true(|| page().contains("data-label=\"In progress\">1"));
    wait_until_true(|| workers(&weir).iter().all(|worker| worker["pss_bytes"].as_u64().is_some()));
    finish_slow_requests(&weir);
    assert_eq!(slow.join().expect("a client").0, "HTTP/1.1 200 OK");
    wait_until_true(|| page().contains("data-label=\"Assigned\">1<"));
    assert!(weir.stop().success());
}

#[test]
fn worker_is_recycled_after_its_reported_requests() {
    let weir = start(1, "keeps", "recycle_requests = 10\nadvanced.recycle_interval = \"50ms\"\n");
    let before = pids(&weir);
    for _ in 0..11 {
        get_pid(weir.app("shop"), "/");
    }
    wait_until_true(|| pids(&weir).is_disjoint(&before) && states(&weir) == ["serving"]);
    let recycled = "recycled_workers_total{app=\"shop\",limit=\"requests\"} 1\n";
    assert!(get(weir.console(), "/metrics", "").1.contains(recycled));
    assert!(weir.stop().success());
}

#[test]
fn every_queue_has_its_own_workers() {
    for selection in ["kernel", "random"] {
        let settings = format!("queues = 3\nqueues_per_worker = 2\nselection = \"{selection}\"\n");
        let weir = start(3, "keeps", &settings);
        for _ in 0..30 {
            get_pid(weir.app("shop"), "/");
        }
        assert_eq!(workers(&weir)[2]["address"], format!("{} (queues 0, 2)", weir.app("shop")));
        let output = weir.site.run(&["workers", "scale", "shop", "1"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("at least 2 are required"), "{error}");
        assert!(weir.stop().success());
    }
}

#[test]
fn join_idle_selects_only_idle_workers() {
    let Some(weir) = start_join_idle("") else { return };
    let address = weir.app("shop");
    reach_all_workers(&weir);
    let slow = [start_slow_request(&weir), start_slow_request(&weir)];
    wait_until_true(|| busy(&weir) == 2);
    let third = get_pid(address, "/");
    assert!((0..10).all(|_| get_pid(address, "/") == third));
    // The busy ones get none of what comes while nobody is idle, so it is served as they end.
    let waiting = [start_slow_request(&weir), start_slow_request(&weir), start_slow_request(&weir)];
    wait_until_true(|| busy(&weir) == 3 && listed(&weir)["requests_waiting"] == 2);
    finish_slow_requests(&weir);
    for client in slow.into_iter().chain(waiting) {
        assert_eq!(client.join().expect("a client").0, "HTTP/1.1 200 OK");
    }
    assert!(weir.stop().success());
}

#[test]
fn join_idle_repairs_stale_records() {
    let Some(weir) = start_join_idle("advanced.claim_timeout = \"50ms\"\n") else { return };
    let address = weir.app("shop");
    // Chosen for three connections, they begin nothing.
    drop([(); 3].map(|()| TcpStream::connect(address).expect("connected")));
    let repaired = "weir_front_worker_words_repaired_total{app=\"shop\"} 3";
    wait_until_true(|| get(weir.console(), "/metrics", "").1.contains(repaired));
    reach_all_workers(&weir);
    // Killed in the middle of a request: its successor begins as idle.
    let slow = start_slow_request(&weir);
    wait_until_true(|| busy(&weir) == 1);
    let stuck = workers(&weir).into_iter().find(|worker| worker["requests"] == 1);
    let stuck = stuck.and_then(|it| it["pid"].as_i64()).expect("busy");
    kill(i32::try_from(stuck).expect("a pid"));
    assert!(slow.join().is_err(), "it had no answer");
    wait_until_true(|| states(&weir) == vec!["serving"; 3]);
    reach_all_workers(&weir);
    assert!(weir.stop().success());
}

/// Both with join-idle and round-robin; otherwise a connection would wait until the worker is back.
#[test]
fn dead_worker_receives_no_connections() {
    for settings in ["selection = \"join-idle\"\n", "selection = \"round-robin\"\nqueues = 3\n"] {
        let weir = start(3, "keeps", settings);
        if is_refused(&weir) {
            continue;
        }
        std::fs::remove_file(weir.site.path().join("shared.py")).expect("removed");
        let mut left = pids(&weir);
        let dead = left.pop_first().expect("a worker");
        kill(dead);
        wait_until_true(|| states(&weir).iter().filter(|state| *state == "serving").count() == 2);
        let served: BTreeSet<i32> = (0..9).map(|_| get_pid(weir.app("shop"), "/")).collect();
        assert_eq!(served, left);
        assert!(weir.stop().success());
    }
}

#[test]
fn rolling_restart_and_scaling_lose_no_request() {
    for settings in ["", "queues = 3\n", "selection = \"join-idle\"\n"] {
        let weir = start(3, "keeps", settings);
        let (address, before) = (weir.app("shop"), pids(&weir));
        let clients = Clients::start(address);
        weir.site.ok(&["workers", "restart", "shop"]);
        wait_until_true(|| {
            listed(&weir)["rolling"] == "finished" && pids(&weir).is_disjoint(&before)
        });
        weir.site.ok(&["workers", "scale", "shop", "5"]);
        wait_until_true(|| states(&weir) == vec!["serving"; 5]);
        weir.site.ok(&["workers", "scale", "shop", "3"]);
        wait_until_true(|| states(&weir) == vec!["serving"; 3]);
        clients.stop();
        assert!(weir.stop().success());
    }
}

#[test]
fn worker_with_an_old_reported_request_is_evicted() {
    let weir = start(2, "keeps", "evict_after = \"300ms\"\n");
    let before = pids(&weir);
    assert!(start_slow_request(&weir).join().is_err(), "it had no answer");
    wait_until_true(|| pids(&weir).intersection(&before).count() == 1);
    wait_until_true(|| states(&weir) == vec!["serving"; 2]);
    let (_, metrics) = get(weir.console(), "/metrics", "");
    assert!(metrics.contains("weir_front_worker_evictions_total{app=\"shop\"} 1"), "{metrics}");
    assert!(weir.stop().success());
}

/// Others respond at the same address, but a probe counts only if the new worker accepted it.
#[test]
fn successor_that_never_listens_does_not_replace() {
    let weir = start(2, "keeps", "start_deadline = \"2s\"\n");
    let before = pids(&weir);
    let hangs = "import time\ntime.sleep(600)\n";
    std::fs::write(weir.site.path().join("shared.py"), hangs).expect("written");
    let shown = weir.site.shown(&["workers", "restart", "shop"]);
    assert!(shown.starts_with("exit: 1\n") && shown.contains("start_deadline"), "{shown}");
    assert!(listed(&weir)["rolling"].as_str().is_some_and(|it| it.starts_with("failed")));
    assert_eq!(pids(&weir), before);
    get_pid(weir.app("shop"), "/");
    assert!(weir.stop().success());
}

#[test]
fn worker_that_ignores_a_socket_is_never_ready() {
    let site = site(1, "keeps", "queues = 2\nqueues_per_worker = 2\nstart_deadline = \"2s\"\n");
    let one = APP.replace("range(int(os.environ[\"LISTEN_FDS\"]))", "range(1)");
    assert_ne!(one, APP);
    std::fs::write(site.path().join("shared.py"), one).expect("written");
    let mut weir = site.start();
    weir.wait_for_log("does not accept connections from this queue of its slice");
    weir.wait_for_log("not ready within start_deadline");
    assert!(weir.stop().success());
}

#[test]
fn missing_privileges_fall_back_to_one_socket() {
    let site = site(2, "keeps", "selection = \"join-idle\"\n");
    let nobody = |command: &mut Command| {
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
    };
    std::fs::set_permissions(site.path(), std::fs::Permissions::from_mode(0o777)).expect("set");
    let mut weir = site.start_with(nobody);
    weir.wait_for_log("refuses selection = \"join-idle\"");
    wait_until_true(|| states(&weir) == ["serving"; 2]);
    assert_eq!(listed(&weir)["selection"], "kernel (join-idle was refused)");
    get_pid(weir.app("shop"), "/");
    assert!(weir.stop().success());
}

/// The existing sockets stay even if the settings have changed meanwhile.
#[test]
fn workers_serve_during_a_service_crash() {
    let mut weir = start(2, "keeps", "");
    let before = pids(&weir);
    write(&weir.site, 2, "keeps", "queues = 2\n");
    weir.signal(Signal::HUP);
    weir.wait_for_log("settings reloaded");
    kill(weir.service().as_raw_nonzero().get());
    get_pid(weir.app("shop"), "/");
    weir.wait_for_log("restarting");
    weir.wait_for_log("ready");
    wait_until_true(|| states(&weir) == ["serving"; 2]);
    assert_eq!(pids(&weir), before);
    assert_eq!(workers(&weir)[1]["address"], format!("{} (queue 0)", weir.app("shop")));
    // One that is started now gets the same socket.
    weir.site.ok(&["workers", "scale", "shop", "3"]);
    wait_until_true(|| states(&weir) == ["serving"; 3]);
    assert!(weir.stop().success());
}

fn asked(weir: &Weir) -> Vec<String> {
    let text = std::fs::read_to_string(weir.site.path().join("asked")).unwrap_or_default();
    // Without the pids.
    text.lines().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest.to_owned()).collect()
}

#[test]
fn new_worker_is_warmed_up_before_its_first_request() {
    let warm_up = "warm_up = [\"/a\", \"/b\"]\nready_path = \"/ready\"\n";
    let weir = start(1, "keeps", &format!("{warm_up}advanced.warm_up_host = \"shop.example\"\n"));
    get_pid(weir.app("shop"), "/");
    let own = format!("/ {}", weir.app("shop"));
    let expected = ["/ready localhost", "/a shop.example", "/b shop.example", &own];
    assert_eq!(asked(&weir), expected);
    assert!(weir.stop().success());

    let site = Site::new("");
    std::fs::write(site.path().join("shared.py"), APP).expect("written");
    let folder = site.path().display();
    site.write(&format!(
        "{BASE}[[front.apps]]\nname = \"shop\"\nfolder = \"{folder}\"\nhosts = [\"a.example\"]\n\
         command = [\"python3\", \"shared.py\", \"{ADAPTERS}\", \"\", \"{{socket}}\"]\n{warm_up}"
    ));
    let weir = site.start();
    wait_until_true(|| states(&weir) == ["serving"]);
    assert_eq!(asked(&weir), ["/ready localhost", "/a a.example", "/b a.example"]);
    assert!(weir.stop().success());
}

/// The warnings of `weir check` about known servers.
#[test]
fn check_warns_about_servers_without_socket_support() {
    let warnings = |command: &str, more: &str| {
        let site = Site::new("");
        site.write(&format!(
            "{BASE}[[front.apps]]\nname = \"shop\"\nworkers = 4\nmode = \"sockets\"\n\
             listen = \"127.0.0.1:8081\"\ncommand = [{command}]\n{more}"
        ));
        let checked = site.ok(&["check"]);
        let warnings = checked.lines().filter(|line| line.starts_with("warning: front.apps"));
        // Which of them are installed here is another matter.
        let is_there = |line: &&str| !line.contains("PATH") && !line.contains("is no program");
        let warnings = warnings.filter(is_there);
        warnings.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(warnings("\"bundle\", \"exec\", \"puma\"", ""), "");
    assert_eq!(warnings("\"gunicorn\"", "queues = 4\nqueues_per_worker = 2\n"), "");
    insta::assert_snapshot!(
        warnings("\"/usr/bin/puma\"", "queues = 4\nqueues_per_worker = 2\nevict_after = \"1m\"\n")
            + &warnings("\"granian\"", ""),
        @r#"
    warning: front.apps[0].command: puma listens on one inherited socket only, would get 2 and never be ready; leave out selection and queues_per_worker, so that all workers share one, or use mode = "proxy"
    warning: front.apps[0].evict_after: with mode = "sockets" a request's age is known only from a worker that keeps its busy word (docs/front-sockets.md); requests of other workers are never evicted
    warning: front.apps[0].command: granian cannot listen on inherited sockets and would never become ready; use mode = "proxy" with {socket} or {port}
    "#
    );
}
