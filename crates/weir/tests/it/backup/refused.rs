//! Backups and restores that must not succeed, and what the operator is told.

use std::fs;
use std::path::{Path, PathBuf};

use super::{run_json, site, text};
use crate::process::output_of;
use crate::weir::{Site, program};

pub(super) const JIDS: [&str; 3] = ["it-job-0001", "it-job-0002", "it-job-0003"];

/// Returns the folder of a stopped Weir with three jobs, and a folder with a backup of it.
pub(super) fn backed_up() -> (Site, tempfile::TempDir, PathBuf) {
    let weir = site().start();
    for jid in JIDS {
        weir.site.ok(&["jobs", "push", "Hello", "[\"a payload to be found\"]", "--jid", jid]);
    }
    let site = weir.end();
    let backups = tempfile::tempdir().expect("a folder");
    let made = run_json(site.path(), &["backup", text(backups.path())]);
    let backup = backups.path().join(made["name"].as_str().expect("a name"));
    (site, backups, backup)
}

pub(super) fn error_of(site: &Site, arguments: &[&str], code: i32) -> String {
    let output = site.run(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{error}");
    error
}

fn flip_last_byte(path: &Path) {
    let mut bytes = fs::read(path).expect("a file");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(path, bytes).expect("written");
}

#[test]
fn a_stopped_weir_is_backed_up_and_restored() {
    let (_, backups, _) = backed_up();
    let jids = super::restored_jids(backups.path(), &[]);
    assert_eq!(jids, JIDS.map(str::to_owned).into());
}

#[test]
fn a_damaged_backup_is_rejected_with_the_name_of_the_file() {
    let (old, backups, backup) = backed_up();
    flip_last_byte(&backup.join("data/jobs/0000000001.log"));
    let verified = old.run(&["backup", "verify", text(backups.path())]);
    assert_eq!(verified.status.code(), Some(1));
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(said.contains("DAMAGED: jobs/0000000001.log: its checksum does not match"), "{said}");

    let new = site();
    let restore = ["restore", text(backups.path()), "--data-dir", "data"];
    let error = error_of(&new, &restore, 2);
    assert!(error.contains("data/jobs/0000000001.log is damaged"), "{error}");
    // Weir must not start with fewer jobs than there were.
    let error = error_of(&new, &["up"], 2);
    assert!(error.contains("a restore into") && error.contains("did not end"), "{error}");
    // The next restore replaces the incomplete one.
    let made = run_json(old.path(), &["backup", text(backups.path())]);
    let sound = backups.path().join(made["name"].as_str().expect("a name"));
    new.ok(&["restore", text(&sound), "--data-dir", "data"]);
    assert_eq!(super::jids_of(new), JIDS.map(str::to_owned).into());
}

#[test]
fn a_damaged_or_missing_manifest_makes_no_backup() {
    let (old, backups, backup) = backed_up();
    let manifest = backup.join("manifest.json");
    let sound = fs::read(&manifest).expect("a file");
    let changed = String::from_utf8(sound).expect("text").replace("\"offset\": ", "\"offset\": 1");
    fs::write(&manifest, changed).expect("written");
    let restore = ["restore", text(backups.path()), "--data-dir", "other"];
    let error = error_of(&old, &restore, 2);
    assert!(error.contains("manifest.json can't be used: it is damaged"), "{error}");
    let verified = old.run(&["backup", "verify", text(backups.path())]);
    assert_eq!(verified.status.code(), Some(1));
    fs::remove_file(&manifest).expect("removed");
    let error = error_of(&old, &restore, 2);
    assert!(error.contains("there is no complete backup"), "{error}");
}

#[test]
fn a_restore_replaces_nothing() {
    let (old, backups, _) = backed_up();
    let restore = ["restore", text(backups.path()), "--data-dir", "data"];
    let error = error_of(&old, &restore, 2);
    assert!(error.contains("is not empty (it has ") && error.contains("move it away"), "{error}");
    let weir = old.start();
    let error = error_of(&weir.site, &restore, 2);
    assert!(error.contains("is not empty"), "{error}");
    assert_eq!(super::jids_of(weir.end()), JIDS.map(str::to_owned).into());
}

/// A backup without the jobs that are there must not look like a success.
#[test]
fn a_job_log_that_the_running_weir_does_not_serve_is_an_error() {
    let (site, backups, _) = backed_up();
    let weir = site.start_with(|command| {
        command.args(["--only", "console"]);
    });
    let error = error_of(&weir.site, &["backup", text(backups.path())], 2);
    assert!(
        error.contains("data/jobs has a job log that the running Weir does not serve"),
        "{error}"
    );
    assert!(error.contains("it serves console"), "{error}");
    // Without a job log there is nothing to miss.
    fs::rename(weir.site.path().join("data/jobs"), weir.site.path().join("away")).expect("moved");
    let said = weir.site.ok(&["backup", text(backups.path())]);
    assert!(said.contains("jobs: NOT INCLUDED: this process does not serve jobs"), "{said}");
    assert!(weir.stop().success());
}

/// Without the last marks, a restore to a second after them would have later jobs.
#[test]
fn a_second_after_the_end_of_a_damaged_index_is_rejected() {
    let weir = site().start();
    for jid in &JIDS[..2] {
        weir.site.ok(&["jobs", "push", "Hello", "[]", "--jid", jid]);
        std::thread::sleep(std::time::Duration::from_millis(1_100));
    }
    let second = super::rfc3339(super::now() / super::MICROS_PER_SECOND);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    weir.site.ok(&["jobs", "push", "Hello", "[]", "--jid", JIDS[2]]);
    let site = weir.end();
    let backups = tempfile::tempdir().expect("a folder");
    site.ok(&["backup", text(backups.path())]);
    let at = ["--at", second.as_str()];
    assert_eq!(super::restored_jids(backups.path(), &at).len(), 2);

    flip_last_byte(&site.path().join("data/jobs/times"));
    let backups = tempfile::tempdir().expect("a folder");
    site.ok(&["backup", text(backups.path())]);
    let error = super::try_restored_jids(backups.path(), &at).expect_err("rejected");
    assert!(error.contains("without --at it is restored as it is"), "{error}");
    assert_eq!(super::restored_jids(backups.path(), &[]).len(), 3);
}

/// The jobs of that time are only in backups that were made before the restore.
#[test]
fn a_second_that_a_restore_discarded_is_rejected() {
    let weir = site().start();
    weir.site.ok(&["jobs", "push", "Hello", "[]", "--jid", JIDS[0]]);
    let backups = tempfile::tempdir().expect("a folder");
    let made = run_json(weir.site.path(), &["backup", text(backups.path())]);
    weir.site.ok(&["jobs", "push", "Hello", "[]", "--jid", JIDS[1]]);
    drop(weir);
    let from = super::moment(&made).0 / super::MICROS_PER_SECOND;
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    let site = site();
    site.ok(&["restore", text(backups.path()), "--data-dir", "data"]);
    let weir = site.start();
    weir.site.ok(&["jobs", "push", "Hello", "[]", "--jid", JIDS[2]]);
    let made = run_json(weir.site.path(), &["backup", text(backups.path())]);
    assert!(weir.stop().success());
    let at = |second: u64| super::rfc3339(second);
    let error = super::try_restored_jids(backups.path(), &["--at", &at(from + 1)]);
    let error = error.expect_err("rejected");
    assert!(
        error.contains("a restore at ") && error.contains("continued with the jobs"),
        "{error}"
    );
    let until = super::moment(&made).0 / super::MICROS_PER_SECOND;
    let jids = super::restored_jids(backups.path(), &["--at", &at(until)]);
    assert!(jids.contains(JIDS[0]) && !jids.contains(JIDS[1]), "{jids:?}");
}

/// A limit of the size of a file stands for a full disk: the write fails in the same way.
#[test]
fn a_full_disk_leaves_a_backup_that_the_next_run_continues() {
    let weir = site().start();
    let padding = format!("[\"{}\"]", "x".repeat(100_000));
    for number in 0..60 {
        let jid = format!("it-job-{number:04}");
        weir.site.ok(&["jobs", "push", "Hello", &padding, "--jid", &jid]);
    }
    let backups = tempfile::tempdir().expect("a folder");
    let limited = format!(
        "trap '' XFSZ; ulimit -f 2000; exec {} backup {}",
        text(Path::new(program().get_program())),
        text(backups.path())
    );
    let mut shell = std::process::Command::new("bash");
    let output = output_of(shell.current_dir(weir.site.path()).args(["-c", &limited]));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("there is no room for the backup; free some"), "{error}");
    assert!(error.contains("jobs/0000000001.log"), "{error}");
    let error = error_of(&weir.site, &["restore", text(backups.path()), "--data-dir", "new"], 2);
    assert!(error.contains("there is no complete backup"), "{error}");

    let made = run_json(weir.site.path(), &["backup", text(backups.path())]);
    assert_eq!(super::restored_jids(backups.path(), &[]).len(), 60, "{made}");
    assert!(weir.stop().success());
}

#[test]
fn a_backup_needs_a_data_dir_and_a_folder_outside_of_it() {
    let site = site();
    let error = error_of(&site, &["backup", "backups"], 2);
    assert!(error.contains("there is no data_dir"), "{error}");
    fs::create_dir(site.path().join("data")).expect("made");
    let error = error_of(&site, &["backup", "data/backups"], 64);
    assert!(error.contains("inside of data_dir"), "{error}");
    error_of(&site, &["backup"], 64);
    error_of(&site, &["backup", "backups", "--keep", "0"], 64);
    error_of(&site, &["restore", "backups", "--at", "yesterday"], 64);
}
