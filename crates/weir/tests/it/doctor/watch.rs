//! `weir doctor --watch`: a page that comes again, until it is told to end or nobody reads it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::redis_server::RedisServer;
use crate::process::{lines_of, wait_for};
use crate::weir::program;

const OTHER_SCREEN: &str = "\u{1b}[?1049h\u{1b}[?25l";
const FORMER_SCREEN: &str = "\u{1b}[?25h\u{1b}[?1049l";

fn watch_command(redis: &RedisServer) -> Command {
    let mut command = program();
    let url = format!("redis://127.0.0.1:{}", redis.port);
    command.args(["doctor", "--watch", "--window", "10ms", "--redis", &url]);
    command
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("its number");
    rustix::process::kill_process(pid, signal).expect("it runs");
}

#[test]
fn watch_repeats_until_interrupted() {
    let Some(redis) = RedisServer::start() else { return };
    let mut child = watch_command(&redis).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = lines_of(child.stdout.take().expect("piped"));
    let heads = lines.iter().filter(|line| line.starts_with("weir doctor, every 10 ms"));
    assert_eq!(heads.take(3).count(), 3);
    signal(&child, Signal::INT);
    // Nothing that it holds is kept over a restart, which is what its last page said.
    assert_eq!(wait_for(&mut child).code(), Some(1));
}

#[test]
fn watch_ends_when_its_output_is_closed() {
    let Some(redis) = RedisServer::start() else { return };
    let mut command = watch_command(&redis);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    reader.read_line(&mut line).expect("a line");
    assert!(line.starts_with("weir doctor, every 10 ms"), "{line}");
    drop(reader);
    assert_eq!(wait_for(&mut child).code(), Some(1), "as its page said");
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(said, "");
}

/// Opens a terminal: returns the side with its content, and the side of the program.
fn open_terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("granted");
    unlockpt(&ours).expect("unlocked");
    let name = ptsname(&ours, Vec::new()).expect("its name");
    let name = name.to_str().expect("a path");
    let theirs = File::options().read(true).write(true).open(name).expect("its other side");
    (File::from(ours), theirs)
}

#[test]
fn watch_restores_the_terminal() {
    let Some(redis) = RedisServer::start() else { return };
    for ending in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (mut screen, theirs) = open_terminal();
        let mut command = watch_command(&redis);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = command.stdout(theirs).spawn().expect("it starts");
        drop(command);
        let mut shown = String::new();
        let mut read = |until: &str| {
            while !shown.contains(until) {
                let mut bytes = [0; 4_096];
                // Once nobody has its other side it is at an end, which a terminal calls an error.
                let Ok(count @ 1..) = screen.read(&mut bytes) else { return false };
                shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
            true
        };
        assert!(read(OTHER_SCREEN) && read("weir doctor, every 10 ms"), "{ending:?}");
        signal(&child, ending);
        assert!(read(FORMER_SCREEN), "{ending:?}");
        // What it still writes must be read, or it does not end.
        while read("nothing more") {}
        assert_eq!(wait_for(&mut child).code(), Some(1), "{ending:?}: as its page said");
        assert!(shown.ends_with(FORMER_SCREEN), "{ending:?}");
    }
}
