//! The main loop over all children: start, supervise, restart, stop. It has one thread and no async
//! runtime, and sleeps in `poll` until a child ends or writes, a request arrives, or a timer
//! expires.

mod lingering;
mod replacement;
mod upgrade;
mod workers;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::carried::{CarriedSupervisor, Carrier};
use crate::child::{self, Child, ChildExit, ChildProcess, ChildState};
use crate::inherited::ChildStatus;
use crate::monotonic;
use crate::notify::Notify;
use crate::orphans::Orphans;
use crate::output;
use crate::requests::{ControlRequest, Requests};
use crate::restarts::RestartDecision;
use crate::spec::ChildSpec;
use crate::workers::{CommandSender, FailedGroup, Fleet};

pub use self::replacement::REPLACE_DEADLINE;

/// Callbacks of the lifecycle.
pub trait Events {
    /// Called when all children are ready for the first time. Workers may still be starting;
    /// `failed` lists groups of which no worker could be started.
    fn ready(&mut self, failed: &[FailedGroup]);

    /// Reloads the settings and returns whether they are valid. The children are signalled in any
    /// case: the same signal tells them to reopen their logs.
    fn reload(&mut self) -> bool;

    /// Prepares the state that a new service process finds, just before it is started beside the
    /// current one. `Err` prevents the start and gives the reason.
    fn replacing(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Re-executes the program. Returns only on failure, with the reason, and then nothing has
    /// changed. Implementations keep the descriptors of `carrier` open and pass `state` to
    /// [`Supervisor::resume`].
    fn upgrade(&mut self, _state: &CarriedSupervisor, _carrier: Carrier) -> String {
        "this program cannot be executed again".to_owned()
    }

    /// Called when the new process serves (true), or when it failed and the prepared state is void.
    fn replaced(&mut self, _is_done: bool) {}
}

/// Why the loop ended.
#[derive(Debug, PartialEq, Eq)]
pub enum SupervisionOutcome {
    /// Stopped on request; every child ended by itself.
    Stopped,
    /// Stopped on request; a child was killed at its deadline or because of a second request.
    Killed,
    /// A child could not be started or kept dying; the text names it and gives the reason.
    GaveUp(String),
}

/// Supervises all children of a parent.
#[derive(Debug)]
pub struct Supervisor {
    children: Vec<Child>,
    requests: Requests,
    notify: Notify,
    /// The parent's output, which receives the children's.
    output: OwnedFd,
    stopping: bool,
    /// Whether the children were asked to end. Workers that need the children to end are asked
    /// earlier.
    children_asked: bool,
    killed: bool,
    announced: bool,
    gave_up: Option<String>,
    watchdog_at: Option<Duration>,
    workers: Option<Fleet>,
    orphans: Option<Orphans>,
    /// Orphans that an earlier program reaped.
    orphans_before: u64,
    /// The process that is about to replace the service.
    successor: Option<Box<ChildProcess>>,
    /// Replaced service processes that still have connections, the oldest first.
    lingering: Vec<ChildProcess>,
    /// The client that waits for the outcome of the replacement.
    requester: Option<CommandSender>,
    /// Whether the service has replaced another and does not serve everything yet.
    is_unproven: bool,
    /// Whether to stop groups that the settings no longer contain: the service does not need them.
    retires_groups: bool,
    /// Whether a reload waits for the end of a replacement: both would change the settings.
    reload_waits: bool,
    /// Set after a re-execution: the service must be replaced, for the given client if any.
    is_upgraded: Option<Option<CommandSender>>,
    /// None: the service cannot run twice.
    replace_deadline: Option<Duration>,
}

impl Supervisor {
    /// Creates a supervisor; [`Supervisor::run`] starts the children. `output` receives their
    /// output.
    #[must_use]
    pub fn new(
        children: Vec<ChildSpec>,
        requests: Requests,
        notify: Notify,
        output: OwnedFd,
    ) -> Self {
        Self {
            children: children.into_iter().map(Child::new).collect(),
            requests,
            watchdog_at: notify.watchdog().map(|_| Duration::ZERO),
            notify,
            output,
            stopping: false,
            children_asked: false,
            killed: false,
            announced: false,
            gave_up: None,
            workers: None,
            orphans: None,
            orphans_before: 0,
            successor: None,
            lingering: Vec::new(),
            requester: None,
            is_unproven: false,
            retires_groups: false,
            reload_waits: false,
            is_upgraded: None,
            replace_deadline: None,
        }
    }

