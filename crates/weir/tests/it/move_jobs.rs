//! `weir jobs export` and `import`: jobs move between the embedded store, Redis and files, also if
//! something ends midway.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::doctor::redis_server::RedisServer;
use crate::faktory::Client;
use crate::process::output_with_input;
use crate::weir::{Site, Weir, program};

const WAITING: usize = 4_000;
const IN_EACH_SET: [(&str, usize); 3] = [("scheduled", 500), ("retries", 300), ("dead", 200)];
const JOBS: usize = 5_000;
const EMBEDDED: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\n[console]\nlisten = \"off\"\n";

/// Numbers that a float would change, white space, escapes, a line break in a string, unknown members.
const ARGUMENTS: &str =
    r#"[ 109326485893512345678901234567890, 1.10, 1e2,"\u00e9\n\/", {"b" : 1,"a":-0.0}]"#;

fn start_embedded() -> Weir {
    let site = Site::new("");
    site.write(EMBEDDED);
    site.start()
}

fn start_on(servers: &[&RedisServer]) -> Weir {
    let site = Site::new("");
    let shard = |server: &&RedisServer| {
        format!("{{ name = \"r{0}\", url = \"redis://127.0.0.1:{0}\" }}", server.port)
    };
    let shards: Vec<String> = servers.iter().map(shard).collect();
    site.write(&format!(
        "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = {{ redis = [{}] }}\n[console]\nlisten = \"off\"\n",
        shards.join(", ")
    ));
    site.start()
}

/// Returns 5,000 lines: plain jobs in five queues, and exported jobs of the sets.
fn lines() -> String {
    let job = |jid: &str, queue: usize, more: &str| {
        format!(
            r#"{{"jid":"{jid}","jobtype":"Hard","args":{ARGUMENTS},"queue":"q{queue}","custom":{{"n":1.0}},"tag":[ ]{more}}}"#
        )
    };
    let waiting = (0..WAITING).map(|n| job(&format!("waiting-{n:05}"), n % 5, "") + "\n");
    let mut text: String = waiting.collect();
    for (set, count) in IN_EACH_SET {
        for n in 0..count {
            let failure = match set {
                "scheduled" => "",
                _ => {
                    r#","failure":{"retry_count":2,"remaining":23,"failed_at":"2026-11-20T19:28:22.123456Z","message":"m\"\n","errtype":"E","backtrace":["a","b"]}"#
                }
            };
            let year = if set == "dead" { "2026-11" } else { "2035-01" };
            let job = job(&format!("{set}-{n:05}"), n % 5, failure);
            text += &format!(
                "{{\"place\":\"{set}\",\"at\":\"{year}-20T19:28:22.{n:06}Z\",\"job\":{job}}}\n"
            );
        }
    }
    text
}

fn fill(weir: &Weir) {
    let mut import = program();
    import.current_dir(weir.site.path()).args(["jobs", "import", "--unchecked"]);
    let output = output_with_input(&mut import, lines().as_bytes());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "5000 jobs imported, 0 rejected\n");
}

fn file(weir: &Weir, name: &str) -> PathBuf {
    weir.site.path().join(name)
}

fn export(weir: &Weir, name: &str) -> String {
    weir.site.ok(&["jobs", "export", "--output", name]);
    std::fs::read_to_string(file(weir, name)).expect("exported")
}

/// The jobs of an export by place and in order: each with the text of its members. Left out is what
/// an import may change.
fn jobs(export: &str) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in export.lines() {
        let line: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).expect("JSON");
        let Some(place) = line.get("place") else { continue };
        let place: String = serde_json::from_str(place.get()).expect("a place");
        let job: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(line["job"].get()).expect("a job");
        let at = if place.starts_with("queue:") { "" } else { line["at"].get() };
        let members = job.iter().filter(|(name, _)| *name != "enqueued_at");
        let text = members.map(|(name, value)| format!("{name}={}", without_next(value.get())));
        places.entry(place).or_default().push(text.collect::<Vec<_>>().join("|") + at);
    }
    places
}

