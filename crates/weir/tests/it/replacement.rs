//! The service process is replaced by the next one while everybody is served.

mod lingering;
mod load;
mod upgrade;

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use self::load::Load;
use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir, is_running};

pub(crate) const SECRET: &str = "a secret of enough characters";
const APP: &str = include_str!("front/app.py");

/// Returns settings with jobs on disk (in small segments, since each start searches for the end of the last one),
/// three Python workers, and a realtime app.
pub(crate) fn settings(folder: &str, more: &str) -> String {
    format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\n[jobs.limits]\nadvanced.segment_bytes = \"4MiB\"\nadvanced.reserve_bytes = \"1MiB\"\n[console]\nlisten = \"127.0.0.1:0\"\n{more}\
         [realtime]\ndrain_window = \"100ms\"\n[front]\nlisten = \"127.0.0.1:0\"\ncores = 2\n\
         [[front.apps]]\nname = \"shop\"\nworkers = 3\nconcurrency = 8\nfolder = \"{folder}\"\n\
         command = [\"python3\", \"app.py\", \"{{socket}}\"]\n\
         [[realtime.apps]]\nid = \"1\"\nkey = \"demo-key\"\n\
         secret = {{ env = \"WEIR_REALTIME_SECRET\" }}\n"
    )
}

pub(crate) fn write_settings(site: &Site, more: &str) {
    site.write(&settings(&site.path().display().to_string(), more));
}

/// Starts Weir, and waits until all workers serve.
fn start() -> Weir {
    let site = Site::new("");
    std::fs::write(site.path().join("app.py"), APP).expect("written");
    write_settings(&site, "");
    let weir = site.start_with(|command| {
        command.env("WEIR_REALTIME_SECRET", SECRET);
    });
    wait_until("all workers serve", || workers(&weir).len() == 3);
    weir
}

/// Returns the numbers of the serving workers.
fn workers(weir: &Weir) -> BTreeSet<i64> {
    let listed = weir.site.ok(&["workers", "list", "--json", "--data-dir", "data"]);
    let apps: Value = serde_json::from_str(&listed).expect("JSON");
    let workers = apps[0]["workers"].as_array().expect("a list");
    let serving = workers.iter().filter(|worker| worker["state"] == "serving");
    serving.filter_map(|worker| worker["pid"].as_i64()).collect()
}

