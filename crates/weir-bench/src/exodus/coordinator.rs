//! Simulates the work of the jobs for all worker processes, and measures how long jobs wait.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::database::Database;
use super::flags::ExodusFlags;
use super::load::{ArrivingJob, Load, QUEUES, Work};
use super::producer::{Producer, RunningProducer};
use super::worker::REPORT_BYTES;
use crate::clock::monotonic;
use crate::weir_process::{POLL_INTERVAL, START_TIMEOUT};

/// Processes are checked this often.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Each thread only reads reports.
const READER_STACK_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Coordinator<'run> {
    listener: UnixListener,
    path: PathBuf,
    load: &'run Load,
    flags: &'run ExodusFlags,
}

/// A worker thread has fetched a job.
#[derive(Debug)]
struct Report {
    worker: usize,
    number: u64,
    /// On the monotonic clock.
    fetched: Duration,
}

impl<'run> Coordinator<'run> {
    pub(super) fn bind(folder: &Path, load: &'run Load, flags: &'run ExodusFlags) -> Result<Self> {
        let path = folder.join("coordinator.sock");
        let listener = UnixListener::bind(&path).context("the socket of the coordinator")?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path, load, flags })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until so many worker threads have connected.
    pub(super) fn accept(
        self,
        count: u64,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<Run<'run>> {
        let deadline = monotonic() + START_TIMEOUT;
        let (sender, reports) = channel();
        let mut workers = Vec::new();
        while (workers.len() as u64) < count {
            check()?;
            ensure!(monotonic() < deadline, "{} of {count} worker threads connect", workers.len());
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    read_reports(workers.len(), stream.try_clone()?, sender.clone())?;
                    workers.push(stream);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(POLL_INTERVAL);
                }
                Err(error) => return Err(error).context("accepting worker threads"),
            }
        }
        Ok(Run::new(self.load, self.flags, workers, reports))
    }
}

