//! One child process over its generations: start, readiness, end, restart.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus};

use crate::carried::{self, CarriedProcess, Carrier, ResumeError};
use crate::inherited::{self, ChildStatus};
use crate::output::Output;
use crate::restarts::{RestartDecision, RestartHistory, Restarts};
use crate::silence::{Silence, SilenceCheck};
use crate::spec::ChildSpec;
use crate::system;

/// The limit of a status line in bytes. Valid lines are much shorter.
const WORD_BYTES_MAX: usize = 4096;

/// A child and its current state.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) spec: ChildSpec,
    pub(crate) state: ChildState,
    restarts: Restarts,
    /// Whether each generation gets a control channel.
    pub(crate) has_control: bool,
}

/// The state of a child.
#[derive(Debug)]
pub(crate) enum ChildState {
    /// Not running; starts at `start_at`.
    Waiting {
        start_at: Duration,
    },
    Running(Box<ChildProcess>),
    /// Ended on request.
    Ended,
}

/// One generation of a child.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) output: Output,
    /// The parent's end of the control channel, until [`Child::take_control`] takes it.
    pub(crate) control: Option<OwnedFd>,
    status: Option<OwnedFd>,
    status_buffer: Vec<u8>,
    pub(crate) ready_at: Option<Duration>,
    pub(crate) alive_at: Duration,
    pub(crate) silence: Silence,
    /// When to send SIGKILL; set once the process was asked to end.
    pub(crate) kill_at: Option<Duration>,
    /// Whether the program supports [`ChildProcess::send_replaced`].
    pub(crate) can_linger: bool,
    /// Whether it was told to close its streams.
    pub(crate) closes_streams: bool,
    /// The write end of the life pipe. The child ends when this descriptor is closed.
    life_pipe: OwnedFd,
}

/// The end of one generation, and the restart decision.
#[derive(Debug)]
pub(crate) struct ChildExit {
    pub(crate) status: ExitStatus,
    pub(crate) pid: Pid,
    /// How long it was ready; None if it never became ready.
    pub(crate) ready_for: Option<Duration>,
    pub(crate) last_lines: Vec<String>,
    pub(crate) verdict: RestartDecision,
}

impl Child {
    pub(crate) fn new(spec: ChildSpec) -> Self {
        let restarts = Restarts::new(spec.restart.clone());
        let state = ChildState::Waiting { start_at: Duration::ZERO };
        Self { spec, state, restarts, has_control: false }
    }

    /// Restores a child whose running generation was started by an earlier program.
    pub(crate) fn resume(
        spec: ChildSpec,
        process: CarriedProcess,
        record: RestartHistory,
        now: Duration,
    ) -> Result<Self, ResumeError> {
        let process = ChildProcess::resume(process, &spec, now)?;
        let restarts = Restarts::resume(spec.restart.clone(), record);
        let state = ChildState::Running(Box::new(process));
        Ok(Self { spec, state, restarts, has_control: false })
    }

    pub(crate) fn record(&self) -> RestartHistory {
        self.restarts.record()
    }

    pub(crate) fn running(&self) -> Option<&ChildProcess> {
        match &self.state {
            ChildState::Running(process) => Some(process),
            _ => None,
        }
    }