/// Compares without printing thousands of jobs.
fn assert_same(found: &BTreeMap<String, Vec<String>>, expected: &BTreeMap<String, Vec<String>>) {
    let counts = |jobs: &BTreeMap<String, Vec<String>>| -> Vec<(String, usize)> {
        jobs.iter().map(|(place, jobs)| (place.clone(), jobs.len())).collect()
    };
    assert_eq!(counts(found), counts(expected));
    for (place, jobs) in expected {
        let differ = found[place].iter().zip(jobs).find(|(found, expected)| found != expected);
        assert_eq!(differ, None, "{place}");
    }
}

/// Redis knows it only as the score of the retry set.
fn without_next(value: &str) -> String {
    let start = value.find(",\"next_at\"");
    let end = start.and_then(|start| Some(start + 1 + value[start + 1..].find(',')?));
    match (start, end) {
        (Some(start), Some(end)) => [&value[..start], &value[end..]].concat(),
        _ => value.to_owned(),
    }
}

#[test]
fn jobs_move_between_all_stores_with_equal_bytes() {
    let (Some(one), Some(two)) = (RedisServer::start(), RedisServer::start()) else { return };
    let embedded = start_embedded();
    fill(&embedded);
    let first = jobs(&export(&embedded, "first.jsonl"));
    assert_eq!(first.values().map(Vec::len).sum::<usize>(), JOBS);
    assert!(first["dead"][0].contains(&format!("args={ARGUMENTS}")), "{}", first["dead"][0]);

    let redis = start_on(&[&one, &two]);
    let path = file(&embedded, "first.jsonl");
    let imported = redis.site.ok(&["jobs", "import", path.to_str().expect("text")]);
    assert_eq!(imported, "5000 jobs imported, 0 rejected\n");
    let second = jobs(&export(&redis, "second.jsonl"));
    assert_same(&second, &first);

    let back = start_embedded();
    let path = file(&redis, "second.jsonl");
    back.site.ok(&["jobs", "import", path.to_str().expect("text")]);
    assert_same(&jobs(&export(&back, "third.jsonl")), &first);
    for weir in [embedded, redis, back] {
        assert!(weir.stop().success());
    }
}

/// Runs a command again and again, kills each run after a while, and lets the last one end.
fn run_with_kills(weir: &Weir, arguments: impl Fn() -> Vec<&'static str>) {
    for delay_ms in (5..120).step_by(8) {
        let mut child = command(weir, &arguments()).spawn().expect("started");
        std::thread::sleep(Duration::from_millis(delay_ms));
        let _ = child.kill();
        if child.wait().expect("ended").success() {
            return;
        }
    }
    // Fails if an earlier one was complete when it was killed. The caller compares the results.
    drop(weir.site.run(&arguments()));
}

fn command(weir: &Weir, arguments: &[&str]) -> Command {
    let mut command = program();
    command.current_dir(weir.site.path()).args(arguments);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command
}

#[test]
fn killed_exports_continue_and_equal_a_whole_one() {
    let weir = start_embedded();
    fill(&weir);
    let whole = export(&weir, "whole.jsonl");
    let killed = file(&weir, "killed.jsonl");
    run_with_kills(&weir, || match killed.exists() {
        true => vec!["jobs", "export", "--output", "killed.jsonl", "--resume"],
        false => vec!["jobs", "export", "--output", "killed.jsonl"],
    });
    assert!(std::fs::read_to_string(&killed).expect("exported") == whole, "they differ");
    let again = weir.site.shown(&["jobs", "export", "--output", "killed.jsonl", "--resume"]);
    assert!(again.contains("it is complete: its end line counts 5000 jobs"), "{again}");
    let mode = std::fs::metadata(&killed).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "arguments of jobs may be private");
    let again = weir.site.shown(&["jobs", "export", "--output", "killed.jsonl"]);
    assert!(again.contains("killed.jsonl exists; continue"), "{again}");
    assert!(weir.stop().success());
}

