//! `[workers.NAME]`: Weir runs the processes that work off its jobs, and ends before them.

mod overrides;

use std::collections::BTreeSet;
use std::net::TcpListener;

use serde_json::Value;

use crate::faktory::Client;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

const WORKER: &str = include_str!("job_workers/worker.py");

/// Creates a site with two Python processes that receive the address of the job server.
fn site(more: &str) -> Site {
    let site = Site::new("");
    std::fs::write(site.path().join("worker.py"), WORKER).expect("written");
    // The workers must know the port before Weir has one; nobody else is given it so soon.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    let (folder, port) = (site.path().display(), address.port());
    site.write(&format!(
        "[jobs]\nlisten = \"{address}\"\n[jobs.limits]\nadvanced.segment_bytes = \"4MiB\"\nadvanced.reserve_bytes = \"1MiB\"\n\
         [console]\nlisten = \"127.0.0.1:0\"\n\
         [workers.mailers]\nprocesses = 2\nfolder = \"{folder}\"\nready_line = \"at work\"\n\
         command = [\"python3\", \"worker.py\", \"{{concurrency}}\", \"{{queues}}\"]\n\
         concurrency = 7\nqueues = [\"critical\", \"mailers\"]\nqueue_flag = \"-q\"\n\
         environment = {{ JOBS_PORT = \"{port}\" }}\n{more}"
    ));
    site
}

fn start(more: &str) -> Weir {
    let weir = site(more).start();
    wait_until("both run", || running_pids(&weir).len() == 2);
    weir
}

fn list_workers(weir: &Weir) -> Value {
    let listed = weir.site.ok(&["workers", "list", "--json", "--data-dir", "data"]);
    let groups: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(groups[0]["mode"], "jobs", "{listed}");
    groups[0].clone()
}

fn running_pids(weir: &Weir) -> BTreeSet<i64> {
    let group = list_workers(weir);
    let workers = group["workers"].as_array().expect("a list");
    let running = workers.iter().filter(|worker| worker["state"] == "running");
    running.filter_map(|worker| worker["pid"].as_i64()).collect()
}

fn push(weir: &Weir, jid: &str, kind: &str, seconds: f64) {
    let job = format!(
        r#"PUSH {{"jid":"{jid}","jobtype":"{kind}","queue":"mailers","args":[{seconds}]}}"#
    );
    assert_eq!(Client::connect(weir.jobs()).run_command(&job), "+OK");
}

fn info(weir: &Weir, name: &str) -> Value {
    let told: Value =
        serde_json::from_str(&Client::connect(weir.jobs()).run_command("INFO")).expect("JSON");
    told["faktory"][name].clone()
}

#[test]
fn job_workers_get_their_queues_and_finish_before_the_server() {
    let mut weir = start("");
    assert!(weir.wait_for_log("told ").ends_with("told 7 -q critical -q mailers"));
    push(&weir, "it-job-0001", "Hello", 0.0);
    weir.wait_for_log("begins it-job-0001");
    weir.wait_for_log("answered b'+OK");
    push(&weir, "it-job-0002", "Hello", 1.0);
    weir.wait_for_log("begins it-job-0002");
    weir.signal(rustix::process::Signal::TERM);
    weir.wait_for_log("answered b'+OK");
    assert!(weir.wait().success());
    let weir = weir.into_site().start();
    wait_until("both run again", || running_pids(&weir).len() == 2);
    let left: Vec<Value> = ["total_enqueued", "total_processed"].map(|it| info(&weir, it)).into();
    assert_eq!(left, [0, 2], "each was done once");
    assert!(weir.stop().success());
}

#[test]
fn job_workers_can_be_listed_restarted_and_scaled() {
    let weir = start("");
    let before = running_pids(&weir);
    let shown = weir.site.ok(&["workers", "list", "--data-dir", "data"]);
    assert!(shown.starts_with("mailers: job workers\n"), "{shown}");
    assert!(shown.contains("WORKER  STATE    PID") && !shown.contains("GIVEN"), "{shown}");
    weir.site.ok(&["workers", "restart", "mailers", "--data-dir", "data"]);
    wait_until("all are replaced", || {
        let now = running_pids(&weir);
        now.len() == 2 && now.is_disjoint(&before) && list_workers(&weir)["rolling"] == "finished"
    });
    weir.site.ok(&["workers", "scale", "mailers", "3", "--data-dir", "data"]);
    wait_until("there are three", || running_pids(&weir).len() == 3);
    let shown = weir.site.shown(&["workers", "pause", "mailers", "--data-dir", "data"]);
    assert!(shown.contains("its workers run jobs and have no requests"), "{shown}");
    let shown = weir.site.shown(&["workers", "dump", "mailers", "0", "--data-dir", "data"]);
    assert!(shown.contains("mailers has no dump_signal"), "{shown}");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let line = "weir_workers{group=\"mailers\",state=\"running\"} 3\n";
    assert!(metrics.contains(line), "{metrics}");
    let restarts = "weir_workers_restarts_total{group=\"mailers\"} 2\n";
    assert!(metrics.contains(restarts), "{metrics}");
    assert!(weir.stop().success());
}

#[test]
fn job_workers_survive_restarts_and_upgrades() {
    let weir = start("");
    let before = running_pids(&weir);
    for how in ["restart", "upgrade"] {
        weir.site.ok(&[how, "--data-dir", "data"]);
        wait_until("they run", || running_pids(&weir) == before);
    }
    push(&weir, "it-job-0001", "Hello", 0.0);
    wait_until("it is done", || info(&weir, "total_processed") == 1);
    assert_eq!(running_pids(&weir), before, "by those of before");
    assert!(weir.stop().success());
}

#[test]
fn large_job_worker_is_replaced_after_its_jobs() {
    let mut weir = start("recycle_memory = \"80MiB\"\nadvanced.recycle_interval = \"50ms\"\n");
    let before = running_pids(&weir);
    push(&weir, "it-job-0001", "Grow", 1.0);
    weir.wait_for_log("begins it-job-0001");
    let line = weir.wait_for_log("recycled: ");
    assert!(line.contains("MiB of memory (recycle_memory)"), "{line}");
    weir.wait_for_log("answered b'+OK");
    wait_until("there are two again", || {
        let now = running_pids(&weir);
        now.len() == 2 && now.intersection(&before).count() == 1
    });
    let (_, metrics) = get(weir.console(), "/metrics", "");
    let line = "weir_workers_recycled_total{group=\"mailers\",limit=\"memory\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
    assert!(weir.stop().success());
}

#[test]
fn job_workers_need_the_workers_part() {
    let site = site("");
    let weir = site.start_with(|command| {
        command.args(["--only", "jobs,console"]);
    });
    let listed = weir.site.ok(&["workers", "list", "--data-dir", "data"]);
    assert!(listed.starts_with("no apps and no workers"), "{listed}");
    assert!(weir.stop().success());
}