fn read_reports(worker: usize, mut stream: UnixStream, sender: Sender<Report>) -> Result<()> {
    let read = move || {
        let mut bytes = [0; REPORT_BYTES];
        // A worker that has ended is noticed as a process.
        while stream.read_exact(&mut bytes).is_ok() {
            let (number, fetched) = bytes.split_at(8);
            let decode = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            let fetched = Duration::from_nanos(decode(fetched));
            if sender.send(Report { worker, number: decode(number), fetched }).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().stack_size(READER_STACK_BYTES).spawn(read)?;
    Ok(())
}

/// What a run has shown. Times are those of the run, not scaled back.
#[derive(Debug)]
pub(super) struct Outcome {
    /// For each queue how long each job waited that arrived during the run; a job that was not served counts with
    /// its age.
    pub(super) waits: Vec<Vec<Duration>>,
    pub(super) unserved: u64,
    pub(super) is_drained: bool,
    pub(super) seconds: Duration,
    pub(super) done: u64,
    /// Jobs that were fetched more than once.
    pub(super) repeated: u64,
    /// Time that jobs were in the database, over the time that they would have been alone.
    pub(super) slowdown: f64,
}

/// A job in progress.
#[derive(Debug)]
struct RunningJob {
    worker: usize,
    work: Work,
    /// When it entered the database.
    database_since: Duration,
}

#[derive(Debug)]
pub(super) struct Run<'run> {
    load: &'run Load,
    flags: &'run ExodusFlags,
    workers: Vec<UnixStream>,
    reports: Receiver<Report>,
    /// Start of the run on the monotonic clock; all other times are since then.
    start: Duration,
    /// Ends of the time that jobs take outside of the database.
    own_time: BinaryHeap<Reverse<(Duration, u64)>>,
    database: Database,
    running: HashMap<u64, RunningJob>,
    /// Whether each job was fetched, by its number.
    fetched: Vec<bool>,
    arrivals: Vec<ArrivingJob>,
    outcome: Outcome,
    database_time: Duration,
    database_work: Duration,
}

impl<'run> Run<'run> {
    fn new(
        load: &'run Load,
        flags: &'run ExodusFlags,
        workers: Vec<UnixStream>,
        reports: Receiver<Report>,
    ) -> Self {
        let outcome = Outcome {
            waits: vec![Vec::new(); QUEUES.len()],
            unserved: 0,
            is_drained: false,
            seconds: Duration::ZERO,
            done: 0,
            repeated: 0,
            slowdown: 1.0,
        };
        Self {
            load,
            flags,
            workers,
            reports,
            start: Duration::ZERO,
            own_time: BinaryHeap::new(),
            database: Database::new(flags.database_sessions),
            running: HashMap::new(),
            fetched: Vec::new(),
            arrivals: Vec::new(),
            outcome,
            database_time: Duration::ZERO,
            database_work: Duration::ZERO,
        }
    }

    /// Runs until the backlog is drained or the time is over.
    pub(super) fn run(
        mut self,
        producer: Producer,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<Outcome> {
        // Everything in the backlog is late.
        let target_most = QUEUES.iter().map(|queue| queue.target).fold(0.0, f64::max);
        std::thread::sleep(Duration::from_secs_f64(target_most / self.flags.time_scale));
        self.start = monotonic();
        let producer = producer.start(self.start)?;
        for worker in &mut self.workers {
            worker.write_all(&[0]).context("starting a worker thread")?;
        }
        let most = Duration::from_secs_f64(self.flags.hours_max * 3_600.0 / self.flags.time_scale);
        let mut next_check = CHECK_INTERVAL;
        let mut now = Duration::ZERO;
        while now < most && !self.note_drained(&producer) {
            self.receive(now.max(self.next_end().min(next_check)) - now)?;
            now = monotonic() - self.start;
            self.end_work(now)?;
            if now >= next_check {
                check()?;
                producer.check_running()?;
                next_check = now + CHECK_INTERVAL;
            }
        }
        let arrived = producer.stop()?;
        Ok(self.finish(now, arrived))
    }

    /// Returns whether only so many jobs are left as the workers run at once.
    fn note_drained(&mut self, producer: &RunningProducer) -> bool {
        let left = self.load.backlog() + producer.arrived() - self.outcome.done;
        self.outcome.is_drained = left <= self.flags.workers();
        self.outcome.is_drained
    }

    /// Receives reports, and waits for the first for at most so long.
    fn receive(&mut self, timeout: Duration) -> Result<()> {
        match self.reports.recv_timeout(timeout) {
            Ok(report) => self.begin(&report)?,
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(error) => {
                return Err(error).context("the connections of all worker threads have ended");
            }
        }
        while let Ok(report) = self.reports.try_recv() {
            self.begin(&report)?;
        }
        Ok(())
    }

    fn begin(&mut self, report: &Report) -> Result<()> {
        let Report { worker, number, fetched } = *report;
        let place = usize::try_from(number)?;
        if self.fetched.len() <= place {
            self.fetched.resize(place + 1, false);
        }
        if std::mem::replace(&mut self.fetched[place], true) {
            self.outcome.repeated += 1;
        }
        let fetched = fetched.saturating_sub(self.start);
        let queue = match self.load.backlog_queue(number) {
            Some(queue) => queue,
            None => {
                let job = self.arrival(number)?;
                self.outcome.waits[job.queue].push(fetched.saturating_sub(job.at));
                job.queue
            }
        };
        let work = self.load.work(queue, number);
        self.own_time.push(Reverse((fetched + work.own, number)));
        self.running.insert(number, RunningJob { worker, work, database_since: fetched });
        Ok(())
    }

    /// Returns a job that arrives.
    fn arrival(&mut self, number: u64) -> Result<ArrivingJob> {
        let place = usize::try_from(number - self.load.backlog())?;
        if self.arrivals.len() <= place {
            // Twice as many, so that this is rare.
            self.arrivals = self.load.arrivals().take((place + 1) * 2).collect();
        }
        Ok(self.arrivals[place])
    }

    fn next_end(&self) -> Duration {
        let own_time = self.own_time.peek().map(|Reverse((at, _))| *at);
        let ends = own_time.into_iter().chain(self.database.next_end());
        ends.min().unwrap_or(Duration::MAX)
    }

    /// Lets jobs enter the database and end that are due, in the order of time.
    fn end_work(&mut self, now: Duration) -> Result<()> {
        loop {
            let entering = self.own_time.peek().map_or(Duration::MAX, |Reverse((at, _))| *at);
            if let Some((number, end)) = self.database.pop_ended(entering.min(now)) {
                self.end_job(number, end)?;
                continue;
            }
            if entering > now {
                return Ok(());
            }
            let Some(Reverse((at, number))) = self.own_time.pop() else { return Ok(()) };
            if let Some(job) = self.running.get_mut(&number) {
                job.database_since = at;
                self.database.begin(number, job.work.database, at);
            }
        }
    }

    fn end_job(&mut self, number: u64, end: Duration) -> Result<()> {
        let Some(job) = self.running.remove(&number) else { return Ok(()) };
        self.database_time += end.saturating_sub(job.database_since);
        self.database_work += job.work.database;
        self.outcome.done += 1;
        self.workers[job.worker].write_all(&[0]).context("ending the work of a job")
    }

    fn finish(mut self, now: Duration, arrived: u64) -> Outcome {
        for (place, job) in
            self.load.arrivals().take(usize::try_from(arrived).unwrap_or(0)).enumerate()
        {
            let number = usize::try_from(self.load.backlog()).unwrap_or(usize::MAX) + place;
            if !self.fetched.get(number).copied().unwrap_or(false) {
                self.outcome.waits[job.queue].push(now.saturating_sub(job.at));
                self.outcome.unserved += 1;
            }
        }
        self.outcome.seconds = now;
        if !self.database_work.is_zero() {
            let time = self.database_time.as_secs_f64();
            self.outcome.slowdown = time / self.database_work.as_secs_f64();
        }
        self.outcome
    }
}
