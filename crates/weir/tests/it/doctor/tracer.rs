//! A process whose forks take long.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Lets go of the process when it is dropped.
pub(super) struct Tracer(Child);

impl Tracer {
    /// Holds up each fork of the process for so long before the kernel begins with it. None, and a line that says so, where
    /// nobody may trace it.
    pub(super) fn delay_forks(pid: u32, micros: u32) -> Option<Self> {
        const FORKS: &str = "clone,clone3,fork,vfork";
        let mut command = Command::new("strace");
        command.args(["-p", &pid.to_string(), "-o", "/dev/null", "-e"]);
        // Some processors have no system call `fork`: a name with a question mark may be missing.
        let forks = FORKS.split(',').map(|it| format!("?{it}")).collect::<Vec<_>>().join(",");
        command.arg(format!("trace={forks}")).arg("-e");
        command.arg(format!("inject={forks}:delay_enter={micros}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("skipped: there is no strace (Debian: strace), so redis-fork keeps its row");
            return None;
        };
        let mut line = String::new();
        let said = child.stderr.as_mut().map(|it| BufReader::new(it).read_line(&mut line));
        let tracer = Self(child);
        if !matches!(said, Some(Ok(_))) || !line.contains(" attached") {
            eprintln!("skipped: {}, so redis-fork keeps its row", line.trim_end());
            return None;
        }
        Some(tracer)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