/// Replaces the service process; returns the old and the new pid.
fn replaced(weir: &Weir, command: &str) -> (Value, Value) {
    let told = weir.site.ok(&[command, "--json", "--data-dir", "data"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    (told["old_pid"].clone(), told["new_pid"].clone())
}

#[test]
fn ten_replacements_under_load_lose_nothing() {
    let weir = start();
    let before = workers(&weir);
    let load = Load::start(&weir);
    let mut present = Value::from(weir.service().as_raw_nonzero().get());
    for _ in 0..10 {
        let (old, new) = replaced(&weir, "restart");
        assert_eq!(old, present);
        present = new;
        load.wait_for_progress();
    }
    load.stop(&weir);
    assert_eq!(workers(&weir), before, "the workers are those of before");
    assert!(weir.stop().success());
}

#[test]
fn new_service_uses_the_current_settings() {
    let weir = start();
    assert_eq!(Client::connect(weir.jobs()).run_command("FLUSH").get(..4), Some("-ERR"));
    let (_, console) = get(weir.console(), "/health", "");
    assert_eq!(console, "ok\n");
    write_settings(
        &weir.site,
        "[jobs.queues.pull]\nconcurrency = 2\n[history]\nminutes_kept = \"2h\"\n",
    );
    let mut weir = weir;
    weir.signal(Signal::HUP);
    weir.wait_for_log("history.minutes_kept changed: needs `weir restart`");
    weir.wait_for_log("settings reloaded");
    replaced(&weir, "restart");
    weir.signal(Signal::HUP);
    // Nothing that needs a restart is left.
    assert!(weir.wait_for_log("settings reloaded").contains("needing_restart=0"));
    assert!(weir.stop().success());
}

#[test]
fn invalid_settings_prevent_a_replacement() {
    let mut weir = start();
    let service = weir.service();
    write_settings(&weir.site, "page_size = 1\n");
    let shown = weir.site.shown(&["restart", "--data-dir", "data"]);
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    assert!(shown.contains("console.page_size is not a setting"), "{shown}");
    weir.wait_for_log("the service is not replaced: ");
    assert_eq!(weir.service(), service);
    // What the parent itself holds.
    let moved = settings(&weir.site.path().display().to_string(), "").replace("shop", "other");
    weir.site.write(&moved);
    let shown = weir.site.shown(&["restart", "--data-dir", "data"]);
    let expected =
        "(front.apps \"other\": new; front.apps \"shop\": gone); apply them with `weir upgrade`";
    assert!(shown.contains(expected), "{shown}");
    // Of these the service takes two itself.
    let folder = weir.site.path().display().to_string();
    let more = settings(&folder, "").replace("workers = 3\nconcurrency = 8\n", "workers = 2\nconcurrency = 9\nready_path = \"/\"\nstop_deadline = \"9s\"\nenvironment = { A = \"1\" }\n");
    weir.site.write(&more);
    let shown = weir.site.shown(&["restart", "--data-dir", "data"]);
    let expected = "(front.apps \"shop\": workers, environment, stop_deadline); apply them with `weir upgrade`";
    assert!(shown.contains(expected), "{shown}");
    weir.signal(Signal::HUP);
    weir.wait_for_log("front.apps[0].concurrency changed: needs `weir restart`");
    weir.wait_for_log("front.apps[0].ready_path changed: needs `weir restart`");
    weir.wait_for_log("front.apps[0].stop_deadline changed: needs `weir upgrade`");
    weir.wait_for_log("front.apps[0].workers changed: needs `weir upgrade`");
    assert_eq!(weir.service(), service);
    assert!(weir.stop().success());
}

#[test]
fn failed_replacement_keeps_the_old_service() {
    let mut weir = start();
    let service = weir.service();
    // Nobody could lock that.
    let lock = weir.data_dir().join("realtime.lock");
    std::fs::remove_file(&lock).expect("removed");
    std::fs::create_dir(&lock).expect("made");
    write_settings(&weir.site, "[history]\nminutes_kept = \"2h\"\n");
    let shown = weir.site.shown(&["restart", "--data-dir", "data"]);
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    assert!(shown.contains("cannot open data/realtime.lock: Is a directory"), "{shown}");
    weir.wait_for_log("replacement failed, the present service stays");
    assert_eq!(weir.service(), service);
    assert_eq!(get(weir.front(), "/", "").0, "HTTP/1.1 200 OK");
    // Should it die, the next one has the settings of before.
    std::fs::remove_dir(&lock).expect("removed");
    kill_process(service, Signal::KILL).expect("killed");
    weir.wait_for_log("restarting");
    assert_eq!(get(weir.front(), "/", "").0, "HTTP/1.1 200 OK");
    weir.signal(Signal::HUP);
    weir.wait_for_log("history.minutes_kept changed: needs `weir restart`");
    assert!(weir.stop().success());
}

#[test]
fn killed_replacement_is_retried() {
    let mut weir = start();
    let service = weir.service();
    let mut job = Client::connect(weir.jobs());
    assert_eq!(job.run_command(r#"PUSH {"jid":"it-job-0001","jobtype":"Hello","args":[]}"#), "+OK");
    // The old one serves a request to its end, whatever becomes of its successor.
    let front = weir.front();
    let slow = std::thread::spawn(move || get(front, "/slow", "").0);
    wait_until("the request is there", || busy(&weir));
    let restart = std::thread::spawn({
        let folder = weir.site.path().to_owned();
        move || {
            let mut command = crate::weir::program();
            command.current_dir(folder).args(["restart", "--data-dir", "data"]);
            crate::process::output_of(&mut command)
        }
    });
    let line = weir.wait_for_log("takes over");
    let pid = line.rsplit_once("pid=").expect("a pid").1;
    let new = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a pid");
    kill_process(new, Signal::KILL).expect("killed");
    weir.wait_for_log("was killed by signal 9; restarting");
    assert_eq!(slow.join().expect("a client"), "HTTP/1.1 200 OK");
    assert!(restart.join().expect("it ends").status.success());
    assert_eq!(get(front, "/", "").0, "HTTP/1.1 200 OK");
    assert!(Client::connect(weir.jobs()).run_command("FETCH default").contains("it-job-0001"));
    wait_until("the old one has ended", || !is_running(service));
    assert!(!is_running(new));
    assert!(weir.stop().success());
}

fn busy(weir: &Weir) -> bool {
    let listed = weir.site.ok(&["workers", "list", "--json", "--data-dir", "data"]);
    let apps: Value = serde_json::from_str(&listed).expect("JSON");
    let workers = apps[0]["workers"].as_array().expect("a list");
    workers.iter().any(|worker| worker["requests"] == 1)
}
