//! What else than jobs is in a backup.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{run_json, text};
use crate::http::get;
use crate::realtime::client::{Api, Socket};
use crate::weir::{Site, Weir};

const SECRET: &str = "a secret of enough characters";
const SETTINGS: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\n[console]\nlisten = \"127.0.0.1:0\"\n\
                        [front]\nlisten = \"127.0.0.1:0\"\n[gems]\nlisten = \"127.0.0.1:0\"\n\
                        [[realtime.apps]]\nid = \"1\"\nkey = \"demo-key\"\n\
                        secret = { env = \"WEIR_REALTIME_SECRET\" }\n";

fn start(site: Site) -> Weir {
    site.start_with(|command| {
        command.env("WEIR_REALTIME_SECRET", SECRET);
    })
}

fn part<'a>(made: &'a Value, name: &str) -> &'a Value {
    let parts = made["parts"].as_array().expect("parts");
    parts.iter().find(|part| part["part"] == name).expect("the part")
}

#[test]
fn histories_gems_switches_and_cron_states_are_restored() {
    let site = Site::new("");
    site.write(SETTINGS);
    let weir = start(site);
    let gems = "{\"name\":\"rack\",\"versions\":[{\"number\":\"1.0\",\"sha256\":\"";
    let line = format!("{gems}{}\",\"dependencies\":[]}}]}}\n", "ab".repeat(32));
    let mut import = crate::weir::program();
    import.current_dir(weir.site.path()).args(["gems", "import"]);
    assert!(crate::process::output_with_input(&mut import, line.as_bytes()).status.success());
    weir.site.ok(&["jobs", "push", "Hello", "[1]", "--jid", "it-job-0001"]);
    weir.site.ok(&["switch", "off", "typing"]);
    let api = Api { address: weir.front(), app: "1", key: "demo-key", secret: SECRET };
    let mut socket = Socket::connect(weir.front(), "demo-key");
    socket.subscribe("cache-news");
    let event = json!({"name": "flood", "channels": ["cache-news"], "data": "{\"level\":3}"});
    assert_eq!(api.post("events", &event).0, "HTTP/1.1 200 OK");
    socket.event("flood");
    drop(socket);

    let backups = tempfile::tempdir().expect("a folder");
    let made = run_json(weir.site.path(), &["backup", text(backups.path())]);
    for name in ["jobs", "gems", "realtime", "console"] {
        assert_eq!(part(&made, name)["is_included"], true, "{made}");
    }
    let left = weir.data_dir().join("backup-histories");
    assert!(!left.exists(), "the copy of the histories is removed");
    assert!(weir.stop().success());

    let site = Site::new("");
    site.write(SETTINGS);
    site.ok(&["restore", text(backups.path())]);
    let weir = start(site);
    assert!(weir.site.ok(&["jobs", "show", "it-job-0001"]).contains("Hello"));
    assert_eq!(get(weir.gems(), "/names", "").1, "---\nrack\n");
    assert!(weir.site.ok(&["switch", "list"]).contains("typing"));
    let mut socket = Socket::connect(weir.front(), "demo-key");
    socket.subscribe("cache-news");
    assert_eq!(socket.event("flood")["data"], "{\"level\":3}");
    assert!(weir.stop().success());
}

/// A `.gem` file that is pushed after the log was copied is in the index, so it must be there, too.
#[test]
fn a_gem_that_is_pushed_meanwhile_is_in_the_backup() {
    let site = Site::new("");
    site.write(SETTINGS);
    let weir = start(site);
    let padding = format!("[\"{}\"]", "x".repeat(100_000));
    for number in 0..15 {
        weir.site.ok(&["jobs", "push", "Hello", &padding, "--jid", &format!("it-job-{number:04}")]);
    }
    let backups = tempfile::tempdir().expect("a folder");
    let mut command = crate::weir::program();
    command.current_dir(weir.site.path()).args(["backup", text(backups.path())]);
    let mut backup =
        command.args(["--rate", "512KiB"]).stdout(Stdio::null()).spawn().expect("it starts");
    let copying = backups.path().join(".partial/data/jobs");
    crate::process::wait_until("the log is being copied", || copying.exists());
    let folder = weir.data_dir().join("gems/files/ab");
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(folder.join("abcdef.gem"), "a gem").expect("written");
    assert!(copying.exists(), "it is still being copied");
    assert!(crate::process::wait_for(&mut backup).success());
    let listed = run_json(weir.site.path(), &["backup", "list", text(backups.path())]);
    let name = listed["backups"][0]["name"].as_str().expect("a name");
    let file = backups.path().join(name).join("data/gems/files/ab/abcdef.gem");
    assert_eq!(std::fs::read(file).expect("it is in the backup"), b"a gem");
    assert!(weir.stop().success());
}

/// The command may run in another folder than Weir, to which data_dir is relative there.
#[test]
fn histories_are_found_from_another_folder() {
    let site = Site::new("");
    site.write(SETTINGS);
    let weir = start(site);
    let mut socket = Socket::connect(weir.front(), "demo-key");
    socket.subscribe("cache-news");
    let api = Api { address: weir.front(), app: "1", key: "demo-key", secret: SECRET };
    let event = json!({"name": "flood", "channels": ["cache-news"], "data": "{}"});
    assert_eq!(api.post("events", &event).0, "HTTP/1.1 200 OK");
    let (backups, data_dir) = (tempfile::tempdir().expect("a folder"), weir.data_dir());
    let command = ["backup", text(backups.path()), "--data-dir", text(&data_dir)];
    let made = run_json(backups.path(), &command);
    assert_eq!(part(&made, "realtime")["is_included"], true, "{made}");
    assert!(!data_dir.join("backup-histories").exists(), "the copy is removed");
    assert!(weir.stop().success());
}

