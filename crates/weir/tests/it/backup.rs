//! Backups of the real binary, under load and with kills, and what a restore of them has.
//! `WEIR_BACKUP_KILLS` and `WEIR_BACKUP_SEED` ask for more.

mod folder;
mod ledger;
mod load;
mod parts;
mod refused;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use self::ledger::{Ledger, now};
use self::load::Load;
use crate::crash::number_from_environment;
use crate::crash::server::{Server, Victim};
use crate::process::{output_of, wait_for, wait_until};
use crate::weir::{Site, program};

const MICROS_PER_SECOND: u64 = 1_000_000;

/// The segments are those of the crash tests: small, so that many fill and are removed.
const SETTINGS: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\n[jobs.limits]\nadvanced.segment_bytes = \"4MiB\"\n\
                        advanced.reserve_bytes = \"1MiB\"\nline_bytes_max = \"256KiB\"\n\
                        [console]\nlisten = \"127.0.0.1:0\"\n";

/// Returns a folder for a Weir with the embedded store.
fn site() -> Site {
    let site = Site::new("");
    site.write(SETTINGS);
    site
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Runs a command in a folder; returns its JSON.
fn run_json(folder: &Path, arguments: &[&str]) -> Value {
    let output = output_of(program().current_dir(folder).args(arguments).arg("--json"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "weir {arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns the command that backs up a server.
fn backup_command(server: &Server, backups: &Path) -> Command {
    let mut command = program();
    command.current_dir(server.folder()).args(["backup", text(backups)]);
    command
}

fn back_up(server: &Server, backups: &Path) -> Value {
    run_json(server.folder(), &["backup", text(backups)])
}

/// Restores into a new folder, starts a Weir there and returns the jids of all its jobs.
fn restored_jids(backups: &Path, arguments: &[&str]) -> BTreeSet<String> {
    try_restored_jids(backups, arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// Like [`restored_jids`]; returns the error of a restore that was rejected.
fn try_restored_jids(backups: &Path, arguments: &[&str]) -> Result<BTreeSet<String>, String> {
    let site = site();
    let restore = ["restore", text(backups), "--data-dir", "data"];
    let output = site.run(&[&restore, arguments].concat());
    match output.status.code() {
        Some(0) => Ok(jids_of(site)),
        code => Err(format!("exit {code:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Starts a Weir and returns the jids of all its jobs.
fn jids_of(site: Site) -> BTreeSet<String> {
    let weir = site.start();
    let exported = weir.site.ok(&["jobs", "export"]);
    let jid = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["job"]["jid"].as_str().map(str::to_owned)
    };
    let jids = exported.lines().filter_map(jid).collect();
    assert!(weir.stop().success());
    jids
}

/// Returns the moments at which the state of a backup may have been taken.
fn moment(made: &Value) -> (u64, u64) {
    let at = weir_jobs::stamp::parse(made["at"].as_str().expect("a time")).expect("a time");
    (at.as_micros(), at.as_micros() + 999)
}

fn rfc3339(second: u64) -> String {
    let time = weir_base::clock::Timestamp::from_micros(second * MICROS_PER_SECOND);
    weir_jobs::stamp::rfc3339(time)
}

#[test]
fn a_backup_under_load_has_what_was_acknowledged_and_nothing_later() {
    let (server, ledger) = (Server::start(), Ledger::default());
    let backups = tempfile::tempdir().expect("a folder");
    let load = Load::start(server.address(), &ledger);
    std::thread::sleep(Duration::from_millis(300));
    let mut made = vec![back_up(&server, backups.path())];
    // The file of the third segment exists, at the latest, once the second one is full.
    let third = server.folder().join("data/jobs").join(weir_log::segment_file_name(3));
    wait_until("the first segment is full", || third.exists());
    for _ in 0..2 {
        made.push(back_up(&server, backups.path()));
    }
    load.end();
    server.stop();
    for made in &made {
        let name = made["name"].as_str().expect("a name");
        let jids = restored_jids(&backups.path().join(name), &[]);
        let (earliest, latest) = moment(made);
        let checked = ledger.check(&jids, earliest, latest);
        assert!(checked.present > 0 && checked.absent > 0, "{checked:?}");
    }
    let reused = made[2]["reused_files"].as_u64().expect("a count");
    assert!(reused > 0, "segments are copied once: {made:?}");
    let verified = run_json(backups.path(), &["backup", "verify", text(backups.path())]);
    assert_eq!(verified["sound"], true, "{verified}");
}

/// Each second of the run is restored exactly, also those between two backups, whose segments may
/// have been removed before the second one.
#[test]
fn a_restore_to_a_second_is_exact() {
    let (server, ledger) = (Server::start(), Ledger::default());
    let backups = tempfile::tempdir().expect("a folder");
    let load = Load::start(server.address(), &ledger);
    let first = now() / MICROS_PER_SECOND + 1;
    let mut last = first;
    while last < first + 3 {
        std::thread::sleep(Duration::from_millis(300));
        last = moment(&back_up(&server, backups.path())).0 / MICROS_PER_SECOND;
    }
    load.end();
    server.stop();
    let mut restored = 0;
    for second in first..=last {
        let jids = match try_restored_jids(backups.path(), &["--at", &rfc3339(second)]) {
            Ok(jids) => jids,
            // A segment was filled and removed between two backups.
            Err(error) => {
                assert!(error.contains("is in no backup"), "{error}");
                continue;
            }
        };
        restored += 1;
        let boundary = second * MICROS_PER_SECOND;
        let checked = ledger.check(&jids, boundary, boundary - 1);
        assert!(checked.absent > 0, "{checked:?}");
    }
    assert!(restored > 0, "no second from {first} to {last} was restored");
    let early =
        ["restore", text(backups.path()), "--data-dir", "data", "--at", "2020-01-01T00:00:00Z"];
    let refused = site().run(&early);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("covered are 20"), "{error}");
    let late =
        ["restore", text(backups.path()), "--data-dir", "data", "--at", "2999-01-01T00:00:00Z"];
    let refused = site().run(&late);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the newest backup is of"));
}

/// After kills of Weir or of the backup at random moments, the next backup is complete, and a
/// restore of it is exact.
#[test]
fn backups_are_exact_after_kills() {
    let kills = number_from_environment("WEIR_BACKUP_KILLS", 6);
    let mut random = fastrand::Rng::with_seed(number_from_environment("WEIR_BACKUP_SEED", 1));
    let (mut server, ledger) = (Server::start(), Ledger::default());
    let backups = tempfile::tempdir().expect("a folder");
    let mut interrupted = 0;
    for _ in 0..kills {
        let load = Load::start(server.address(), &ledger);
        std::thread::sleep(Duration::from_millis(random.u64(50..300)));
        let mut command = backup_command(&server, backups.path());
        let mut backup =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(random.u64(1..150)));
        let victim = [None, Some(Victim::Service), Some(Victim::Everything)][random.usize(..3)];
        match victim {
            None => backup.kill().expect("it is ours"),
            Some(victim) => server.kill(victim),
        }
        interrupted += u64::from(!wait_for(&mut backup).success());
        load.end();
        if let Some(victim) = victim {
            server.restart(victim);
        }
        let made = run_json(server.folder(), &["backup", text(backups.path()), "--keep", "2"]);
        let (earliest, latest) = moment(&made);
        ledger.check(&restored_jids(backups.path(), &[]), earliest, latest);
    }
    server.stop();
    println!("{kills} kills, {interrupted} backups interrupted: all restores exact");
    let listed = run_json(backups.path(), &["backup", "list", text(backups.path())]);
    assert_eq!(listed["backups"].as_array().map(Vec::len), Some(2), "{listed}");
    let left = std::fs::read_dir(backups.path()).expect("a folder");
    let hidden = |name: &str| name.starts_with('.');
    let names: Vec<String> =
        left.map(|it| it.expect("an entry").file_name().into_string().expect("text")).collect();
    assert!(!names.iter().any(|name| hidden(name)), "{names:?}");
}
