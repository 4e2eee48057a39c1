//! Jobs that kill their worker: after the third one they are dead.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::faktory::Client;
use crate::process::{lines_of, wait_until};
use crate::weir::{Site, Weir};

const WORKER: &str = include_str!("job_workers/worker.py");

/// Creates a site with the embedded store, whose port stays the same over restarts.
fn site() -> Site {
    let site = Site::new("");
    site.write_file("worker.py", WORKER.as_bytes());
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    site.write(&format!(
        "[jobs]\nlisten = \"{address}\"\n[jobs.limits]\nheartbeat_timeout = \"1s\"\n\
         advanced.segment_bytes = \"4MiB\"\nadvanced.reserve_bytes = \"1MiB\"\n\
         [console]\nlisten = \"127.0.0.1:0\"\n"
    ));
    site
}

/// Starts a worker and waits until it runs the job.
fn running_worker(weir: &Weir) -> Child {
    let mut command = Command::new("python3");
    command.args(["worker.py", "-", "-q", "poison"]).current_dir(weir.site.path());
    command.env("JOBS_PORT", weir.jobs().port().to_string());
    let mut worker = command.stdout(Stdio::piped()).spawn().expect("python3 starts");
    let lines = lines_of(worker.stdout.take().expect("piped"));
    let begun = lines.iter().any(|line| line == "begins it-job-0001");
    assert!(begun, "the worker ended without the job");
    worker
}

fn kill(mut worker: Child) {
    worker.kill().expect("killed");
    worker.wait().expect("waited");
}

fn job(weir: &Weir) -> Value {
    let shown = weir.site.ok(&["jobs", "show", "it-job-0001", "--json", "--data-dir", "data"]);
    serde_json::from_str(&shown).expect("JSON")
}

fn waits_again(weir: &Weir) {
    wait_until("the job waits again", || job(weir)["state"] == "enqueued");
}

#[test]
fn a_job_that_kills_three_workers_is_dead_and_kills_of_weir_do_not_count() {
    let mut weir = site().start();
    let push = r#"PUSH {"jid":"it-job-0001","jobtype":"Poison","queue":"poison","args":[600]}"#;
    assert_eq!(Client::connect(weir.jobs()).run_command(push), "+OK");
    for _ in 0..2 {
        kill(running_worker(&weir));
        waits_again(&weir);
        // A deploy: the worker says END.
        let mut stopped = Client::connect(weir.jobs());
        assert!(stopped.run_command("FETCH poison").contains("it-job-0001"));
        assert_eq!(stopped.run_command("END"), "");
        waits_again(&weir);
        // Weir and its worker are killed together.
        let worker = running_worker(&weir);
        let service = weir.service();
        let site = weir.kill_parent();
        let _ = rustix::process::kill_process(service, rustix::process::Signal::KILL);
        kill(worker);
        weir = site.start();
        waits_again(&weir);
    }
    kill(running_worker(&weir));
    wait_until("the job is dead", || job(&weir)["state"] == "dead");
    let failure = job(&weir)["failure"].clone();
    assert_eq!(failure["errtype"], "WorkerKilled", "{failure}");
    let message = failure["message"].as_str().expect("a message");
    assert!(message.starts_with("3 workers died while running it"), "{message}");
    assert!(weir.site.ok(&["jobs", "list", "dead", "--data-dir", "data"]).contains("WorkerKilled"));
    assert!(weir.stop().success());
}