/// Of a stopped Weir they are in a log, of a running one in a file that it writes.
#[test]
fn durable_histories_are_restored_in_new_epochs() {
    let durable = "[[realtime.apps]]\nhistory = { durable = true }\n";
    let settings = SETTINGS.replace("[[realtime.apps]]\n", durable);
    let site = Site::new("");
    site.write(&settings);
    let weir = start(site);
    let api = Api { address: weir.front(), app: "1", key: "demo-key", secret: SECRET };
    let event = json!({"name": "flood", "channels": ["cache-news"], "data": "{\"level\":3}"});
    assert_eq!(api.post("events", &event).0, "HTTP/1.1 200 OK");
    let mut socket = Socket::connect(weir.front(), "demo-key");
    socket.subscribe("cache-news");
    let before = socket.event("flood");
    drop(socket);
    let (running, stopped) = (tempfile::tempdir(), tempfile::tempdir());
    let (running, stopped) = (running.expect("a folder"), stopped.expect("a folder"));
    let of_running = run_json(weir.site.path(), &["backup", text(running.path())]);
    let old = weir.end();
    let of_stopped = run_json(old.path(), &["backup", text(stopped.path())]);
    for (made, backups) in [(of_running, running), (of_stopped, stopped)] {
        assert_eq!(part(&made, "realtime")["is_included"], true, "{made}");
        let site = Site::new("");
        site.write(&settings);
        site.ok(&["restore", text(backups.path())]);
        assert!(!site.path().join("data/realtime-log").exists());
        let weir = start(site);
        let mut socket = Socket::connect(weir.front(), "demo-key");
        socket.subscribe("cache-news");
        let after = socket.event("flood");
        assert_eq!((&after["data"], &after["offset"]), (&before["data"], &before["offset"]));
        assert_ne!(after["epoch"], before["epoch"]);
        assert!(weir.stop().success());
    }
}

/// Weir starts without damaged histories; a restore, too, must go on without them.
#[test]
fn damaged_histories_do_not_stop_a_restore() {
    let (old, backups, _) = super::refused::backed_up();
    old.write_file("data/realtime-histories", b"WEIRRT01 and no more");
    old.ok(&["backup", text(backups.path())]);
    let new = super::site();
    let output = new.run(&["restore", text(backups.path()), "--data-dir", "data"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    assert!(error.contains("warning: ") && error.contains("histories start empty"), "{error}");
    assert!(!new.path().join("data/realtime-histories").exists());
    assert_eq!(super::jids_of(new).len(), super::refused::JIDS.len());
}

/// A log of a later version, for example.
#[test]
fn durable_histories_that_can_not_be_read_do_not_stop_a_restore() {
    let (old, backups, _) = super::refused::backed_up();
    let disk = weir_log::RealDisk::new(&old.path().join("data/realtime-log")).expect("a folder");
    let (mut log, _) = weir_log::SegmentLog::open(disk, weir_log::SegmentLogOptions::default())
        .expect("a new log");
    let later = br#"B{"version":9,"nodes":[]}"#;
    log.append(weir_log::Class::Essential, &[], &[later]).expect("there is space");
    log.syncer().sync().expect("it is written");
    drop(log);
    old.ok(&["backup", text(backups.path())]);
    let new = super::site();
    let output = new.run(&["restore", text(backups.path()), "--data-dir", "data"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    assert!(error.contains("format 9") && error.contains("realtime-log.damaged"), "{error}");
    assert!(!new.path().join("data/realtime-log").exists());
    assert!(new.path().join("data/realtime-log.damaged").exists());
    assert_eq!(super::jids_of(new).len(), super::refused::JIDS.len());
}

#[test]
fn gems_outside_of_data_dir_are_named_after_a_restore() {
    let site = Site::new("");
    let files = site.path().join("elsewhere");
    let setting = format!("[gems]\nfiles_dir = \"{}\"\n", text(&files));
    site.write(&SETTINGS.replace("[gems]\n", &setting));
    let weir = start(site);
    std::fs::create_dir_all(files.join("ab")).expect("made");
    std::fs::write(files.join("ab/abcdef.gem"), "a gem").expect("written");
    let backups = tempfile::tempdir().expect("a folder");
    weir.site.ok(&["backup", text(backups.path()), "--config", "weir.toml"]);
    let site = weir.end();
    let said = site.ok(&["restore", text(backups.path()), "--data-dir", "new"]);
    let expected = format!("gems.files_dir was {}: after a restore, move gems/files", text(&files));
    assert!(said.contains(&expected), "{said}");
    assert!(site.path().join("new/gems/files/ab/abcdef.gem").exists());
}

#[test]
fn jobs_outside_of_the_embedded_store_are_named() {
    let weir = Weir::start();
    let backups = tempfile::tempdir().expect("a folder");
    let said = weir.site.ok(&["backup", text(backups.path())]);
    let expected = "jobs: NOT INCLUDED: these jobs are not in the embedded store";
    assert!(said.contains(expected), "{said}");
    assert!(weir.stop().success());
}
