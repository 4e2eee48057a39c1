//! A job store with real damage: what an operator sees of it, and does about it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::http;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

/// Small segments keep the files small.
const SETTINGS: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\n[jobs.limits]\nadvanced.segment_bytes = \"2MiB\"\n\
                        advanced.reserve_bytes = \"1MiB\"\n[console]\nlisten = \"127.0.0.1:0\"\n";
const JIDS: [&str; 3] = ["it-job-0001", "it-job-0002", "it-job-0003"];

fn site() -> Site {
    let site = Site::new("");
    site.write(SETTINGS);
    site
}

/// Starts a Weir with three jobs.
fn start_with_jobs() -> Weir {
    let weir = site().start();
    for jid in JIDS {
        weir.site.ok(&["jobs", "push", "Hello", "[\"a payload to be found\"]", "--jid", jid]);
    }
    weir
}

/// Returns the folder of a stopped Weir.
fn stopped_site() -> Site {
    start_with_jobs().end()
}

fn store(site: &Site) -> PathBuf {
    site.path().join("data/jobs")
}

fn file_names(folder: &Path) -> BTreeSet<PathBuf> {
    std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

/// Returns the segment that contains `text`, and its position.
fn segment_with(site: &Site, text: &[u8]) -> (PathBuf, Vec<u8>, usize) {
    let found = file_names(&store(site)).into_iter().find_map(|path| {
        let bytes = std::fs::read(&path).expect("a file");
        let at = bytes.windows(text.len()).position(|window| window == text)?;
        Some((path, bytes, at))
    });
    found.expect("a file holds it")
}

/// Flips a bit in the middle of a record.
fn flip_bit(site: &Site, jid: &str) -> usize {
    let (path, mut bytes, at) = segment_with(site, jid.as_bytes());
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("written");
    at
}

/// Appends part of a record to the log, as after a power failure during a write.
fn tear_last_record(site: &Site) {
    let (path, mut bytes, at) = segment_with(site, JIDS[2].as_bytes());
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("records");
    assert!(end > at);
    let torn = end + 512..end + 612;
    bytes[torn].fill(b'x');
    std::fs::write(path, bytes).expect("written");
}

fn verify(site: &Site, code: i32) -> Value {
    let output = site.run(&["jobs", "verify", "--json"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn status(weir: &Weir) -> String {
    weir.site.ok(&["status"])
}

fn damage(weir: &Weir, code: i32) -> String {
    let output = weir.site.run(&["jobs", "damage"]);
    assert_eq!(output.status.code(), Some(code));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits for the metric, which is updated once a second.
fn wait_for_metric(weir: &Weir, damages: u32) {
    let line = format!("weir_jobs_log_damages {damages}\n");
    wait_until(&line, || http::get(weir.console(), "/metrics", "").1.contains(&line));
}

#[test]
fn damaged_store_starts_and_reports_until_acknowledged() {
    let site = stopped_site();
    flip_bit(&site, JIDS[1]);
    let mut weir = site.start();
    weir.wait_for_log("the job store has damage");
    let jobs = weir.site.ok(&["jobs", "list", "default"]);
    assert!(jobs.contains(JIDS[0]) && jobs.contains(JIDS[2]), "{jobs}");
    assert!(!jobs.contains(JIDS[1]), "{jobs}");
    let weir = weir.end().start();
    let shown = status(&weir);
    assert!(shown.contains("DAMAGED      1 place of the job store, unacknowledged"), "{shown}");
    let listed = damage(&weir, 1);
    assert!(listed.contains("0000000001.log") && listed.contains("checksum"), "{listed}");
    wait_for_metric(&weir, 1);
    let console = http::get(weir.console(), "/damage", "").1;
    assert!(console.contains("0000000001.log") && console.contains("Acknowledge"), "{console}");

    // The job comes back, byte for byte: its checksum tells which bit was wrong.
    let salvaged = weir.site.run(&["jobs", "salvage"]);
    let said = String::from_utf8_lossy(&salvaged.stderr);
    assert!(said.contains("jobs found: 1; damaged places: 1"), "{said}");
    weir.site.write_file("salvaged.jsonl", &salvaged.stdout);
    weir.site.ok(&["jobs", "import", "salvaged.jsonl"]);
    let jobs = weir.site.ok(&["jobs", "list", "default"]);
    assert!(JIDS.iter().all(|jid| jobs.contains(jid)), "{jobs}");

    let done = weir.site.ok(&["jobs", "damage", "--acknowledge"]);
    assert_eq!(done, "1 damaged place acknowledged\n");
    assert!(!status(&weir).contains("DAMAGED"));
    assert_eq!(damage(&weir, 0), "no unacknowledged damage\n");
    wait_for_metric(&weir, 0);
    let site = weir.end();
    let checked = verify(&site, 0);
    assert!(checked["gap_bytes"].as_u64() > Some(100), "it remembers what was given up: {checked}");
    let weir = site.start();
    assert!(!status(&weir).contains("DAMAGED"), "an acknowledgement outlives a restart");
    assert!(weir.stop().success());
}

#[test]
fn missing_first_segment_is_detected() {
    let weir = site().start();
    let argument = "x".repeat(200 << 10);
    let line = |n| {
        format!("{{\"jid\":\"large-job-{n:02}\",\"jobtype\":\"T\",\"args\":[\"{argument}\"]}}\n")
    };
    let lines: String = (0..30).map(line).collect();
    weir.site.write_file("jobs.jsonl", lines.as_bytes());
    weir.site.ok(&["jobs", "import", "jobs.jsonl"]);
    let site = weir.end();
    std::fs::remove_file(store(&site).join("0000000001.log")).expect("there was one");
    let checked = verify(&site, 1);
    assert_eq!((&checked["sound"], &checked["damages_total"]), (&false.into(), &1.into()));
    assert_eq!(checked["damages"][0]["why"], "the file is missing");
    let weir = site.start();
    let shown = status(&weir);
    assert!(shown.contains("DAMAGED      1 place of the job store, unacknowledged"), "{shown}");
    let listed = damage(&weir, 1);
    assert!(listed.contains("0000000001.log") && listed.contains("is missing"), "{listed}");
    let checked = verify(&weir.end(), 1);
    assert_eq!(
        (&checked["damages_total"], &checked["set_aside"][0]["offset"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn salvage_repairs_older_segments_before_their_jobs_are_read() {
    let site = stopped_site();
    flip_bit(&site, JIDS[1]);
    let weir = site.start_with(|command| {
        command.arg("--salvage");
    });
    assert!(damage(&weir, 1).contains("0000000001.log"));
    assert!(weir.stop().success());
}

#[test]
fn verify_of_an_intact_store_writes_nothing() {
    let site = stopped_site();
    // A copy has no lock file, and gets none.
    std::fs::remove_file(site.path().join("data/weir.lock")).expect("removed");
    let before = (file_names(&site.path().join("data")), file_names(&store(&site)));
    let checked = verify(&site, 0);
    assert_eq!((&checked["sound"], &checked["damages_total"]), (&true.into(), &0.into()));
    assert!(checked["records"].as_u64() >= Some(3), "{checked}");
    let shown = site.ok(&["jobs", "verify"]);
    assert!(shown.contains("0000000001.log") && shown.contains("\nintact: "), "{shown}");
    assert_eq!(before, (file_names(&site.path().join("data")), file_names(&store(&site))));
}

#[test]
fn flipped_bit_is_reported_with_file_and_offset() {
    let site = stopped_site();
    let sound = verify(&site, 0);
    let at = flip_bit(&site, JIDS[1]);
    let checked = verify(&site, 1);
    assert_eq!((&checked["sound"], &checked["damages_total"]), (&false.into(), &1.into()));
    assert_eq!(checked["records"].as_u64(), sound["records"].as_u64().map(|records| records - 1));
    let damage = &checked["damages"][0];
    let number = |name: &str| damage[name].as_u64().expect("a number");
    let place: Range<u64> = number("offset")..number("offset") + number("bytes");
    assert!(place.contains(&(at as u64)), "{damage} does not hold {at}");
    let output = site.run(&["jobs", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8_lossy(&output.stdout);
    for part in ["1 damaged place", "DAMAGED: ", "Restore the store from a backup, or start Weir"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn torn_tail_is_not_damage_and_is_truncated_at_start() {
    let site = stopped_site();
    tear_last_record(&site);
    let checked = verify(&site, 0);
    assert!(checked["torn_bytes"].as_u64() >= Some(100), "{checked}");
    let shown = site.ok(&["jobs", "verify"]);
    assert!(shown.contains("torn bytes (never acknowledged"), "{shown}");
    let weir = site.start();
    let jobs = weir.site.ok(&["jobs", "list", "default"]);
    assert!(JIDS.iter().all(|jid| jobs.contains(jid)), "{jobs}");
    assert_eq!(verify(&weir.end(), 0)["torn_bytes"], 0);
}

#[test]
fn verify_rejects_the_store_of_a_running_weir() {
    let weir = start_with_jobs();
    let output = weir.site.run(&["jobs", "verify"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    let pid = weir.pid().as_raw_nonzero();
    let reason = format!(
        "cannot check a job store that is in use: data_dir data is in use by pid {pid}; stop that process"
    );
    assert!(error.contains(&reason), "{error}");
    assert!(weir.stop().success());
}

#[test]
fn verify_does_not_create_a_store() {
    let site = site();
    insta::assert_snapshot!(site.shown(&["jobs", "verify"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: there is no job store at data/jobs; name its data_dir with --data-dir or --config
    ");
    assert!(!site.path().join("data").exists());
}