    /// Runs until every child has ended.
    pub fn run(mut self, events: &mut dyn Events) -> SupervisionOutcome {
        loop {
            let now = monotonic();
            self.start_and_kill(now);
            self.feed_watchdog(now);
            self.run_successor(now);
            self.run_lingering(now);
            self.run_workers(now);
            if self.has_ended() {
                return self.outcome();
            }
            self.sleep(now);
            let now = monotonic();
            while let Some(request) = self.requests.next() {
                self.handle_request(request, now, events);
            }
            self.listen_to_children(now, events);
            self.reap(now, events);
            self.listen_to_successor(now, events);
            self.listen_to_lingering(now);
            self.listen_to_workers(now);
            self.run_service_commands(now, events);
            self.finish_upgrade(now, events);
            self.reload_if_waiting(events);
        }
    }

    fn outcome(mut self) -> SupervisionOutcome {
        self.end_workers();
        match self.gave_up {
            Some(reason) => SupervisionOutcome::GaveUp(reason),
            None if self.killed => SupervisionOutcome::Killed,
            None => SupervisionOutcome::Stopped,
        }
    }

    /// Starts children that are due, and kills those that are past their deadline or silent.
    fn start_and_kill(&mut self, now: Duration) {
        for index in 0..self.children.len() {
            let child = &mut self.children[index];
            let name = child.spec.name.clone();
            if child.wakes_at().is_none_or(|time| time > now) {
                continue;
            }
            match &mut child.state {
                ChildState::Running(process) if process.kill_at.is_none_or(|time| time > now) => {
                    process.check_silence(&name, now);
                }
                ChildState::Running(process) => {
                    tracing::warn!(child = name, "still running at its deadline; killed");
                    process.kill_at = Some(Duration::MAX);
                    process.signal(Signal::KILL);
                    self.killed = true;
                }
                _ => match child.start(now) {
                    Ok(pid) => {
                        tracing::info!(child = name, pid = pid.as_raw_nonzero(), "started");
                        self.connect_workers(index);
                    }
                    Err(error) => {
                        let program = child.spec.program.display();
                        let reason = format!("{name}: {program} can't be started: {error}");
                        match child.start_failed(now) {
                            RestartDecision::Restart { .. } => {
                                tracing::error!("{reason}; trying again")
                            }
                            RestartDecision::GiveUp { .. } => self.give_up(reason, now),
                        }
                    }
                },
            }
        }
    }

    fn handle_request(&mut self, request: ControlRequest, now: Duration, events: &mut dyn Events) {
        match request {
            ControlRequest::Stop if self.stopping => {
                tracing::warn!("asked to stop a second time: ending at once");
                self.killed = true;
                self.stop_children(now);
                for process in self.children.iter().filter_map(Child::running) {
                    process.signal(Signal::KILL);
                }
                self.kill_other_services();
                self.kill_workers(now);
            }
            ControlRequest::Stop => {
                tracing::info!("stopping");
                self.stop(now);
            }
            ControlRequest::Replace => self.replace_service(now, None, events),
            ControlRequest::Upgrade => self.upgrade(now, None, events),
            ControlRequest::Reload if self.is_being_replaced() => self.reload_waits = true,
            ControlRequest::Reload => self.reload(events),
        }
    }

    fn reload(&mut self, events: &mut dyn Events) {
        self.notify.reloading();
        let is_sound = !self.stopping && events.reload();
        if !self.stopping {
            // Replaced processes only reopen their logs.
            for process in self.children.iter().filter_map(Child::running).chain(&self.lingering) {
                process.signal(Signal::HUP);
            }
        }
        if !is_sound {
            self.notify.ready("serving; the settings are those of before");
        }
    }

    fn stop(&mut self, now: Duration) {
        self.stopping = true;
        self.notify.stopping();
        self.stop_first_workers(now);
        self.stop_other_services(now);
    }

    /// Asks all children to end, once.
    fn stop_children(&mut self, now: Duration) {
        if !std::mem::replace(&mut self.children_asked, true) {
            self.children.iter_mut().for_each(|child| child.stop(now));
        }
    }

    fn give_up(&mut self, reason: String, now: Duration) {
        tracing::error!("{reason}");
        self.gave_up.get_or_insert(reason);
        if !self.stopping {
            self.stop(now);
        }
    }

    /// Forwards the children's output and processes their status words.
    fn listen_to_children(&mut self, now: Duration, events: &mut dyn Events) {
        let mut reloaded = false;
        let mut became_ready = false;
        for child in &mut self.children {
            let name = child.spec.name.clone();
            let Some(process) = child.running_mut() else {
                continue;
            };
            process.output.forward(self.output.as_fd());
            for status in process.read_statuses() {
                process.alive_at = now;
                if status == ChildStatus::Ready && process.ready_at.is_none() {
                    process.ready_at = Some(now);
                    became_ready = true;
                    tracing::info!(child = name, pid = process.pid.as_raw_nonzero(), "ready");
                }
                // Until it is ready, a child may be silent for as long as it needs.
                if process.ready_at.is_some() {
                    process.silence.broken(now);
                }
                reloaded |= status == ChildStatus::Reloaded;
            }
        }
        if reloaded {
            self.notify.ready("serving; settings reloaded");
        }
        if became_ready && self.children.iter().all(Child::is_ready) {
            self.notify.ready("serving");
            self.report_proven(true, events);
            if !std::mem::replace(&mut self.announced, true) {
                let failed = self.workers.as_ref().map(Fleet::failed).unwrap_or_default();
                events.ready(&failed);
            }
        }
    }