    pub(crate) fn running_mut(&mut self) -> Option<&mut ChildProcess> {
        match &mut self.state {
            ChildState::Running(process) => Some(process),
            _ => None,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.running().is_some_and(|process| process.ready_at.is_some())
    }

    /// Returns when the child next needs a timer: its start, its kill deadline or its silence
    /// check.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        match &self.state {
            ChildState::Waiting { start_at } => Some(*start_at),
            ChildState::Running(process) => {
                [process.kill_at, process.silence.check_at()].into_iter().flatten().min()
            }
            ChildState::Ended => None,
        }
    }

    /// Starts the next generation and returns its pid.
    pub(crate) fn start(&mut self, now: Duration) -> io::Result<Pid> {
        let process = ChildProcess::start(&self.spec, self.has_control, now)?;
        let pid = process.pid;
        self.state = ChildState::Running(Box::new(process));
        Ok(pid)
    }

    /// Takes the parent's end of the running generation's control channel; None if already taken.
    pub(crate) fn take_control(&mut self) -> Option<OwnedFd> {
        self.running_mut()?.control.take()
    }

    /// Makes `process`, which was started beside the running generation, the current one, and
    /// returns the previous one. `process` need not be ready: an earlier generation was.
    pub(crate) fn take_over(&mut self, process: Box<ChildProcess>) -> Option<Box<ChildProcess>> {
        self.restarts.note_ready();
        match std::mem::replace(&mut self.state, ChildState::Running(process)) {
            ChildState::Running(before) => Some(before),
            ChildState::Waiting { .. } | ChildState::Ended => None,
        }
    }

    /// Asks the process to end. A child that waits for its start ends at once.
    pub(crate) fn stop(&mut self, now: Duration) {
        match &mut self.state {
            ChildState::Running(process) => process.stop(now, self.spec.stop_deadline),
            ChildState::Waiting { .. } | ChildState::Ended => self.state = ChildState::Ended,
        }
    }

    /// Reaps the generation if it has ended, and returns how it ended and whether to restart it.
    pub(crate) fn reap(&mut self, now: Duration, output: BorrowedFd<'_>) -> Option<ChildExit> {
        let ChildState::Running(process) = &mut self.state else {
            return None;
        };
        let status = process.reap(output)?;
        let ready_for = process.ready_at.map(|since| now.saturating_sub(since));
        let verdict = self.restarts.record_exit(ready_for);
        let last_lines = process.output.last_lines();
        let was_asked = process.kill_at.is_some();
        let exit = ChildExit { status, pid: process.pid, ready_for, last_lines, verdict };
        self.state = if was_asked { ChildState::Ended } else { next_state(verdict, now) };
        Some(exit)
    }

    /// Counts a failed start like a death.
    pub(crate) fn start_failed(&mut self, now: Duration) -> RestartDecision {
        let verdict = self.restarts.record_exit(None);
        self.state = next_state(verdict, now);
        verdict
    }
}

fn next_state(verdict: RestartDecision, now: Duration) -> ChildState {
    match verdict {
        RestartDecision::Restart { after, .. } => ChildState::Waiting { start_at: now + after },
        RestartDecision::GiveUp { .. } => ChildState::Ended,
    }
}

impl ChildProcess {
    pub(crate) fn start(spec: &ChildSpec, has_control: bool, now: Duration) -> io::Result<Self> {
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let (status, status_writer) = pipe()?;
        let (child_life_pipe, life_pipe) = pipe()?;
        let (output, output_writer) = pipe()?;
        for reader in [&status, &output] {
            rustix::io::ioctl_fionbio(reader, true)?;
        }
        // A full status pipe must not block the child.
        rustix::io::ioctl_fionbio(&status_writer, true)?;

        let (control, child_control) = match has_control.then(UnixStream::pair).transpose()? {
            Some((parent_end, child_end)) => (Some(parent_end.into()), Some(child_end)),
            None => (None, None),
        };
        let pipes = [
            (inherited::STATUS, status_writer.as_fd()),
            (inherited::LIFE, child_life_pipe.as_fd()),
        ];
        let control_descriptor = child_control.iter().map(|end| (inherited::CONTROL, end.as_fd()));
        let spec_descriptors =
            spec.descriptors.iter().map(|(name, descriptor)| (name.as_str(), descriptor.as_fd()));
        let (names, descriptors): (Vec<&str>, Vec<BorrowedFd<'_>>) =
            spec_descriptors.chain(pipes).chain(control_descriptor).unzip();

        let mut command = command(spec, &inherited::describe(names.into_iter()), output_writer)?;
        system::hand_over(&mut command, &descriptors);
        let pid = Pid::from_child(&command.spawn()?);
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self {
            pid,
            pidfd,
            output: Output::new(output),
            control,
            status: Some(status),
            status_buffer: Vec::new(),
            ready_at: None,
            alive_at: now,
            silence: Silence::new(spec.unresponsive_after),
            kill_at: None,
            can_linger: spec.old_processes_max.is_some(),
            closes_streams: false,
            life_pipe,
        })
    }

    /// Returns its serialized state, and keeps its descriptors open in `carrier`.
    pub(crate) fn carried(&self, carrier: &mut Carrier) -> CarriedProcess {
        CarriedProcess {
            pid: self.pid.as_raw_pid(),
            pidfd: carrier.keep_open(&self.pidfd),
            life_pipe: carrier.keep_open(&self.life_pipe),
            status: self.status.as_ref().map(|status| carrier.keep_open(status)),
            output: self.output.descriptor().map(|output| carrier.keep_open(&output)),
            last_lines: self.output.last_lines(),
            status_buffer: self.status_buffer.clone(),
            ready_at: self.ready_at,
            can_linger: self.can_linger,
            closes_streams: self.closes_streams,
            kill_at: self.kill_at,
        }
    }

