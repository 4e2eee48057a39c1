//! A supervisor with groups of workers and, in the service's place, the test.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_supervisor::control::{
    self, ParentCommand, ParentReport, ParentRequest, Vacancy, VacantSlot, WorkerPhase,
    WorkerReport,
};
use weir_supervisor::notify::Notify;
use weir_supervisor::requests::{self, Requests, Sender};
use weir_supervisor::workers::{FailedGroup, Fleet, FleetLimits, GroupSpec, Readiness};
use weir_supervisor::{Events, RestartPolicy, SupervisionOutcome, Supervisor};

/// Long enough for any machine: it is reached only by a test that fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    requests: Sender,
    control: BufReader<UnixStream>,
    reports: VecDeque<ParentReport>,
    next_id: u64,
    thread: JoinHandle<SupervisionOutcome>,
    folder: tempfile::TempDir,
}

pub(crate) struct NoEvents;

impl Events for NoEvents {
    fn ready(&mut self, _: &[FailedGroup]) {}

    fn reload(&mut self) -> bool {
        true
    }
}

impl Rig {
    pub(crate) fn start(groups: Vec<GroupSpec>) -> Self {
        Self::start_below(tempfile::tempdir().expect("a folder"), groups)
    }

    /// With a budget, and overrides that are kept.
    pub(crate) fn start_within(groups: Vec<GroupSpec>, limits: FleetLimits) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let output = std::fs::File::create(folder.path().join("output")).expect("a file");
        Self::start_beside(folder, (groups, limits), output.into(), |_| {})
    }

    /// With its run folder below `folder`.
    pub(crate) fn start_below(folder: tempfile::TempDir, groups: Vec<GroupSpec>) -> Self {
        let output = std::fs::File::create(folder.path().join("output")).expect("a file");
        Self::start_in(folder, groups, output.into())
    }

    pub(crate) fn start_writing_to(groups: Vec<GroupSpec>, output: OwnedFd) -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), groups, output)
    }

    fn start_in(folder: tempfile::TempDir, groups: Vec<GroupSpec>, output: OwnedFd) -> Self {
        Self::start_beside(folder, (groups, FleetLimits::default()), output, |_| {})
    }

    /// With a service that reads nothing beside the test, and its end of the line.
    pub(crate) fn start_with_another_service(groups: Vec<GroupSpec>) -> (Self, UnixStream) {
        let folder = tempfile::tempdir().expect("a folder");
        let output = std::fs::File::create(folder.path().join("output")).expect("a file");
        let (test_end, child_end) = UnixStream::pair().expect("a pair");
        let groups = (groups, FleetLimits::default());
        let rig = Self::start_beside(folder, groups, output.into(), |fleet| {
            fleet.connect(child_end.into()).expect("connected");
        });
        (rig, test_end)
    }

    fn start_beside(
        folder: tempfile::TempDir,
        (groups, limits): (Vec<GroupSpec>, FleetLimits),
        output: OwnedFd,
        connect: impl FnOnce(&mut Fleet),
    ) -> Self {
        let (requests, source) = Requests::pipe().expect("a pipe");
        let (control, child_end) = UnixStream::pair().expect("a pair");
        control.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let fleet = Fleet::new(groups, &folder.path().join("run")).expect("sound");
        let mut fleet = fleet.with_limits(limits);
        fleet.connect(child_end.into()).expect("connected");
        connect(&mut fleet);
        let thread = std::thread::spawn(move || {
            Supervisor::new(Vec::new(), source, Notify::disabled(), output)
                .with_workers(fleet)
                .run(&mut NoEvents)
        });
        let (control, reports) = (BufReader::new(control), VecDeque::new());
        Self { requests, control, reports, next_id: 0, thread, folder }
    }

    fn read(&mut self) -> ParentReport {
        let mut line = String::new();
        self.control.read_line(&mut line).expect("a report");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn next(&mut self) -> ParentReport {
        self.reports.pop_front().unwrap_or_else(|| self.read())
    }

    /// The first thing that `find` finds in the reports to come.
    pub(crate) fn find<T>(&mut self, mut find: impl FnMut(&ParentReport) -> Option<T>) -> T {
        loop {
            let report = self.next();
            if let Some(found) = find(&report) {
                return found;
            }
        }
    }

    /// The next worker of `slot` that gets into `phase`.
    pub(crate) fn worker(&mut self, slot: u32, phase: &WorkerPhase) -> WorkerReport {
        self.find(|report| match report {
            ParentReport::Worker(state) if state.slot == slot && state.phase == *phase => {
                Some(state.clone())
            }
            _ => None,
        })
    }

    pub(crate) fn ready(&mut self, slot: u32) -> WorkerReport {
        self.worker(slot, &WorkerPhase::Ready)
    }

    /// The first workers that get ready in slots 0 to `count`.
    pub(crate) fn all_ready(&mut self, count: u32) -> Vec<WorkerReport> {
        let mut ready = std::collections::BTreeMap::new();
        while ready.len() < count as usize {
            let state = self.find(|report| match report {
                ParentReport::Worker(state) if state.phase == WorkerPhase::Ready => {
                    Some(state.clone())
                }
                _ => None,
            });
            ready.entry(state.slot).or_insert(state);
        }
        ready.into_values().collect()
    }

    /// How the next worker of `slot` ends: its state, status, reason and last lines.
    pub(crate) fn end(&mut self, slot: u32) -> (WorkerReport, String, Option<String>, Vec<String>) {
        self.find(|report| match report {
            ParentReport::Worker(state) if state.slot == slot => match &state.phase {
                WorkerPhase::Ended { status, reason, last_lines } => {
                    Some((state.clone(), status.clone(), reason.clone(), last_lines.clone()))
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// The next time that `slot` is vacant in a way that `matches` accepts.
    pub(crate) fn vacancy(&mut self, slot: u32, matches: impl Fn(&Vacancy) -> bool) -> Vacancy {
        self.find(|report| match report {
            ParentReport::Slot(VacantSlot { slot: it, vacancy: Some(vacancy), .. })
                if *it == slot && matches(vacancy) =>
            {
                Some(vacancy.clone())
            }
            _ => None,
        })
    }

    /// Sends `command`, waits for the answer; what comes before it is kept.
    pub(crate) fn command(&mut self, command: ParentCommand) -> Result<(), String> {
        self.next_id += 1;
        let request = ParentRequest { id: self.next_id, command };
        self.send(&control::encode(&request).expect("encoded"));
        loop {
            match self.read() {
                ParentReport::Done { id, .. } if id == self.next_id => return Ok(()),
                ParentReport::Refused { id: Some(id), reason } if id == self.next_id => {
                    return Err(reason);
                }
                other => self.reports.push_back(other),
            }
        }
    }

    /// Whether a report that came before the last answer, and was not looked at yet, is such a one.
    pub(crate) fn has_seen(&self, matches: impl Fn(&ParentReport) -> bool) -> bool {
        self.reports.iter().any(matches)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.control.get_mut().write_all(bytes).expect("sent");
    }

    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("output")).expect("read")
    }

    pub(crate) fn stop(&self) {
        self.requests.send(requests::ControlRequest::Stop).expect("sent");
    }

    pub(crate) fn outcome(self) -> (SupervisionOutcome, tempfile::TempDir) {
        drop(self.control);
        (self.thread.join().expect("the loop ended"), self.folder)
    }

    /// Stops everything; nobody may have to be killed.
    pub(crate) fn stop_cleanly(self) {
        self.stop();
        let (outcome, folder) = self.outcome();
        assert_eq!(outcome, SupervisionOutcome::Stopped);
        let groups = std::fs::read_dir(folder.path().join("run")).expect("a folder");
        let groups: Vec<PathBuf> = groups.map(|group| group.expect("one").path()).collect();
        assert!(!groups.is_empty());
        for group in groups {
            let left = std::fs::read_dir(group).expect("a folder");
            assert_eq!(left.count(), 0, "sockets are left in the run folder");
        }
    }
}

/// A group called `shop`.
pub(crate) fn shop(command: &[&str]) -> GroupSpec {
    let command = command.iter().map(|&argument| argument.to_owned()).collect();
    let mut spec = GroupSpec::new("shop".parse().expect("a name"), command);
    spec.start_deadline = Duration::from_secs(3600);
    spec.stop_deadline = Duration::from_secs(3600);
    spec.retry_after = Duration::from_secs(3600);
    spec.restart = RestartPolicy {
        backoff_min: Duration::from_millis(1),
        backoff_max: Duration::from_millis(5),
        restarts_max: 3,
        healthy_after: Duration::from_secs(3600),
    };
    spec
}

/// The same, running a shell script that says `up` when it is ready.
pub(crate) fn script(text: &str) -> GroupSpec {
    let mut spec = shop(&["/bin/sh", "-c", text]);
    spec.readiness = Readiness::Line("up".into());
    spec
}

/// The same, running a Python program from `tests/workers`.
pub(crate) fn python(program: &str, arguments: &[&str]) -> GroupSpec {
    let path = path_of(program);
    let command: Vec<&str> =
        ["python3", path.to_str().expect("text")].into_iter().chain(arguments.to_vec()).collect();
    let mut spec = shop(&command);
    spec.readiness = Readiness::Line("listening".into());
    spec
}

pub(crate) fn path_of(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workers").join(program)
}

/// Asks over an open connection which process answers.
pub(crate) fn read_pid(mut connection: impl Read + Write) -> std::io::Result<i32> {
    connection.write_all(b"?")?;
    let mut reply = String::new();
    connection.read_to_string(&mut reply)?;
    reply.trim().parse().map_err(|_| std::io::ErrorKind::UnexpectedEof.into())
}

/// Kills `pid` as nobody can prevent.
pub(crate) fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
}

/// Waits, for a bounded number of looks, until `is_so`.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never came: {what}");
}

/// Whether `pid` runs; a zombie doesn't.
pub(crate) fn runs(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}