    fn reap(&mut self, now: Duration, events: &mut dyn Events) {
        for index in 0..self.children.len() {
            if let Some(exit) = self.children[index].reap(now, self.output.as_fd()) {
                self.report_proven(false, events);
                self.report(index, &exit, now);
            }
        }
    }

    fn report(&mut self, index: usize, exit: &ChildExit, now: Duration) {
        let name = self.children[index].spec.name.clone();
        let pid = exit.pid.as_raw_nonzero();
        let description = child::describe(exit.status);
        if self.stopping {
            self.killed |= !exit.status.success();
            tracing::info!(child = name, pid, "{description}");
            return;
        }
        match exit.verdict {
            RestartDecision::Restart { after, deaths_in_a_row } => {
                let wait_ms = after.as_millis();
                tracing::error!(
                    child = name,
                    pid,
                    wait_ms,
                    deaths_in_a_row,
                    "{description}; restarting"
                );
                self.notify.status(&format!("{name} {description}; restarting"));
            }
            RestartDecision::GiveUp { deaths_in_a_row } => {
                let reason = match exit.ready_for {
                    None if deaths_in_a_row == 1 => {
                        format!("{name} {description} before it was ready")
                    }
                    _ => format!(
                        "{name} {description}, {deaths_in_a_row} deaths in a row: crash loop"
                    ),
                };
                self.give_up(with_last_lines(&reason, &exit.last_lines), now);
            }
        }
    }

    /// Sends a sign of life to systemd while every running child has sent one itself.
    fn feed_watchdog(&mut self, now: Duration) {
        let (Some(due), Some(interval)) = (self.watchdog_at, self.notify.watchdog()) else {
            return;
        };
        if now < due {
            return;
        }
        let hangs = |child: &Child| {
            child.running().is_some_and(|process| {
                process.ready_at.is_some() && now.saturating_sub(process.alive_at) > interval
            })
        };
        if !self.children.iter().any(hangs) {
            self.notify.send_watchdog();
        }
        // systemd recommends half of the watchdog interval.
        self.watchdog_at = Some(now + interval / 2);
    }

    /// Sleeps until an event occurs or the next timer expires.
    fn sleep(&self, now: Duration) {
        let requests = self.requests.descriptor();
        let mut polled = vec![PollFd::new(&requests, PollFlags::IN)];
        let outputs_open = output::is_writable(self.output.as_fd());
        let mut output_waits = false;
        let running = self.children.iter().filter_map(Child::running);
        let processes: Vec<_> = running.chain(self.other_service_processes()).collect();
        let outputs: Vec<_> = processes.iter().map(|process| process.output.descriptor()).collect();
        let statuses: Vec<_> = processes.iter().filter_map(|process| process.status()).collect();
        polled.extend(statuses.iter().map(|status| PollFd::new(status, PollFlags::IN)));
        for (process, output) in processes.iter().zip(&outputs) {
            polled.push(PollFd::new(&process.pidfd, PollFlags::IN));
            if let Some(output) = output {
                output_waits = true;
                if outputs_open {
                    polled.push(PollFd::new(output, PollFlags::IN));
                }
            }
        }
        if self.poll_workers(&mut polled) || (output_waits && !outputs_open) {
            polled.push(PollFd::new(&self.output, PollFlags::OUT));
        }
        let deadlines = self.children.iter().filter_map(Child::wakes_at).chain(self.watchdog_at);
        let deadlines =
            deadlines.chain(self.workers_wake_at(now)).chain(self.other_services_wake_at()).min();
        let wait = deadlines.map(|time| timespec(time.saturating_sub(now)));
        match rustix::event::poll(&mut polled, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => tracing::error!(%error, "poll failed"),
        }
    }
}

pub(crate) fn with_last_lines(reason: &str, last_lines: &[String]) -> String {
    if last_lines.is_empty() {
        return reason.to_owned();
    }
    let lines: String = last_lines.iter().map(|line| format!("\n  | {line}")).collect();
    format!("{reason}; its last lines:{lines}")
}

fn timespec(duration: Duration) -> Timespec {
    // At most a day: the kernel rejects huge timeouts, and a wakeup a day costs nothing.
    let duration = duration.min(Duration::from_secs(24 * 60 * 60));
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
}
