//! Tasks: actions on all matching jobs that the server runs in the background.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::doctor::redis_server::RedisServer;
use crate::process::{output_with_input, wait_until};
use crate::weir::{Site, Weir, program};

const EMBEDDED: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\n[console]\nlisten = \"127.0.0.1:0\"\n";

fn start(limits: &str) -> Weir {
    let site = Site::new("");
    site.write(&format!("{EMBEDDED}[jobs.limits]\n{limits}"));
    site.start()
}

fn start_on(redis: &RedisServer, limits: &str) -> Weir {
    let site = Site::new("");
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}\n\
         [jobs.limits]\n{limits}[console]\nlisten = \"127.0.0.1:0\"\n",
        redis.port
    ));
    site.start()
}

/// Imports jobs with ids that begin with the queue's name, and of two types.
fn fill(weir: &Weir, queue: &str, jobs: usize) {
    fill_with(weir, queue, jobs, |_| String::new());
}

/// The member of a job that is due far ahead, each at another time.
fn far_ahead(n: usize) -> String {
    let (minute, second, millisecond) = (n / 1_000 / 60 % 60, n / 1_000 % 60, n % 1_000);
    format!(",\"at\":\"2999-01-01T00:{minute:02}:{second:02}.{millisecond:03}Z\"")
}

fn fill_with(weir: &Weir, queue: &str, jobs: usize, more: impl Fn(usize) -> String) {
    let line = |n: usize| {
        let more = more(n);
        let jobtype = if n.is_multiple_of(2) { "Even" } else { "Odd" };
        format!(
            "{{\"jid\":\"{queue}-job-{n:06}\",\"jobtype\":\"{jobtype}\",\"args\":[{n}],\"queue\":\"{queue}\"{more}}}\n"
        )
    };
    let lines: String = (0..jobs).map(line).collect();
    let mut import = program();
    import.current_dir(weir.site.path()).args(["jobs", "import", "--unchecked"]);
    let output = output_with_input(&mut import, lines.as_bytes());
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{jobs} jobs imported, 0 rejected\n")
    );
}

/// Starts a task; returns its number.
fn begin(weir: &Weir, arguments: &[&str]) -> u64 {
    let arguments = [&["jobs"], arguments, &["--detach"]].concat();
    weir.site.ok(&arguments).trim().parse().expect("a number")
}

