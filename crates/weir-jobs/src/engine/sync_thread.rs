//! The thread that waits for the disk, so that the serving thread never has to.
//!
//! A request made while a sync runs is completed by the next one, which all such requests share
//! (group commit).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;
use weir_base::clock::Clock;
use weir_log::{Disk, Lsn, SyncError, Syncer, Upkeep};

use crate::metrics::JobsMetrics;

/// How often a full disk is retried.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Number of sync durations that are stored for the percentiles in the console.
const TIMES_KEPT: usize = 1024;

/// What was requested of the thread, in ascending urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncRequest {
    Nothing,
    /// A sync within [`Pace::lazy_wait`].
    Soon,
    Now,
    Stop,
}

/// The state shared by both threads.
#[derive(Debug)]
struct SyncState {
    wanted: Mutex<SyncRequest>,
    changed: Condvar,
    /// The position up to which the log is durable.
    durable: AtomicU64,
    /// The error of the last sync.
    problem: Mutex<Option<SyncError>>,
    /// The error of the last upkeep.
    upkeep: Mutex<Option<SyncError>>,
    /// The serving thread can't continue before the next upkeep.
    held_up: AtomicBool,
    /// Notifies the serving thread that a round has ended.
    finished: Arc<Notify>,
    times: Mutex<Vec<f64>>,
}

/// A running sync thread. Dropping it without [`SyncThread::stop`] does not wait for its end.
#[derive(Debug)]
pub(crate) struct SyncThread {
    shared: Arc<SyncState>,
    thread: Option<JoinHandle<()>>,
}

/// How long requests wait before a sync starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long a lazy request may wait for others to join.
    pub(crate) lazy_wait: Duration,
    /// How long an urgent request waits for others to join.
    pub(crate) gather_wait: Duration,
}

impl SyncThread {
    /// Starts the thread.
    pub(crate) fn start<D: Disk>(
        syncer: Syncer<D>,
        pace: Pace,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(SyncState {
            wanted: Mutex::new(SyncRequest::Nothing),
            changed: Condvar::new(),
            durable: AtomicU64::new(syncer.durable().0),
            problem: Mutex::new(None),
            upkeep: Mutex::new(None),
            held_up: AtomicBool::new(false),
            finished: Arc::new(Notify::new()),
            times: Mutex::new(Vec::new()),
        });
        let worker =
            SyncWorker { shared: Arc::clone(&shared), syncer, pace, clock, metrics, nth: 0 };
        let builder = std::thread::Builder::new().name("weir-jobs-sync".to_owned());
        let thread = builder.spawn(move || worker.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Requests a sync at once.
    pub(crate) fn request(&self) {
        self.shared.want(SyncRequest::Now);
    }

    /// Requests a sync and upkeep at once, and a notification after both, because the log has no
    /// space for the next record.
    pub(crate) fn request_room(&self) {
        self.shared.held_up.store(true, Ordering::Release);
        self.shared.want(SyncRequest::Now);
    }

    /// Like [`SyncThread::request_room`], but for a full disk: while the thread retries that at intervals, no
    /// earlier than it does.
    pub(crate) fn request_space(&self) {
        self.shared.held_up.store(true, Ordering::Release);
        if !self.shared.has_problem() {
            self.shared.want(SyncRequest::Now);
        }
    }

    /// Requests a sync within the lazy wait.
    pub(crate) fn request_soon(&self) {
        self.shared.want(SyncRequest::Soon);
    }

    /// Returns the position up to which the log is durable.
    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.shared.durable.load(Ordering::Acquire))
    }

    /// Returns the error of the last round.
    pub(crate) fn problem(&self) -> Option<SyncError> {
        locked(&self.shared.problem).clone()
    }

    /// Returns the notification that a round has ended. Only one task may wait for it.
    pub(crate) fn finished(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.finished)
    }

    /// Returns the median and the 99th percentile of recent syncs, in seconds.
    pub(crate) fn percentiles(&self) -> (f64, f64) {
        let mut times = locked(&self.shared.times).clone();
        times.sort_unstable_by(f64::total_cmp);
        let at = |hundredths: usize| times.get(times.len() * hundredths / 100).copied();
        (at(50).unwrap_or(0.0), at(99).unwrap_or(0.0))
    }

    /// Stops the thread after a last sync, and waits for its end.
    pub(crate) fn stop(&mut self) {
        self.shared.want(SyncRequest::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the jobs log's sync thread has panicked");
        }
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.shared.want(SyncRequest::Stop);
    }
}

impl SyncState {
    /// Raises the requested level. A lower request never replaces a higher one.
    fn want(&self, wish: SyncRequest) {
        let mut wanted = locked(&self.wanted);
        if *wanted as u8 >= wish as u8 {
            return;
        }
        *wanted = wish;
        self.changed.notify_one();
    }