    /// Restores a process that an earlier program started.
    pub(crate) fn resume(
        carried: CarriedProcess,
        spec: &ChildSpec,
        now: Duration,
    ) -> Result<Self, ResumeError> {
        let mut silence = Silence::new(spec.unresponsive_after);
        silence.broken(now);
        Ok(Self {
            pid: carried::pid(carried.pid)?,
            pidfd: carried::take(carried.pidfd)?,
            output: Output::resume(carried::take_some(carried.output)?, &carried.last_lines),
            control: None,
            status: carried::take_some(carried.status)?,
            status_buffer: carried.status_buffer,
            ready_at: carried.ready_at,
            alive_at: now,
            silence,
            kill_at: carried.kill_at,
            can_linger: carried.can_linger,
            closes_streams: carried.closes_streams,
            life_pipe: carried::take(carried.life_pipe)?,
        })
    }

    /// Notifies the process that it was replaced: it ends by itself once its connections have
    /// closed.
    pub(crate) fn send_replaced(&self) {
        self.signal(Signal::USR1);
    }

    /// Tells a replaced process to close its streams now, once.
    pub(crate) fn close_streams(&mut self) {
        if !std::mem::replace(&mut self.closes_streams, true) {
            self.signal(Signal::USR2);
        }
    }

    /// Checks, if due, whether the process has been silent for too long, and aborts or kills it.
    pub(crate) fn check_silence(&mut self, name: &str, now: Duration) {
        if self.silence.check_at().is_none_or(|time| time > now) {
            return;
        }
        let (pid, silent_ms) =
            (self.pid.as_raw_nonzero(), now.saturating_sub(self.alive_at).as_millis());
        match self.silence.check(now) {
            SilenceCheck::Early => {}
            SilenceCheck::Abort => {
                tracing::error!(child = name, pid, silent_ms, "does not answer; aborted");
                self.signal(Signal::ABORT);
            }
            SilenceCheck::Kill => {
                tracing::error!(child = name, pid, silent_ms, "still there; killed");
                self.signal(Signal::KILL);
            }
        }
    }

    /// Asks the process to end within `deadline`.
    pub(crate) fn stop(&mut self, now: Duration, deadline: Duration) {
        self.kill_at = Some(now + deadline);
        // It may be silent during shutdown, where `kill_at` applies instead.
        self.silence.ignore();
        self.signal(Signal::TERM);
    }

    /// Returns the exit status if the process has ended, after its remaining output was passed on.
    pub(crate) fn reap(&mut self, output: BorrowedFd<'_>) -> Option<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let ended = rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options).ok()??;
        let status = exit_status(&ended);
        while self.output.forward(output) {}
        Some(status)
    }

    /// Returns the status pipe to poll, until the child closes it.
    pub(crate) fn status(&self) -> Option<BorrowedFd<'_>> {
        self.status.as_ref().map(AsFd::as_fd)
    }

    /// Sends `signal` through the pidfd, so it cannot reach another process with a reused pid.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Err(error) = rustix::process::pidfd_send_signal(&self.pidfd, signal) {
            tracing::debug!(pid = self.pid.as_raw_nonzero(), %error, "signal not sent");
        }
    }

    /// Reads and returns the words that have arrived.
    pub(crate) fn read_statuses(&mut self) -> Vec<ChildStatus> {
        let mut chunk = [0; WORD_BYTES_MAX];
        while let Some(status) = &self.status {
            match rustix::io::read(status, &mut chunk) {
                Ok(bytes @ 1..) => self.status_buffer.extend_from_slice(&chunk[..bytes]),
                // Closed: polling it again would return at once, in a busy loop.
                Ok(0) => self.status = None,
                Err(_) => break,
            }
        }
        let mut received = Vec::new();
        while let Some(end) = self.status_buffer.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.status_buffer.drain(..=end).collect();
            received.extend(ChildStatus::parse(String::from_utf8_lossy(&line).trim_end()));
        }
        if self.status_buffer.len() > WORD_BYTES_MAX {
            self.status_buffer.clear();
        }
        received
    }
}

/// Encodes a status as `waitpid(2)` does.
fn exit_status(ended: &WaitIdStatus) -> ExitStatus {
    let signal = ended.terminating_signal().unwrap_or_default();
    ExitStatus::from_raw(ended.exit_status().unwrap_or_default() << 8 | signal)
}

fn command(spec: &ChildSpec, descriptors: &str, output: OwnedFd) -> io::Result<Command> {
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.arguments)
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .env(inherited::VARIABLE, descriptors)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        // Ctrl-C in a terminal signals the whole foreground process group, and only the parent may
        // act on it.
        .process_group(0);
    Ok(command)
}

/// Describes an exit status: `exited with code 2`, `was killed by signal 9`.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
