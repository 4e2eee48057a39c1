//! A job store with real damage: what starting, `weir jobs verify` and `--salvage` make of it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::weir::{Site, Weir};

/// Small segments keep the files small.
const SETTINGS: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\n[jobs.limits]\nsegment_bytes = \"2MiB\"\n\
                        reserve_bytes = \"1MiB\"\n[console]\nlisten = \"127.0.0.1:0\"\n";
const JIDS: [&str; 3] = ["it-job-0001", "it-job-0002", "it-job-0003"];

fn site() -> Site {
    let site = Site::new("");
    site.write(SETTINGS);
    site
}

/// A running Weir with three jobs.
fn filled() -> Weir {
    let weir = site().start();
    for jid in JIDS {
        weir.site.ok(&["jobs", "push", "Hello", "[\"a payload to be found\"]", "--jid", jid]);
    }
    weir
}

/// What it leaves when it is stopped.
fn stopped() -> Site {
    filled().end()
}

fn store(site: &Site) -> PathBuf {
    site.path().join("data/jobs")
}

fn names(folder: &Path) -> BTreeSet<PathBuf> {
    std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

/// The segment whose bytes hold `text`, and where.
fn segment_with(site: &Site, text: &[u8]) -> (PathBuf, Vec<u8>, usize) {
    let found = names(&store(site)).into_iter().find_map(|path| {
        let bytes = std::fs::read(&path).expect("a file");
        let at = bytes.windows(text.len()).position(|window| window == text)?;
        Some((path, bytes, at))
    });
    found.expect("a file holds it")
}

/// Flips a bit in the middle of a record.
fn flip(site: &Site, jid: &str) -> usize {
    let (path, mut bytes, at) = segment_with(site, jid.as_bytes());
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("written");
    at
}

/// Leaves what a power cut leaves of a write: part of it, behind the last record.
fn tear(site: &Site) {
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

#[test]
fn a_damaged_store_stops_the_start_and_salvage_keeps_what_holds() {
    let site = stopped();
    flip(&site, JIDS[1]);
    let refused = site.run(&["up"]);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("is damaged at offset") && error.contains("--salvage"), "{error}");

    let weir = site.start_with(|command| {
        command.arg("--salvage");
    });
    let jobs = weir.site.ok(&["jobs", "list", "default"]);
    assert!(jobs.contains(JIDS[0]) && jobs.contains(JIDS[2]), "{jobs}");
    assert!(!jobs.contains(JIDS[1]), "{jobs}");
    let site = weir.end();
    let checked = verify(&site, 0);
    assert!(checked["gap_bytes"].as_u64() > Some(100), "it remembers what was given up: {checked}");
}

#[test]
fn a_sound_store_is_said_to_be_sound_and_nothing_is_written() {
    let site = stopped();
    // A copy has no lock file, and gets none.
    std::fs::remove_file(site.path().join("data/weir.lock")).expect("removed");
    let before = (names(&site.path().join("data")), names(&store(&site)));
    let checked = verify(&site, 0);
    assert_eq!((&checked["sound"], &checked["damages_total"]), (&true.into(), &0.into()));
    assert!(checked["records"].as_u64() >= Some(3), "{checked}");
    let shown = site.ok(&["jobs", "verify"]);
    assert!(shown.contains("0000000001.log") && shown.contains("\nsound: "), "{shown}");
    assert_eq!(before, (names(&site.path().join("data")), names(&store(&site))));
}

#[test]
fn a_flipped_bit_is_named_with_its_file_and_offset() {
    let site = stopped();
    let sound = verify(&site, 0);
    let at = flip(&site, JIDS[1]);
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
    for part in ["1 damaged place", "DAMAGED: ", "`weir up --salvage`"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_torn_tail_is_no_damage_and_the_next_start_cuts_it() {
    let site = stopped();
    tear(&site);
    let checked = verify(&site, 0);
    assert!(checked["torn_bytes"].as_u64() >= Some(100), "{checked}");
    let shown = site.ok(&["jobs", "verify"]);
    assert!(shown.contains("torn bytes (never reported durable"), "{shown}");
    let weir = site.start();
    let jobs = weir.site.ok(&["jobs", "list", "default"]);
    assert!(JIDS.iter().all(|jid| jobs.contains(jid)), "{jobs}");
    assert_eq!(verify(&weir.end(), 0)["torn_bytes"], 0);
}

#[test]
fn a_store_is_not_checked_under_a_running_weir() {
    let weir = filled();
    let output = weir.site.run(&["jobs", "verify"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    let pid = weir.pid().as_raw_nonzero();
    let reason = format!("while no Weir runs on it: data_dir data is in use by pid {pid}; stop it");
    assert!(error.contains(&reason), "{error}");
    assert!(weir.stop().success());
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let site = site();
    insta::assert_snapshot!(site.shown(&["jobs", "verify"]), @r"
    exit: 2
    -- stdout
    -- stderr
    error: there is no job store at data/jobs; name its data_dir with --data-dir or --config
    ");
    assert!(!site.path().join("data").exists());
}