/// Returns a task. `None`: Weir is being restarted.
fn try_task(weir: &Weir, id: u64) -> Option<Value> {
    let output = weir.site.run(&["jobs", "tasks", "show", &id.to_string(), "--json"]);
    output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn task(weir: &Weir, id: u64) -> Value {
    try_task(weir, id).expect("a task")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn wait_for_end(weir: &Weir, id: u64) -> Value {
    wait_until("the task ends", || {
        try_task(weir, id).is_some_and(|task| task["state"] != "running")
    });
    task(weir, id)
}

fn depth(weir: &Weir, queue: &str) -> u64 {
    let queues: Value =
        serde_json::from_str(&weir.site.ok(&["jobs", "list", "--json"])).expect("JSON");
    let found = queues.as_array().expect("a list").iter().find(|row| row["name"] == queue);
    found.map_or(0, |row| number(&row["depth"]))
}

/// Returns how many jobs of a place match.
fn matching(weir: &Weir, place: &str, search: &str) -> usize {
    let list = ["jobs", "list", place, "--search", search, "--json", "--limit", "1000"];
    let jobs: Value = serde_json::from_str(&weir.site.ok(&list)).expect("JSON");
    jobs.as_array().expect("a list").len()
}

const JOBS: u64 = 50_000;

#[test]
fn tasks_go_on_after_kill_9_and_change_no_job_that_came_later() {
    let weir = start("advanced.scan_jobs_max = 500\n");
    fill(&weir, "a", usize::try_from(JOBS).unwrap());
    fill(&weir, "c", 5_000);
    let moving = begin(&weir, &["move", "--from", "a", "--to", "b"]);
    let killing = begin(&weir, &["kill", "--from", "c", "--jobtype", "Odd", "--yes"]);
    let mut pushed = 0;
    for kill in 1..=3 {
        wait_until("some jobs are moved", || {
            let late = format!("late-{pushed:06}");
            if weir
                .site
                .run(&["jobs", "push", "Late", "[]", "--queue", "a", "--jid", &late])
                .status
                .success()
            {
                pushed += 1;
            }
            let changed = try_task(&weir, moving).map_or(0, |task| number(&task["changed"]));
            changed >= JOBS / 8 * kill
        });
        assert_eq!(task(&weir, moving)["state"], "running", "killed in the middle");
        kill_process(weir.service(), Signal::KILL).expect("killed");
    }
    let moved = wait_for_end(&weir, moving);
    let killed = wait_for_end(&weir, killing);
    let counts = |task: &Value| {
        ["total", "examined", "changed", "unchanged"].map(|name| number(&task[name]))
    };
    assert_eq!(moved["state"], "done", "{moved}");
    assert_eq!(counts(&moved)[0], JOBS);
    assert_eq!(counts(&moved)[2..], [JOBS, 0], "{moved}");
    assert!(counts(&moved)[1] >= JOBS, "{moved}");
    assert_eq!((&killed["state"], counts(&killed)), (&"done".into(), [5_000, 5_000, 2_500, 0]));
    assert_eq!((depth(&weir, "b"), depth(&weir, "c")), (JOBS, 2_500));
    assert_eq!(matching(&weir, "b", "\"jid\":\"late-"), 0, "they came later");
    let late = matching(&weir, "a", "\"jid\":\"late-");
    assert!(pushed >= 3 && late >= pushed, "{late} of {pushed}");
    assert_eq!(depth(&weir, "a"), late as u64);
    assert!(weir.stop().success());
}

#[test]
fn a_stopped_task_stays_stopped_until_it_is_resumed() {
    let weir = start("advanced.scan_jobs_max = 10\n");
    fill(&weir, "a", 5_000);
    let id = begin(&weir, &["move", "--from", "a", "--to", "b"]);
    wait_until("the first jobs are moved", || depth(&weir, "b") > 0);
    let shown = weir.site.ok(&["jobs", "tasks", "stop", &id.to_string()]);
    assert!(shown.starts_with(&format!("task {id}: stopped\n  action    move to b\n")), "{shown}");
    let stopped = task(&weir, id);
    let changed = number(&stopped["changed"]);
    assert!(changed < 5_000, "{stopped}");
    assert_eq!(changed, depth(&weir, "b"));
    kill_process(weir.service(), Signal::KILL).expect("killed");
    wait_until("Weir serves again", || try_task(&weir, id).is_some());
    assert_eq!((&task(&weir, id)["state"], depth(&weir, "b")), (&"stopped".into(), changed));
    weir.site.ok(&["jobs", "push", "Late", "[]", "--queue", "a"]);
    let resumed = weir.site.ok(&["jobs", "tasks", "resume", &id.to_string()]);
    assert_eq!(resumed, "5000 jobs changed in all\n");
    assert_eq!((depth(&weir, "a"), depth(&weir, "b")), (1, 5_000));
    let again = weir.site.shown(&["jobs", "tasks", "resume", &id.to_string()]);
    assert!(again.contains("is done: it has examined all jobs from before it began"), "{again}");
    let unknown = weir.site.shown(&["jobs", "tasks", "stop", "99"]);
    assert!(unknown.contains("error: there is no task 99"), "{unknown}");
    assert!(weir.stop().success());
}

#[test]
fn tasks_at_once_and_ended_tasks_are_limited() {
    let weir = start("advanced.scan_jobs_max = 1\ntasks_max = 1\nadvanced.ended_tasks_max = 2\n");
    fill(&weir, "a", 2_000);
    let first = begin(&weir, &["move", "--from", "a", "--to", "b"]);
    let second = weir.site.shown(&["jobs", "move", "--from", "b", "--to", "c"]);
    assert!(
        second.contains("1 tasks are running, and no more may (jobs.limits.tasks_max)"),
        "{second}"
    );
    weir.site.ok(&["jobs", "tasks", "stop", &first.to_string()]);
    for queue in ["c", "d"] {
        weir.site.ok(&["jobs", "push", "Hello", "[]", "--queue", queue]);
        weir.site.ok(&["jobs", "move", "--from", queue, "--to", "e"]);
    }
    let list: Value =
        serde_json::from_str(&weir.site.ok(&["jobs", "tasks", "list", "--json"])).unwrap();
    let ids: Vec<u64> = list.as_array().unwrap().iter().map(|task| number(&task["id"])).collect();
    assert_eq!(ids, [first + 1, first + 2], "the one that ended first is forgotten");
    let (_, metrics) = crate::http::get(weir.console(), "/metrics", "");
    for line in [
        "weir_jobs_limit_hits_total{limit=\"tasks_max\"} 1",
        "weir_jobs_limit_hits_total{limit=\"ended_tasks_max\"} 1",
        "weir_jobs_running_tasks 0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert!(weir.stop().success());
}

#[test]
fn a_task_on_redis_waits_while_redis_is_away_and_goes_on_after_kill_9() {
    let Some(redis) = RedisServer::start() else { return };
    let weir = start_on(&redis, "advanced.scan_jobs_max = 100\n");
    fill_with(&weir, "a", 6_000, far_ahead);
    let id = begin(&weir, &["kill", "--from", "scheduled", "--yes"]);
    let changed = |at_least: u64| {
        wait_until("some jobs are dead", || {
            try_task(&weir, id).is_some_and(|task| number(&task["changed"]) >= at_least)
        });
    };
    changed(500);
    kill_process(weir.service(), Signal::KILL).expect("killed");
    changed(2_000);
    weir.site.ok(&["jobs", "push", "Late", "[]", "--in", "99h", "--jid", "late-000001"]);
    redis.signal("STOP");
    wait_until("the task waits", || {
        try_task(&weir, id).is_some_and(|task| !task["waits_for"].is_null())
    });
    let waiting = task(&weir, id);
    assert_eq!(waiting["state"], "running", "{waiting}");
    let list = weir.site.ok(&["jobs", "tasks", "list"]);
    assert!(list.contains("waiting"), "{list}");
    redis.signal("CONT");
    let done = wait_for_end(&weir, id);
    assert_eq!((&done["state"], number(&done["changed"])), (&"done".into(), 6_000), "{done}");
    assert_eq!(matching(&weir, "scheduled", "late-"), 1, "it came later");
    let status: Value = serde_json::from_str(&weir.site.ok(&["status", "--json"])).unwrap();
    assert_eq!(number(&status["jobs"]["dead"]), 6_000);
    assert!(weir.stop().success());
}

#[test]
fn an_earlier_cursor_continues_as_a_task() {
    let weir = start("");
    fill(&weir, "a", 30);
    let list = ["jobs", "list", "a", "--json", "--limit", "30"];
    let jobs: Value = serde_json::from_str(&weir.site.ok(&list)).unwrap();
    let key = |n: usize| jobs[n]["key"].as_str().expect("a key").to_owned();
    let start = key(29).split('|').next().expect("an order").to_owned();
    let cursor = format!("{start}|{}", key(9));
    let shown = weir.site.shown(&["jobs", "move", "--from", "a", "--to", "b", "--cursor", &cursor]);
    assert!(shown.starts_with("exit: 0\n-- stdout\n20 jobs moved to b\n"), "{shown}");
    assert!(shown.contains("--cursor will be removed"), "{shown}");
    assert!(weir.stop().success());
}

#[test]
fn tasks_that_can_not_be_read_are_set_aside() {
    let mut weir = start("");
    fill(&weir, "a", 3);
    weir.site.ok(&["jobs", "move", "--from", "a", "--to", "b"]);
    let file = weir.data_dir().join("job-tasks.json");
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(text.contains("\"version\": 1"), "{text}");
    std::fs::write(&file, text.replace("\"version\": 1", "\"version\": 2")).expect("written");
    kill_process(weir.service(), Signal::KILL).expect("killed");
    weir.wait_for_log("the file of the tasks can't be read");
    wait_until("Weir serves again", || weir.site.run(&["jobs", "tasks", "list"]).status.success());
    assert_eq!(weir.site.ok(&["jobs", "tasks", "list", "--json"]).trim(), "[]");
    assert!(file.with_extension("unreadable").exists());
    assert!(weir.stop().success());
}

/// Changes times on a store.
fn reschedule(weir: &Weir) {
    fill_with(weir, "a", 300, far_ahead);
    let odd = ["jobs", "reschedule", "--from", "scheduled", "--jobtype", "Odd", "--yes"];
    let later = weir.site.ok(&[&odd[..], &["--at", "2998-12-31T12:00:00Z"]].concat());
    assert_eq!(later, "150 jobs rescheduled\n");
    assert_eq!(task(weir, 1)["examined"], 300, "those that it has changed are not examined twice");
    let again = weir.site.shown(&[&odd[..], &["--at", "2998-12-31T13:00:00+01:00"]].concat());
    assert_eq!(again, "exit: 0\n-- stdout\n0 jobs rescheduled\n-- stderr\n", "they are there");
    let list = ["jobs", "list", "scheduled", "--json", "--limit", "300"];
    let jobs: Value = serde_json::from_str(&weir.site.ok(&list)).expect("JSON");
    let due = |job: &Value| job["at"].as_f64().expect("a time");
    let (first, last) = (due(&jobs[0]), due(&jobs[149]));
    assert_eq!((first.floor(), last.floor()), (32_472_100_800.0, first.floor()));
    assert!(jobs.as_array().expect("a list")[..150].iter().all(|job| job["jobtype"] == "Odd"));
    let one = weir.site.ok(&["jobs", "reschedule", "a-job-000000", "--in", "0s"]);
    assert_eq!(one, "1 job rescheduled\n");
    wait_until("it is due", || depth(weir, "a") == 1);
    let rest = weir.site.ok(&["jobs", "reschedule", "--from", "scheduled", "--in", "0s", "--yes"]);
    assert_eq!(rest, "299 jobs rescheduled\n");
    wait_until("all are due", || depth(weir, "a") == 300);
    for arguments in [
        &["jobs", "reschedule", "a-job-000000", "--in", "1h"][..],
        &["jobs", "reschedule", "--from", "a", "--in", "1h", "--yes"],
    ] {
        let rejected = weir.site.shown(arguments);
        assert!(rejected.contains("only scheduled jobs and retries have a time"), "{rejected}");
    }
    let no_time = weir.site.shown(&["jobs", "reschedule", "--from", "scheduled", "--at", "noon"]);
    assert!(no_time.contains("\"noon\" is not a time like 2026-12-01T10:00:00Z"), "{no_time}");
}

#[test]
fn jobs_can_be_rescheduled() {
    let weir = start("");
    reschedule(&weir);
    assert!(weir.stop().success());
}

#[test]
fn jobs_in_redis_can_be_rescheduled() {
    let Some(redis) = RedisServer::start() else { return };
    let weir = start_on(&redis, "");
    reschedule(&weir);
    assert!(weir.stop().success());
}
