//! The parent executes its program anew, whose file was replaced.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::load::Load;
use super::{APP, SECRET, replaced, settings, workers, write_settings};
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

/// Starts Weir from a separate file, which may be replaced.
fn start() -> Weir {
    let site = Site::new("");
    fs::write(site.path().join("app.py"), APP).expect("written");
    write_settings(&site, "");
    let program = program(&site);
    copy(own_program(), &program);
    let weir = site.start_program(&program, |command| {
        command.env("WEIR_REALTIME_SECRET", SECRET);
    });
    wait_until("all workers serve", || workers(&weir).len() == 3);
    weir
}

fn program(site: &Site) -> PathBuf {
    site.path().join("weir")
}

/// Replaces the program like a package manager: running processes keep the old file.
fn replace_program(site: &Site, source: &Path) {
    let new = site.path().join("weir.new");
    copy(source, &new);
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("set");
    fs::rename(new, program(site)).expect("renamed");
}

/// Copies a program. Not in this process: a child that another test starts meanwhile would have the file open for writing,
/// and nobody could execute it.
fn copy(source: &Path, target: &Path) {
    let copied = std::process::Command::new("cp").arg(source).arg(target).status();
    assert!(copied.expect("cp").success());
}

fn own_program() -> &'static Path {
    env!("CARGO_BIN_EXE_weir").as_ref()
}

/// Returns a file with this content.
fn source(site: &Site, content: &str) -> PathBuf {
    let path = site.path().join("source");
    fs::write(&path, content).expect("written");
    path
}

/// Returns the inode of the file that a process executes.
fn executable_inode(pid: i64) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}/exe")).expect("it runs").ino()
}

fn parent(weir: &Weir) -> i64 {
    weir.pid().as_raw_nonzero().get().into()
}

#[test]
fn upgrades_under_load_lose_nothing_and_keep_the_workers() {
    let weir = start();
    let before = workers(&weir);
    let load = Load::start(&weir);
    for _ in 0..3 {
        let old = executable_inode(parent(&weir));
        replace_program(&weir.site, own_program());
        let (old_pid, new_pid) = replaced(&weir, "upgrade");
        assert_ne!(old_pid, new_pid);
        let new = executable_inode(parent(&weir));
        assert_ne!(new, old, "the parent is the new program");
        assert_eq!(
            executable_inode(new_pid.as_i64().expect("a pid")),
            new,
            "and so is the service"
        );
        load.wait_for_progress();
    }
    load.stop(&weir);
    assert_eq!(workers(&weir), before, "the workers are those of before");
    let status = fs::read_to_string(format!("/proc/{}/status", before.first().expect("one")));
    let ours = format!("PPid:\t{}\n", parent(&weir));
    assert!(status.expect("it runs").contains(&ours), "and still our children");
    assert!(weir.stop().success());
}

#[test]
fn rolling_restart_continues_through_an_upgrade() {
    let weir = start();
    let before = workers(&weir);
    let load = Load::start(&weir);
    weir.site.ok(&["workers", "restart", "shop", "--no-wait", "--data-dir", "data"]);
    replaced(&weir, "upgrade");
    wait_until("all are replaced", || {
        let now = workers(&weir);
        now.len() == 3 && now.is_disjoint(&before)
    });
    load.stop(&weir);
    assert!(weir.stop().success());
}

#[test]
fn new_parent_supervises_existing_workers() {
    let mut weir = start();
    replace_program(&weir.site, own_program());
    weir.signal(Signal::USR2);
    weir.wait_for_log("took over from the previous program");
    weir.wait_for_log("takes over");
    weir.wait_for_log("ready child=\"service\"");
    let before = workers(&weir);
    assert_eq!(before.len(), 3);
    let killed = i32::try_from(*before.first().expect("one")).expect("a pid");
    let pid = rustix::process::Pid::from_raw(killed).expect("a pid");
    rustix::process::kill_process(pid, Signal::KILL).expect("killed");
    weir.wait_for_log("was killed by signal 9; restarting");
    wait_until("another one serves", || workers(&weir).len() == 3);
    assert_eq!(workers(&weir).intersection(&before).count(), 2);
    let all = workers(&weir);
    assert!(weir.stop().success());
    assert!(all.iter().all(|pid| !fs::exists(format!("/proc/{pid}")).expect("looked")));
}