/// Runs a test of imports of the same 5,000 lines, `jobs.jsonl`, into each kind of store.
fn for_each_store(test: impl Fn(Weir, &str)) {
    let source = start_embedded();
    fill(&source);
    let text = export(&source, "jobs.jsonl");
    let redis = RedisServer::start();
    let on_redis = redis.as_ref().map(|redis| start_on(&[redis]));
    for target in [Some(start_embedded()), on_redis].into_iter().flatten() {
        target.site.write_file("jobs.jsonl", text.as_bytes());
        test(target, &text);
    }
    assert!(source.stop().success());
}

#[test]
fn killed_imports_continue_without_a_second_copy() {
    for_each_store(|target, text| {
        run_with_kills(&target, || vec!["jobs", "import", "jobs.jsonl"]);
        assert_same(&jobs(&export(&target, "copy.jsonl")), &jobs(text));
        let again = target.site.shown(&["jobs", "import", "jobs.jsonl"]);
        assert!(again.contains("all 5001 lines of jobs.jsonl are imported already"), "{again}");
        assert!(target.stop().success());
    });
}

#[test]
fn an_import_whose_confirmation_was_lost_continues_without_a_second_copy() {
    for_each_store(|target, text| {
        target.site.ok(&["jobs", "import", "jobs.jsonl"]);
        // As if the power failed before the last two batches were recorded, and while Weir ran.
        let path = file(&target, "jobs.jsonl.import.json");
        let progress = std::fs::read_to_string(&path).expect("recorded");
        let mut progress: serde_json::Value = serde_json::from_str(&progress).expect("JSON");
        progress["finished"] = false.into();
        progress["lines"] = 3_000.into();
        progress["pushed"]["accepted"] = 3_000.into();
        std::fs::write(&path, progress.to_string()).expect("written");
        let target = target.kill_parent().start();
        let again = target.site.ok(&["jobs", "import", "jobs.jsonl"]);
        assert_eq!(again, "5000 jobs imported, 0 rejected\n");
        assert_same(&jobs(&export(&target, "copy.jsonl")), &jobs(text));
        assert!(target.stop().success());
    });
}

#[test]
fn files_that_are_not_whole_are_not_imported() {
    let weir = start_embedded();
    weir.site.ok(&["jobs", "push", "Hello", "[1]", "--jid", "it-job-0001"]);
    weir.site.ok(&["jobs", "push", "Hello", "[2]", "--jid", "it-job-0002"]);
    let whole = export(&weir, "whole.jsonl");
    let cut = whole.lines().next().expect("a line").to_owned() + "\n";
    let end = whole.lines().last().expect("an end line").to_owned() + "\n";
    for (name, text, error) in [
        ("cut.jsonl", cut.clone(), "it has no end line: the export of its 1 jobs was interrupted"),
        ("missing.jsonl", cut + &end, "line 2 says that 2 jobs were exported; 1 are before it"),
        ("changed.jsonl", whole.replace("[2]", "[3]"), "the lines before line 3 were changed"),
    ] {
        weir.site.write_file(name, text.as_bytes());
        let shown = weir.site.shown(&["jobs", "import", name]);
        assert!(shown.starts_with("exit: 2\n") && shown.contains(error), "{name}: {shown}");
        assert!(shown.contains("--unchecked"), "{shown}");
        let mut piped = program();
        piped.current_dir(weir.site.path()).args(["jobs", "import"]);
        let output = output_with_input(&mut piped, text.as_bytes());
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && shown.contains(error), "{name}: {shown}");
    }
    let changed = weir.site.ok(&["jobs", "import", "--unchecked", "changed.jsonl"]);
    assert_eq!(changed, "2 jobs imported, 0 rejected\n");
    assert!(weir.stop().success());
}

