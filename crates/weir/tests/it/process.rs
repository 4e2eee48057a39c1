//! Processes under test, never waited for without a deadline.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Longer than anything takes on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

/// Looks until `condition`, at most for [`TEST_TIMEOUT`].
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..TEST_TIMEOUT.as_millis() / LOOK.as_millis() {
        if condition() {
            return;
        }
        std::thread::sleep(LOOK);
    }
    panic!("it never came to pass that {what}");
}

/// Waits until a child ends by itself.
pub(crate) fn wait_for(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the process ends", || {
        status = child.try_wait().expect("waited");
        status.is_some()
    });
    status.expect("it ended")
}

/// Returns whether a read from a socket timed out.
pub(crate) fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns the lines of a pipe as they arrive; the channel ends with the pipe.
pub(crate) fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(pipe).lines().map_while(Result::ok);
        lines.into_iter().try_for_each(|line| sender.send(line))
    });
    receiver
}

/// Runs `command` to its end and collects what it writes. One that doesn't end is killed, and its
/// output shown.
pub(crate) fn output_of(command: &mut Command) -> Output {
    output_with_input(command, b"")
}

/// Runs a command with standard input.
pub(crate) fn output_with_input(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let (stdout, stderr) = (
        bytes_of(child.stdout.take().expect("piped")),
        bytes_of(child.stderr.take().expect("piped")),
    );
    // One that doesn't want it may have ended already.
    let _ = child.stdin.take().expect("piped").write_all(input);
    let ended = stdout.recv_timeout(TEST_TIMEOUT);
    if ended.is_err() {
        let _ = child.kill();
    }
    let stderr = stderr.recv_timeout(TEST_TIMEOUT).expect("standard error ends with the process");
    let Ok(stdout) = ended else {
        panic!("{command:?} did not end:\n{}", String::from_utf8_lossy(&stderr));
    };
    Output { status: wait_for(&mut child), stdout, stderr }
}

/// Returns all bytes of a pipe, once it ends.
fn bytes_of(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        sender.send(bytes)
    });
    receiver
}