#[test]
fn invalid_program_file_aborts_an_upgrade() {
    let mut weir = start();
    let (before, service, old) = (workers(&weir), weir.service(), executable_inode(parent(&weir)));
    for (file, why) in [
        ("", "can't be executed: Exec format error"),
        ("#!/bin/sh\necho unfit >&2; exit 3\n", "can't take over: unfit"),
    ] {
        replace_program(&weir.site, &source(&weir.site, file));
        let shown = weir.site.shown(&["upgrade", "--data-dir", "data"]);
        assert!(shown.starts_with("exit: 2\n") && shown.contains(why), "{shown}");
        weir.wait_for_log("not upgraded, nothing has changed");
        assert_eq!((weir.service(), executable_inode(parent(&weir))), (service, old));
    }
    assert_eq!(workers(&weir), before);
    assert_eq!(get(weir.front(), "/", "").0, "HTTP/1.1 200 OK");
    assert!(weir.stop().success());
}

#[test]
fn incompatible_program_is_not_executed() {
    let mut weir = start();
    let (service, old) = (weir.service(), executable_inode(parent(&weir)));
    // It gives itself the state of a later version.
    let script = format!(
        "#!/bin/sh\nprintf '{{\"version\":4000}}' > later\nexec {} up --takeover-check=3 3< later\n",
        env!("CARGO_BIN_EXE_weir")
    );
    replace_program(&weir.site, &source(&weir.site, &script));
    let shown = weir.site.shown(&["upgrade", "--data-dir", "data"]);
    assert!(shown.contains("hands over in version 4000, but this program supports"), "{shown}");
    weir.wait_for_log("not upgraded, nothing has changed");
    assert_eq!((weir.service(), executable_inode(parent(&weir))), (service, old));
    assert!(weir.stop().success());
}

#[test]
fn upgrade_applies_new_apps_and_addresses() {
    let mut weir = start();
    let (jobs, before) = (weir.jobs(), workers(&weir));
    let folder = weir.site.path().display().to_string();
    // A mistake first.
    weir.site.write("not even TOML");
    let shown = weir.site.shown(&["upgrade", "--data-dir", "data"]);
    assert!(shown.contains("can't take over: weir.toml"), "{shown}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let more = settings(&folder, "").replacen(
        "listen = \"127.0.0.1:0\"",
        &format!("listen = \"{address}\""),
        1,
    );
    weir.site.write(&more);
    let shown = weir.site.shown(&["upgrade", "--data-dir", "data"]);
    assert!(shown.contains("is in use by"), "{shown}");
    drop(taken);
    // Another address for jobs, and another app in place of the one that there was.
    weir.site.write(&more.replace("name = \"shop\"", "name = \"cart\""));
    replaced(&weir, "upgrade");
    assert!(crate::faktory::Client::connect_without_command(address).greeting.starts_with("+HI "));
    assert!(std::net::TcpStream::connect(jobs).is_err(), "nobody listens there any more");
    wait_until("the workers of the new app serve", || {
        let now = workers(&weir);
        now.len() == 3 && now.is_disjoint(&before)
    });
    for pid in &before {
        wait_until("those of the old app have ended", || {
            !fs::exists(format!("/proc/{pid}")).expect("looked")
        });
    }
    weir.wait_for_log("asked to end");
    assert_eq!(get(weir.front(), "/", "").0, "HTTP/1.1 200 OK");
    assert!(weir.stop().success());
}

#[test]
fn app_removed_and_added_again_gets_its_workers() {
    let weir = start();
    let before = workers(&weir);
    let with = settings(&weir.site.path().display().to_string(), "");
    let without = with.replace("name = \"shop\"", "name = \"cart\"");
    for text in [&without, &with, &without, &with] {
        weir.site.write(text);
        // Not while the last service still ends.
        wait_until("upgraded", || {
            weir.site.run(&["upgrade", "--data-dir", "data"]).status.success()
        });
        wait_until("all workers serve", || workers(&weir).len() == 3);
        assert_eq!(get(weir.front(), "/", "").0, "HTTP/1.1 200 OK");
    }
    assert_eq!(workers(&weir).intersection(&before).count(), 0);
    assert!(weir.stop().success());
}