#[test]
fn rejected_lines_are_kept_for_a_second_import() {
    let weir = start_embedded();
    let long =
        format!("{{\"jid\":\"it-job-0003\",\"jobtype\":\"{}\",\"args\":[]}}", "x".repeat(5_000));
    let deep = format!("{{\"jid\":\"it-job-0004\",\"args\":{}", "[".repeat(100_000));
    let good = r#"{"jid":"it-job-0001","jobtype":"Hello","args":[],"end":{"jobs":1}}"#;
    weir.site.write_file("jobs.jsonl", format!("{good}\n\n{long}\n\0\u{1}\n{deep}\n").as_bytes());
    let shown = weir.site.shown(&["jobs", "import", "jobs.jsonl"]);
    assert!(shown.starts_with("exit: 2\n-- stdout\n1 job imported, 3 rejected\n"), "{shown}");
    for line in
        ["line 3: ", "line 4: ", "line 5: ", "weir jobs import --unchecked jobs.jsonl.rejected"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let rejected = std::fs::read_to_string(file(&weir, "jobs.jsonl.rejected")).expect("kept");
    assert_eq!(rejected, format!("{long}\n\0\u{1}\n{deep}\n"));
    let huge = vec![b'x'; 17 << 20];
    weir.site.write_file("huge.jsonl", &huge);
    let shown = weir.site.shown(&["jobs", "import", "huge.jsonl"]);
    assert!(shown.contains("stopped after line 0") && shown.contains("line_bytes_max"), "{shown}");
    assert!(weir.stop().success());
}

#[test]
fn a_full_disk_ends_an_export_that_continues_later() {
    let weir = start_embedded();
    fill(&weir);
    let whole = export(&weir, "whole.jsonl");
    let weir_file = program().get_program().to_str().expect("text").to_owned();
    // A limit on the size of files, for which the system reports another error.
    let script =
        format!("trap '' XFSZ; ulimit -f 300; exec {weir_file} jobs export --output full.jsonl");
    let mut shell = Command::new("sh");
    shell.current_dir(weir.site.path()).args(["-c", &script]);
    let output = output_with_input(&mut shell, b"");
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("full.jsonl is incomplete; continue with the same command"), "{shown}");
    weir.site.ok(&["jobs", "export", "--output", "full.jsonl", "--resume"]);
    let resumed = std::fs::read_to_string(file(&weir, "full.jsonl")).expect("exported");
    assert!(resumed == whole, "they differ");
    let shown = weir.site.shown(&["jobs", "export", "--output", "/dev/full"]);
    assert!(shown.starts_with("exit: 2\n") && shown.contains("No space left"), "{shown}");
    assert!(weir.stop().success());
}

#[test]
fn a_full_redis_ends_an_import_that_continues_later() {
    let Some(redis) = RedisServer::start() else { return };
    let source = start_embedded();
    fill(&source);
    let text = export(&source, "jobs.jsonl");
    let target = start_on(&[&redis]);
    target.site.write_file("jobs.jsonl", text.as_bytes());
    let info: String =
        redis::cmd("INFO").arg("memory").query(&mut redis.client()).expect("figures");
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a line");
    let room = used.trim().parse::<u64>().expect("a number") + (1 << 19);
    redis.run(&[&["CONFIG", "SET", "maxmemory", &room.to_string()]]);
    let shown = target.site.shown(&["jobs", "import", "jobs.jsonl"]);
    assert!(shown.starts_with("exit: 2\n"), "{shown}");
    assert!(shown.contains("stopped after line ") && shown.contains("maxmemory"), "{shown}");
    redis.run(&[&["CONFIG", "SET", "maxmemory", "0"]]);
    let imported = target.site.ok(&["jobs", "import", "jobs.jsonl"]);
    assert_eq!(imported, "5000 jobs imported, 0 rejected\n");
    assert_same(&jobs(&export(&target, "copy.jsonl")), &jobs(&text));
    assert!(target.stop().success());
    assert!(source.stop().success());
}

