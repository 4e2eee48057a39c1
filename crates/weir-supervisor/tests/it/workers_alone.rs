//! What needs a parent process of its own: orphans, the parent's environment, the parent's death.
//! These tests start this test program again, for one test alone that plays the parent.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use weir_supervisor::Supervisor;
use weir_supervisor::notify::Notify;
use weir_supervisor::requests::Requests;
use weir_supervisor::workers::Fleet;

use crate::rig::{NoEvents, kill, runs, script, wait_until};

/// What the parent is to run; the test does nothing where it isn't set.
const SCRIPT: &str = "WEIR_TEST_SCRIPT";

/// Its run folder.
const FOLDER: &str = "WEIR_TEST_FOLDER";

/// A parent that runs `text` as a worker and writes its output to ours.
fn parent(text: &str, folder: &Path, environment: &[(&str, &str)]) -> Parent {
    let started = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "workers_alone::plays_the_parent", "--nocapture"])
        .env(SCRIPT, text)
        .env(FOLDER, folder)
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn();
    Parent(started.expect("started"))
}

/// Killed when the test is over, however it ends.
struct Parent(Child);

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that its worker prints, without the name.
fn lines(parent: &mut Parent) -> impl Iterator<Item = String> + use<> {
    let stdout = parent.0.stdout.take().expect("a pipe");
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    lines.filter_map(|line| {
        let (_, line) = line.split_once("shop-0[")?;
        line.split_once("] ").map(|(_, text)| text.to_owned())
    })
}

/// Goes on until it is killed.
#[test]
fn plays_the_parent() {
    let Some(text) = std::env::var_os(SCRIPT) else { return };
    let folder = std::env::var_os(FOLDER).expect("a folder");
    let spec = script(text.to_str().expect("text"));
    let fleet = Fleet::new(vec![spec], Path::new(&folder)).expect("sound");
    let (_requests, source) = Requests::pipe().expect("a pipe");
    let output = std::io::stdout().as_fd().try_clone_to_owned().expect("a descriptor");
    Supervisor::new(Vec::new(), source, Notify::disabled(), output)
        .adopting_orphans()
        .expect("adopts")
        .with_workers(fleet)
        .run(&mut NoEvents);
}

#[test]
fn orphans_are_adopted_and_reaped() {
    // The middle process ends at once; its child, in a session of its own, is an orphan then.
    let text = "setsid sh -c 'sleep 0.05 & echo orphan $!'; echo up; while :; do sleep 0.01; done";
    let folder = tempfile::tempdir().expect("a folder");
    let mut parent = parent(text, folder.path(), &[]);
    let mut lines = lines(&mut parent);
    let orphan = lines.find_map(|line| line.strip_prefix("orphan ")?.parse::<i32>().ok());
    let orphan = orphan.expect("a pid");
    lines.find(|line| line == "up").expect("a ready worker");
    // A zombie would still have its entry.
    wait_until("the orphan is reaped", || !Path::new(&format!("/proc/{orphan}")).exists());
}

#[test]
fn workers_do_not_inherit_the_parents_environment_variables() {
    let text = "echo [$NOTIFY_SOCKET$WATCHDOG_USEC$WATCHDOG_PID$LISTEN_FDS$WEIR_DESCRIPTORS] \
                $KEPT; echo up; while :; do sleep 0.01; done";
    let private =
        ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "WEIR_DESCRIPTORS"];
    let mut environment: Vec<(&str, &str)> =
        private.into_iter().map(|name| (name, "private")).collect();
    environment.push(("KEPT", "kept"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut parent = parent(text, folder.path(), &environment);
    assert_eq!(lines(&mut parent).next().as_deref(), Some("[] kept"));
}

#[test]
fn workers_are_stopped_when_the_parent_is_killed() {
    let text = "trap 'exit 0' TERM; echo pid $$; echo up; while :; do sleep 0.01; done";
    let folder = tempfile::tempdir().expect("a folder");
    let mut parent = parent(text, folder.path(), &[]);
    let mut lines = lines(&mut parent);
    let worker = lines.find_map(|line| line.strip_prefix("pid ")?.parse::<i32>().ok());
    let worker = worker.expect("a pid");
    lines.find(|line| line == "up").expect("a ready worker");
    assert!(runs(worker));
    kill(i32::try_from(parent.0.id()).expect("a pid"));
    wait_until("the end of the worker", || !runs(worker));
}