/// Returns the addresses of the serving workers.
fn addresses(weir: &Weir) -> Vec<String> {
    let listed = weir.site.ok(&["workers", "list", "--json", "--data-dir", "data"]);
    let apps: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let rows = apps[0]["workers"].as_array().expect("a list");
    let serving = rows.iter().filter(|row| row["state"] == "serving");
    serving.filter_map(|row| row["address"].as_str().map(str::to_owned)).collect()
}

#[test]
fn app_with_upstreams_after_a_command_lists_its_workers() {
    let weir = start();
    let with_command = settings(&weir.site.path().display().to_string(), "");
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = upstream.local_addr().expect("an address").to_string();
    let own: Vec<&str> = with_command.lines().filter(|line| !is_of_command(line)).collect();
    let with_upstreams = own
        .join("\n")
        .replace("name = \"shop\"", &format!("name = \"shop\"\nupstreams = [\"{upstream}\"]"));
    for _ in 0..2 {
        weir.site.write(&with_upstreams);
        replaced(&weir, "upgrade");
        wait_until("the upstream is listed", || addresses(&weir) == [upstream.clone()]);
        weir.site.write(&with_command);
        wait_until("upgraded", || {
            weir.site.run(&["upgrade", "--data-dir", "data"]).status.success()
        });
        wait_until("the workers are listed", || workers(&weir).len() == 3);
    }
    assert!(weir.stop().success());
}

fn is_of_command(line: &str) -> bool {
    ["workers =", "folder =", "command ="].iter().any(|setting| line.starts_with(setting))
}

/// Says what signals it is sent.
const SLEEPER: &str = "trap 'echo INT >> told; exit 0' INT; trap 'echo QUIT >> told; exit 0' QUIT; \
                       trap 'echo TERM >> told; exit 0' TERM; trap 'echo USR1 >> told' USR1; \
                       trap 'echo USR2 >> told' USR2; echo at work; \
                       while :; do sleep 0.01; done";

#[test]
fn workers_get_the_signals_of_their_own_command() {
    let weir = start();
    let folder = weir.site.path().display().to_string();
    let told = || fs::read_to_string(weir.site.path().join("told")).unwrap_or_default();
    let group = |(stop, dump)| {
        format!(
            "[workers.sleeper]\nready_line = \"at work\"\nfolder = \"{folder}\"\n\
             stop_signal = \"{stop}\"\ndump_signal = \"{dump}\"\ncommand = [\"sh\", \"-c\", \"{SLEEPER}\"]\n"
        )
    };
    let upgrade = |more: &str| {
        weir.site.write(&(settings(&folder, "") + more));
        wait_until("upgraded", || {
            weir.site.run(&["upgrade", "--data-dir", "data"]).status.success()
        });
    };
    let runs = || {
        let listed = weir.site.ok(&["workers", "list", "--json", "--data-dir", "data"]);
        listed.contains("\"state\": \"running\"")
    };
    upgrade(&group(("INT", "USR1")));
    wait_until("it runs", runs);
    upgrade(&group(("QUIT", "USR2")));
    weir.site.ok(&["workers", "dump", "sleeper", "0", "--data-dir", "data"]);
    wait_until("it was sent something", || !told().is_empty());
    assert_eq!(told(), "USR1\n");
    weir.site.ok(&["workers", "restart", "sleeper", "--data-dir", "data"]);
    wait_until("the first has ended", || told().len() > "USR1\n".len());
    assert_eq!(told(), "USR1\nINT\n");
    // Without the group nothing says any more by which signal.
    upgrade("");
    wait_until("the second has ended", || told().len() > "USR1\nINT\n".len());
    assert_eq!(told(), "USR1\nINT\nQUIT\n");
    assert!(weir.stop().success());
}