#[test]
fn jobs_in_progress_are_exported_as_waiting() {
    let weir = start_embedded();
    for jid in ["it-job-0001", "it-job-0002"] {
        weir.site.ok(&["jobs", "push", "Hello", "[1]", "--jid", jid]);
    }
    let mut worker = Client::connect(weir.jobs());
    assert!(worker.run_command("FETCH default").contains("it-job-0001"));
    let shown = weir.site.shown(&["jobs", "export", "--output", "jobs.jsonl"]);
    assert!(shown.contains("1 job in progress exported as waiting"), "{shown}");
    assert!(shown.contains("2 jobs exported: 2 in 1 queue"), "{shown}");
    let text = std::fs::read_to_string(file(&weir, "jobs.jsonl")).expect("exported");
    assert_eq!(jobs(&text)["queue:default"].len(), 2);
    assert_eq!(weir.site.ok(&["jobs", "export", "default"]).lines().count(), 2);
    assert!(weir.stop().success());
}

const MEMBERS: usize = 2_000;

/// A parent batch without jobs, and a child with unique jobs, some of which report progress.
struct Batches {
    parent: String,
    child: String,
}

fn start_with_cron() -> Weir {
    let site = Site::new("");
    let cron =
        "[[jobs.cron]]\nname = \"nightly\"\nschedule = \"0 3 * * *\"\njob = { jobtype = \"N\" }\n";
    site.write(&format!("{EMBEDDED}{cron}"));
    site.start()
}

fn member(number: usize, child: &str, jid: &str) -> String {
    format!(
        r#"{{"jid":"{jid}-{number:05}","jobtype":"M","args":[{number}],"queue":"m","custom":{{"bid":"{child}","unique_for":3600,"track":{}}}}}"#,
        number % 2
    )
}