    /// Returns whether the last error is retried without a request: a full disk is, a failed sync
    /// is not.
    fn has_problem(&self) -> bool {
        let retried = |problem: &Mutex<Option<SyncError>>| {
            let problem = locked(problem);
            matches!(*problem, Some(SyncError::NoSpace | SyncError::Upkeep { .. }))
        };
        retried(&self.problem) || retried(&self.upkeep)
    }
}

struct SyncWorker<D: Disk> {
    shared: Arc<SyncState>,
    syncer: Syncer<D>,
    pace: Pace,
    clock: Clock,
    metrics: JobsMetrics,
    nth: usize,
}

impl<D: Disk> SyncWorker<D> {
    fn run(mut self) {
        loop {
            let stop = self.wait();
            if !stop && !self.pace.gather_wait.is_zero() {
                // This is the purpose of `gather_wait`: others may join this sync.
                std::thread::sleep(self.pace.gather_wait);
            }
            self.round();
            if stop {
                return;
            }
        }
    }

    /// Waits until a sync is requested. Returns true if it is the last one.
    fn wait(&self) -> bool {
        let mut wanted = locked(&self.shared.wanted);
        loop {
            match *wanted {
                SyncRequest::Stop => return true,
                SyncRequest::Now => break,
                SyncRequest::Soon => {
                    let changed = &self.shared.changed;
                    let (again, timeout) = changed
                        .wait_timeout_while(wanted, self.pace.lazy_wait, |w| {
                            *w == SyncRequest::Soon
                        })
                        .unwrap_or_else(PoisonError::into_inner);
                    wanted = again;
                    if timeout.timed_out() {
                        break;
                    }
                }
                SyncRequest::Nothing if self.shared.has_problem() => {
                    let changed = &self.shared.changed;
                    let (again, _) = changed
                        .wait_timeout_while(wanted, RETRY_INTERVAL, |w| *w == SyncRequest::Nothing)
                        .unwrap_or_else(PoisonError::into_inner);
                    wanted = again;
                    if *wanted == SyncRequest::Nothing {
                        break;
                    }
                }
                SyncRequest::Nothing => {
                    let changed = &self.shared.changed;
                    wanted = changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        *wanted = SyncRequest::Nothing;
        false
    }

    fn round(&mut self) {
        let started = self.clock.now();
        let result = self.syncer.sync();
        self.note_time(self.clock.now().since(started).as_secs_f64());
        self.publish(result.err());
        // Allocation and deletion may take long. Tasks that waited for the sync were notified
        // before, those that wait for space are notified after the next step, and a requested sync
        // takes precedence over the remaining upkeep.
        while self.maintain() == Upkeep::More && !self.is_wanted() {}
    }

    fn maintain(&self) -> Upkeep {
        let upkeep = self.syncer.maintain_some();
        let left = upkeep.as_ref().map_or(Upkeep::Done, |left| *left);
        match upkeep {
            Err(poison @ SyncError::Poisoned(_)) => self.publish(Some(poison)),
            upkeep => self.note_upkeep(upkeep.err()),
        }
        left
    }

    fn is_wanted(&self) -> bool {
        !matches!(*locked(&self.shared.wanted), SyncRequest::Nothing)
    }

    /// Records the error of the upkeep. Synced data is durable even without space for the next
    /// segment, so no wait fails.
    fn note_upkeep(&self, problem: Option<SyncError>) {
        note(&self.shared.upkeep, problem);
        if self.shared.held_up.swap(false, Ordering::AcqRel) {
            self.announce();
        }
    }

    fn publish(&self, problem: Option<SyncError>) {
        note(&self.shared.problem, problem);
        self.announce();
    }

    fn announce(&self) {
        self.shared.durable.store(self.syncer.durable().0, Ordering::Release);
        self.shared.finished.notify_one();
    }

    fn note_time(&mut self, seconds: f64) {
        self.metrics.observe_sync(seconds);
        let mut times = locked(&self.shared.times);
        if times.len() < TIMES_KEPT {
            times.push(seconds);
        } else {
            times[self.nth % TIMES_KEPT] = seconds;
        }
        self.nth += 1;
    }
}

/// Stores the last error, and logs it if it differs from the one before.
fn note(last: &Mutex<Option<SyncError>>, problem: Option<SyncError>) {
    let mut last = locked(last);
    if let Some(problem) = &problem
        && last.as_ref().map(ToString::to_string) != Some(problem.to_string())
    {
        tracing::error!(%problem, "the jobs log has a problem");
    }
    *last = problem;
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