fn fill_with_batches(weir: &Weir) -> Batches {
    let mut client = Client::connect(weir.jobs());
    let callback = |name: &str| {
        format!(r#"{{"jid":"{name}-0001","jobtype":"C","args":[1.0],"queue":"callbacks"}}"#)
    };
    let parent = client.run_command(&format!("BATCH NEW {{\"success\":{}}}", callback("parent")));
    let child = client.run_command(&format!(
        r#"BATCH NEW {{"parent_bid":"{parent}","description":"d","complete":{},"success":{}}}"#,
        callback("complete"),
        callback("success")
    ));
    let jobs: Vec<String> = (0..MEMBERS).map(|n| member(n, &child, "member")).collect();
    assert_eq!(client.run_command(&format!("PUSHB [{}]", jobs.join(","))), "{}");
    assert_eq!(client.run_command(&format!("BATCH COMMIT {child}")), "+OK");
    assert_eq!(client.run_command(&format!("BATCH COMMIT {parent}")), "+OK");
    for number in 0..5 {
        client.run_command("FETCH m");
        assert_eq!(client.run_command(&format!(r#"ACK {{"jid":"member-{number:05}"}}"#)), "+OK");
    }
    client.run_command(r#"TRACK SET {"jid":"member-00003","percent":40,"desc":"a \"b\""}"#);
    weir.site.ok(&["jobs", "cron", "pause", "nightly"]);
    Batches { parent, child }
}

/// What clients and operators see of batches, locks, progress and cron.
fn seen(weir: &Weir, batches: &Batches) -> Vec<String> {
    let mut client = Client::connect(weir.jobs());
    let again = member(7, &batches.child, "again");
    let commands = [
        format!("BATCH STATUS {}", batches.parent),
        format!("BATCH STATUS {}", batches.child),
        "TRACK GET member-00003".to_owned(),
        "TRACK GET member-00007".to_owned(),
        format!("PUSH {again}"),
    ];
    let mut seen: Vec<String> = commands.iter().map(|it| client.run_command(it)).collect();
    let cron = weir.site.ok(&["jobs", "cron", "list", "--json"]);
    let cron: serde_json::Value = serde_json::from_str(&cron).expect("JSON");
    seen.push(cron[0]["paused"].to_string());
    seen
}

/// What clients see of batches and locks.
fn seen_batches(weir: &Weir, batches: &Batches) -> Vec<String> {
    let mut client = Client::connect(weir.jobs());
    let status = [&batches.parent, &batches.child].map(|batch| format!("BATCH STATUS {batch}"));
    let push = format!("PUSH {}", member(7, &batches.child, "again"));
    status.iter().chain([&push]).map(|it| client.run_command(it)).collect()
}

#[test]
fn batches_locks_progress_and_cron_move_to_another_weir() {
    let source = start_with_cron();
    let batches = fill_with_batches(&source);
    let expected = seen(&source, &batches);
    assert!(expected[1].contains("\"total\":2000,\"pending\":1995"), "{}", expected[1]);
    assert!(expected[2].contains("\"percent\":40"), "{}", expected[2]);
    assert_eq!(expected[4..], ["-NOTUNIQUE Job not unique", "true"]);
    let text = export(&source, "jobs.jsonl");
    let end = text.lines().last().expect("an end line");
    let places = r#""batch-commits":2,"batches":2,"cron":1,"queue:m":1995,"tracks":1000"#;
    assert!(end.contains(places), "{end}");

    // The import and Weir itself are killed in between.
    let target = start_with_cron();
    target.site.write_file("jobs.jsonl", text.as_bytes());
    let mut import = command(&target, &["jobs", "import", "jobs.jsonl"]).spawn().expect("started");
    std::thread::sleep(Duration::from_millis(120));
    let _ = import.kill();
    import.wait().expect("ended");
    let target = target.kill_parent().start();
    run_with_kills(&target, || vec!["jobs", "import", "jobs.jsonl"]);
    assert_eq!(seen(&target, &batches), expected);
    let target = target.kill_parent().start();
    assert_eq!(seen(&target, &batches), expected);

    let mut client = Client::connect(target.jobs());
    let mut callbacks = Vec::new();
    for _ in 0..MEMBERS + 10 {
        let job = client.run_command("FETCH m callbacks");
        let Ok(job) = serde_json::from_str::<serde_json::Value>(&job) else { break };
        let Some(jid) = job["jid"].as_str() else { break };
        assert_eq!(client.run_command(&format!(r#"ACK {{"jid":"{jid}"}}"#)), "+OK");
        if job["queue"] == "callbacks" {
            callbacks.push(jid.to_owned());
        }
    }
    assert_eq!(callbacks, ["complete-0001", "success-0001", "parent-0001"]);
    assert!(source.stop().success() && target.stop().success());

    let Some(redis) = RedisServer::start() else { return };
    let on_redis = start_on(&[&redis]);
    on_redis.site.write_file("jobs.jsonl", text.as_bytes());
    let shown = on_redis.site.shown(&["jobs", "import", "jobs.jsonl"]);
    assert!(!shown.contains("batches: "), "{shown}");
    let seen = seen_batches(&on_redis, &batches);
    assert_eq!(seen, [&*expected[0], &*expected[1], &*expected[4]]);
    assert!(on_redis.stop().success());
}

#[test]
fn an_export_without_the_new_lines_is_imported_as_before() {
    let weir = start_embedded();
    let job = r#"{"jid":"member-0001","jobtype":"M","args":[1],"custom":{"unique_for":3600,"bid":"b-0000000000000007"}}"#;
    let line =
        format!("{{\"place\":\"retries\",\"at\":\"2035-01-20T19:28:22.1Z\",\"job\":{job}}}\n");
    weir.site.write_file("jobs.jsonl", line.as_bytes());
    let imported = weir.site.ok(&["jobs", "import", "--unchecked", "jobs.jsonl"]);
    assert_eq!(imported, "1 job imported, 0 rejected\n");
    let mut client = Client::connect(weir.jobs());
    let again = r#"{"jid":"again-00001","jobtype":"M","args":[1],"custom":{"unique_for":60}}"#;
    assert_eq!(client.run_command(&format!("PUSH {again}")), "-NOTUNIQUE Job not unique");
    assert!(weir.stop().success());
}

#[test]
fn an_empty_input_is_reported() {
    let weir = start_embedded();
    weir.site.write_file("jobs.jsonl", b"");
    let shown = weir.site.shown(&["jobs", "import", "--unchecked", "jobs.jsonl"]);
    assert!(shown.contains("0 jobs imported, 0 rejected"), "{shown}");
    assert!(shown.contains("warning: the input has no lines"), "{shown}");
    assert!(weir.stop().success());
}
