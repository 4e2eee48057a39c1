//! The registry of worker processes: their profiles, last heartbeats and directives.
//!
//! A state only moves from running to quiet to terminate. A worker that sends no heartbeat for
//! `limits.heartbeat_timeout` is reaped: its connections are closed, and only then do its
//! reservations return. Closing a connection affects none of this.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::faktory::{Signal, SignalLevel};
use crate::model::{QueueName, Wid, WorkerDirective, WorkerEnd};
use crate::store::WorkerReport;
use crate::view;

/// Returns the signal of a worker's connections under a directive.
const fn signal_level(directive: WorkerDirective) -> SignalLevel {
    match directive {
        WorkerDirective::Running => SignalLevel::Serve,
        WorkerDirective::Quiet | WorkerDirective::Terminate => SignalLevel::Quiet,
    }
}

/// What a worker process reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) hostname: String,
    pub(crate) pid: u64,
    pub(crate) labels: Vec<String>,
    pub(crate) rss_kb: u64,
    /// It understands `cancel` in the reply to a BEAT.
    pub(crate) can_cancel: bool,
}

/// All worker processes that send heartbeats.
#[derive(Debug, Default)]
pub(crate) struct WorkerRegistry {
    by_wid: HashMap<Wid, RegisteredWorker>,
    /// Workers whose latest BEAT has not been shared with the other nodes of the store.
    unshared_beats: HashSet<Wid>,
}

#[derive(Debug)]
struct RegisteredWorker {
    profile: Profile,
    started: Timestamp,
    last_beat: Timestamp,
    state: WorkerDirective,
    connections: Vec<WorkerConnection>,
    /// How its last connection ended. `None`: it has not connected since this server started.
    last_end: Option<ConnectionEnd>,
    /// The maximum number of queues to show: the setting at the last change of its queues.
    queues_kept_max: usize,
}

impl RegisteredWorker {
    fn new(now: Timestamp) -> Self {
        Self {
            profile: Profile::default(),
            started: now,
            last_beat: now,
            state: WorkerDirective::Running,
            connections: Vec::new(),
            last_end: None,
            queues_kept_max: 0,
        }
    }

    /// Returns whether its last connection was cut while it ran, and it has not returned.
    fn is_lost(&self) -> bool {
        self.connections.is_empty() && self.end() == WorkerEnd::Killed
    }

    /// Returns how a worker ended that sends no heartbeat. A process that was asked to stop, that said so itself, or
    /// whose last connection ended with END, was not killed by a job. Of one that did not connect since this server
    /// started, nothing is known: it may have ended with the server before.
    fn end(&self) -> WorkerEnd {
        let was_cut = self.last_end == Some(ConnectionEnd::Cut) || !self.connections.is_empty();
        match self.state {
            WorkerDirective::Running if was_cut => WorkerEnd::Killed,
            _ => WorkerEnd::Stopped,
        }
    }
}

/// What a HELLO says about the process that had its wid before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HelloOutcome {
    /// There was none, or it is the same one, or that is not known.
    Registered,
    /// It is another process. The earlier one ended so, and its jobs must be released.
    Replaced(WorkerEnd),
}

/// How a connection of a worker ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// Without END.
    #[default]
    Cut,
    /// With END.
    Orderly,
}

/// One connection of a worker process.
#[derive(Debug)]
struct WorkerConnection {
    signal: Rc<Signal>,
    /// The first queues of its last FETCH.
    queues: Box<[QueueName]>,
    /// The number of queues in its last FETCH.
    queues_total: usize,
}

/// The error for a new worker when `limits.workers_max` workers are registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyWorkers;

impl WorkerRegistry {
    /// Registers a connection after HELLO, as a new worker or for a known one. Another process may restart under the same
    /// wid: it has another process id. Returns an error if a new worker would exceed `workers_max`.
    pub(crate) fn hello(
        &mut self,
        wid: &Wid,
        profile: Profile,
        signal: Rc<Signal>,
        now: Timestamp,
        workers_max: usize,
    ) -> Result<HelloOutcome, TooManyWorkers> {
        if !self.by_wid.contains_key(wid) && self.by_wid.len() >= workers_max {
            return Err(TooManyWorkers);
        }
        let worker = self.by_wid.entry(wid.clone()).or_insert_with(|| RegisteredWorker::new(now));
        let mut outcome = HelloOutcome::Registered;
        if worker.connections.is_empty() {
            let (before, pid) = (worker.profile.pid, profile.pid);
            if before != 0 && pid != 0 && before != pid {
                outcome = HelloOutcome::Replaced(worker.end());
            }
            // A new process. One that received `terminate` may restart at once with the same wid.
            worker.profile = profile;
            worker.started = now;
            worker.state = WorkerDirective::Running;
        }
        worker.last_beat = worker.last_beat.max(now);
        worker.last_end = Some(ConnectionEnd::Cut);
        signal.give(signal_level(worker.state));
        worker.connections.push(WorkerConnection {
            signal,
            queues: Box::default(),
            queues_total: 0,
        });
        Ok(outcome)
    }

    /// Registers a worker that had jobs before the server started. If it has ended as well, it sends no heartbeat and is
    /// reaped.
    pub(crate) fn expect(&mut self, wid: &Wid, now: Timestamp) {
        self.by_wid.entry(wid.clone()).or_insert_with(|| RegisteredWorker::new(now));
    }

    /// Records that a connection fetches from other queues than before; stores the first
    /// `kept_max`.
    pub(crate) fn record_queues(
        &mut self,
        wid: &Wid,
        signal: &Rc<Signal>,
        queues: &[QueueName],
        kept_max: usize,
    ) {
        let Some(worker) = self.by_wid.get_mut(wid) else {
            return;
        };
        worker.queues_kept_max = kept_max;
        let asking = worker.connections.iter_mut().find(|known| Rc::ptr_eq(&known.signal, signal));
        if let Some(connection) = asking {
            connection.queues = queues.iter().take(kept_max).cloned().collect();
            connection.queues_total = queues.len();
        }
    }

    /// Removes a closed connection. The worker stays registered until it is reaped.
    pub(crate) fn disconnect(&mut self, wid: &Wid, signal: &Rc<Signal>, end: ConnectionEnd) {
        if let Some(worker) = self.by_wid.get_mut(wid) {
            worker.last_end = Some(end);
            worker.connections.retain(|known| !Rc::ptr_eq(&known.signal, signal));
        }
    }

    /// Records a heartbeat, and the worker's own state if it sent one. Returns the resulting state,
    /// or `None` if the worker is unknown.
    pub(crate) fn beat(
        &mut self,
        wid: &str,
        own_state: Option<WorkerDirective>,
        rss_kb: Option<u64>,
        now: Timestamp,
    ) -> Option<WorkerDirective> {
        let worker = self.by_wid.get_mut(wid)?;
        worker.last_beat = worker.last_beat.max(now);
        worker.profile.rss_kb = rss_kb.unwrap_or(worker.profile.rss_kb);
        worker.advance(own_state.unwrap_or_default());
        let state = worker.state;
        if !self.unshared_beats.contains(wid) {
            self.unshared_beats.insert(Wid::new(wid));
        }
        Some(state)
    }

    /// Removes the workers whose latest BEAT has not been shared, and returns how long ago each sent it.
    pub(crate) fn take_unshared_beats(&mut self, now: Timestamp) -> Vec<(Wid, Duration)> {
        let wids = std::mem::take(&mut self.unshared_beats).into_iter();
        let age = |wid: &Wid| Some(now.since(self.by_wid.get(wid)?.last_beat));
        wids.filter_map(|wid| age(&wid).map(|age| (wid, age))).collect()
    }

    /// Adds workers whose BEAT could not be shared.
    pub(crate) fn restore_unshared_beats(&mut self, wids: impl IntoIterator<Item = Wid>) {
        self.unshared_beats.extend(wids);
    }

    /// Returns the workers that have sent no BEAT to this node for `timeout`.
    pub(crate) fn overdue(&self, now: Timestamp, timeout: Duration) -> Vec<Wid> {
        let overdue = self.by_wid.iter().filter(|(_, worker)| worker.last_beat + timeout <= now);
        overdue.map(|(wid, _)| wid.clone()).collect()
    }

    /// Records that a worker sent a BEAT to another node.
    pub(crate) fn record_remote_beat(&mut self, wid: &Wid, at: Timestamp) {
        if let Some(worker) = self.by_wid.get_mut(wid) {
            worker.last_beat = worker.last_beat.max(at);
        }
    }

    /// Sends a directive to one worker, or to all. Returns the number of workers.
    pub(crate) fn send_directive(&mut self, wid: Option<&str>, state: WorkerDirective) -> u64 {
        let mut told = 0;
        for (known, worker) in &mut self.by_wid {
            if wid.is_none_or(|wid| wid == known.as_str()) {
                worker.advance(state);
                told += 1;
            }
        }
        told
    }

    /// Returns the host and the process id of a worker, and whether it understands `cancel`.
    pub(crate) fn cancelling(&self, wid: &Wid) -> Option<(String, bool)> {
        let Profile { hostname, pid, can_cancel, .. } = &self.by_wid.get(wid)?.profile;
        Some((format!("{hostname} pid {pid}"), *can_cancel))
    }

    /// Returns whether a worker understands `cancel`.
    pub(crate) fn can_cancel(&self, wid: &str) -> bool {
        self.by_wid.get(wid).is_some_and(|worker| worker.profile.can_cancel)
    }

    /// Returns whether a worker's last connection was cut while it ran, and it has not returned.
    pub(crate) fn is_lost(&self, wid: &Wid) -> bool {
        self.by_wid.get(wid).is_some_and(RegisteredWorker::is_lost)
    }

    /// Lets all workers live on as if they had sent a heartbeat `now`: theirs may be in their sockets.
    pub(crate) fn renew(&mut self, now: Timestamp) {
        for worker in self.by_wid.values_mut() {
            worker.last_beat = worker.last_beat.max(now);
        }
    }

    /// Returns when the next worker is due to be reaped, if it sends no heartbeat until then.
    pub(crate) fn next_reap(&self, timeout: Duration) -> Option<Timestamp> {
        self.by_wid.values().map(|worker| worker.last_beat + timeout).min()
    }

    /// Removes the workers that sent no heartbeat for `timeout`, and closes their connections. The
    /// caller must release the reservations that they have now: they may return at once.
    pub(crate) fn reap(&mut self, now: Timestamp, timeout: Duration) -> Vec<(Wid, WorkerEnd)> {
        let gone = self.by_wid.extract_if(|_, worker| worker.last_beat + timeout <= now);
        gone.map(|(wid, worker)| {
            worker.connections.iter().for_each(|it| it.signal.give(SignalLevel::Close));
            (wid, worker.end())
        })
        .collect()
    }

    /// Returns the number of workers.
    pub(crate) fn len(&self) -> usize {
        self.by_wid.len()
    }

    /// Returns what other nodes may know about all workers. `busy` returns the number of jobs that a
    /// worker has reserved.
    pub(crate) fn reports(&self, busy: impl Fn(&Wid) -> u64) -> Vec<WorkerReport> {
        self.by_wid.iter().map(|(wid, worker)| worker.report(wid, busy(wid))).collect()
    }

    /// Returns all workers in the order of their start. `busy` returns the number of jobs that a
    /// worker has reserved.
    pub(crate) fn view(&self, busy: impl Fn(&Wid) -> u64) -> Vec<view::JobWorkerView> {
        let mut workers: Vec<_> =
            self.by_wid.iter().map(|(wid, worker)| worker.view(wid, busy(wid))).collect();
        workers.sort_by(|a, b| a.started_at.total_cmp(&b.started_at).then(a.wid.cmp(&b.wid)));
        workers
    }
}

impl RegisteredWorker {
    fn advance(&mut self, state: WorkerDirective) {
        self.state = self.state.max(state);
        for connection in &self.connections {
            connection.signal.give(signal_level(self.state));
        }
    }

    /// Returns the queues of all connections, which mostly ask for the same ones.
    fn queues(&self) -> BTreeSet<&QueueName> {
        self.connections.iter().flat_map(|connection| &connection.queues).collect()
    }

    fn report(&self, wid: &Wid, busy: u64) -> WorkerReport {
        WorkerReport {
            wid: wid.clone(),
            hostname: self.profile.hostname.clone(),
            pid: self.profile.pid,
            labels: self.profile.labels.clone(),
            started: self.started,
            rss_kb: self.profile.rss_kb,
            queues: self.queues().into_iter().take(self.queues_kept_max).cloned().collect(),
            quiet: self.state != WorkerDirective::Running,
            busy,
        }
    }

    fn view(&self, wid: &Wid, busy: u64) -> view::JobWorkerView {
        let asked = self.queues();
        let most = self.connections.iter().map(|connection| connection.queues_total).max();
        let queues_total = asked.len().max(most.unwrap_or(0)) as u64;
        let shown = asked.into_iter().take(self.queues_kept_max);
        view::JobWorkerView {
            wid: wid.to_string(),
            hostname: self.profile.hostname.clone(),
            pid: self.profile.pid,
            labels: self.profile.labels.clone(),
            started_at: self.started.as_secs_f64(),
            last_beat_at: self.last_beat.as_secs_f64(),
            state: self.state.as_str().to_owned(),
            rss_kb: self.profile.rss_kb,
            connections: self.connections.len() as u64,
            busy,
            queues: shown.map(ToString::to_string).collect(),
            queues_total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectionEnd::{Cut, Orderly};
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn connect(workers: &mut WorkerRegistry, wid: &str, now: Timestamp) -> Rc<Signal> {
        let signal = Rc::new(Signal::default());
        let hello = workers.hello(&Wid::new(wid), Profile::default(), signal.clone(), now, 10);
        assert_eq!(hello, Ok(HelloOutcome::Registered));
        signal
    }

    #[test]
    fn a_state_only_moves_forward() {
        let mut workers = WorkerRegistry::default();
        let signal = connect(&mut workers, "w", at(0));
        let mut beat = |state| workers.beat("w", state, None, at(1));
        assert_eq!(beat(None), Some(WorkerDirective::Running));
        assert_eq!(beat(Some(WorkerDirective::Terminate)), Some(WorkerDirective::Terminate));
        assert_eq!(beat(Some(WorkerDirective::Quiet)), Some(WorkerDirective::Terminate));
        assert_eq!(beat(Some(WorkerDirective::Running)), Some(WorkerDirective::Terminate));
        assert_eq!(signal.order(), SignalLevel::Quiet);
        assert_eq!(connect(&mut workers, "w", at(2)).order(), SignalLevel::Quiet);
    }

    #[test]
    fn a_process_that_begins_anew_under_its_wid_is_not_told_to_end() {
        let mut workers = WorkerRegistry::default();
        let signal = connect(&mut workers, "w", at(0));
        workers.send_directive(Some("w"), WorkerDirective::Terminate);
        workers.disconnect(&Wid::new("w"), &signal, ConnectionEnd::Cut);
        assert_eq!(connect(&mut workers, "w", at(2)).order(), SignalLevel::Serve);
        assert_eq!(workers.beat("w", None, None, at(3)), Some(WorkerDirective::Running));
        let started_at = workers.view(|_| 0)[0].started_at;
        assert!((started_at - 2.0).abs() < 1e-9, "{started_at}");
    }

    #[test]
    fn another_process_under_a_wid_is_known_by_its_process_id() {
        let mut workers = WorkerRegistry::default();
        let wid = Wid::new("w");
        let mut hello = |pid, end| {
            let (profile, signal) = (Profile { pid, ..Profile::default() }, Rc::default());
            let outcome = workers.hello(&wid, profile, Rc::clone(&signal), at(0), 10).unwrap();
            assert!(!workers.is_lost(&wid), "it is connected");
            workers.disconnect(&wid, &signal, end);
            assert_eq!(workers.is_lost(&wid), end == Cut);
            outcome
        };
        let replaced = HelloOutcome::Replaced;
        assert_eq!(hello(1, Cut), HelloOutcome::Registered);
        assert_eq!(hello(1, Cut), HelloOutcome::Registered, "it has reconnected");
        assert_eq!(hello(2, Orderly), replaced(WorkerEnd::Killed));
        assert_eq!(hello(3, Cut), replaced(WorkerEnd::Stopped));
        // A client that does not send it, as all before a restart of the server.
        assert_eq!(hello(0, Cut), HelloOutcome::Registered);
        assert_eq!(hello(4, Cut), HelloOutcome::Registered);
        let (signal, profile) = (Rc::default(), Profile { pid: 4, ..Profile::default() });
        workers.hello(&wid, profile, Rc::clone(&signal), at(0), 10).unwrap();
        let beside = Profile { pid: 5, ..Profile::default() };
        let outcome = workers.hello(&wid, beside, Rc::default(), at(0), 10);
        assert_eq!(outcome, Ok(HelloOutcome::Registered), "the other one is connected");
        workers.beat("w", Some(WorkerDirective::Quiet), None, at(1));
        assert!(!workers.is_lost(&wid) && !workers.is_lost(&Wid::new("unknown")));
    }

    #[test]
    fn a_worker_is_reaped_exactly_when_its_beat_is_too_old() {
        let mut workers = WorkerRegistry::default();
        let early = connect(&mut workers, "early", at(0));
        let late = connect(&mut workers, "late", at(0));
        workers.beat("late", None, Some(7), at(1));
        assert_eq!(workers.next_reap(MINUTE), Some(at(60)));
        assert!(workers.reap(at(59), MINUTE).is_empty());
        assert_eq!(workers.reap(at(60), MINUTE), [(Wid::new("early"), WorkerEnd::Killed)]);
        assert_eq!((early.order(), late.order()), (SignalLevel::Close, SignalLevel::Serve));
        assert_eq!(workers.beat("early", None, None, at(60)), None);
        assert_eq!(workers.next_reap(MINUTE), Some(at(61)));
    }

    /// Opens as many connections as there are ends, and closes them in order.
    fn close(workers: &mut WorkerRegistry, wid: &Wid, ends: &[ConnectionEnd]) {
        let open: Vec<_> = ends.iter().map(|_| connect(workers, wid.as_str(), at(0))).collect();
        for (signal, end) in open.iter().zip(ends) {
            workers.disconnect(wid, signal, *end);
        }
    }

    #[test]
    fn only_a_worker_that_is_cut_off_while_it_runs_was_killed() {
        let end = |prepare: fn(&mut WorkerRegistry, &Wid)| {
            let (mut workers, wid) = (WorkerRegistry::default(), Wid::new("w"));
            workers.expect(&wid, at(0));
            prepare(&mut workers, &wid);
            let reaped = workers.reap(at(120), MINUTE);
            assert_eq!(reaped.len(), 1);
            reaped[0].1
        };
        let silent: fn(&mut WorkerRegistry, &Wid) = |workers, _| drop(connect(workers, "w", at(0)));
        assert_eq!(end(silent), WorkerEnd::Killed, "connected and silent");
        assert_eq!(end(|workers, wid| close(workers, wid, &[Orderly, Cut])), WorkerEnd::Killed);
        assert_eq!(end(|workers, wid| close(workers, wid, &[Cut, Orderly])), WorkerEnd::Stopped);
        let back: fn(&mut WorkerRegistry, &Wid) = |workers, wid| {
            close(workers, wid, &[Orderly]);
            close(workers, wid, &[Cut]);
        };
        assert_eq!(end(back), WorkerEnd::Killed, "it came back and was cut off");
        assert_eq!(end(|_, _| {}), WorkerEnd::Stopped, "known from before the start only");
        for state in [WorkerDirective::Quiet, WorkerDirective::Terminate] {
            let (mut workers, wid) = (WorkerRegistry::default(), Wid::new("w"));
            close(&mut workers, &wid, &[Cut]);
            workers.beat("w", Some(state), None, at(1));
            assert_eq!(workers.reap(at(120), MINUTE), [(wid, WorkerEnd::Stopped)]);
        }
    }

    #[test]
    fn a_closed_connection_leaves_the_worker_where_it_is() {
        let mut workers = WorkerRegistry::default();
        let signal = connect(&mut workers, "w", at(0));
        connect(&mut workers, "w", at(0));
        workers.disconnect(&Wid::new("w"), &signal, ConnectionEnd::Cut);
        let view = workers.view(|_| 3);
        assert_eq!((view[0].connections, view[0].busy), (1, 3));
        assert_eq!(workers.len(), 1);
    }

    #[test]
    fn a_worker_shows_what_all_its_connections_ask_for_within_the_limit() {
        let mut workers = WorkerRegistry::default();
        let wid = Wid::new("w");
        let (one, other) = (connect(&mut workers, "w", at(0)), connect(&mut workers, "w", at(0)));
        let names = |text: &str| -> Vec<QueueName> {
            let limits = crate::settings::JobServerLimits::default();
            text.split(' ').map(|name| QueueName::parse(name, &limits).unwrap()).collect()
        };
        let shown = |workers: &WorkerRegistry| {
            let view = workers.view(|_| 0).remove(0);
            (view.queues.join(" "), view.queues_total)
        };
        assert_eq!(shown(&workers), (String::new(), 0), "it has not asked yet");
        workers.record_queues(&wid, &one, &names("push default"), 3);
        workers.record_queues(&wid, &other, &names("default mail"), 3);
        assert_eq!(shown(&workers), ("default mail push".to_owned(), 3));
        workers.record_queues(&wid, &one, &names("a b c d"), 3);
        assert_eq!(shown(&workers), ("a b c".to_owned(), 5));
        workers.disconnect(&wid, &one, ConnectionEnd::Cut);
        assert_eq!(shown(&workers), ("default mail".to_owned(), 2));
    }

    #[test]
    fn telling_one_or_all_says_how_many() {
        let mut workers = WorkerRegistry::default();
        connect(&mut workers, "a", at(0));
        connect(&mut workers, "b", at(0));
        assert_eq!(workers.send_directive(Some("a"), WorkerDirective::Quiet), 1);
        assert_eq!(workers.send_directive(Some("nobody"), WorkerDirective::Quiet), 0);
        assert_eq!(workers.send_directive(None, WorkerDirective::Terminate), 2);
        assert!(workers.view(|_| 0).iter().all(|worker| worker.state == "terminate"));
    }

    #[test]
    fn one_worker_too_many_is_refused_but_not_one_more_connection() {
        let mut workers = WorkerRegistry::default();
        for number in 0..10 {
            connect(&mut workers, &format!("w{number}"), at(0));
        }
        connect(&mut workers, "w0", at(1));
        let signal = Rc::new(Signal::default());
        let hello = workers.hello(&Wid::new("w10"), Profile::default(), signal, at(1), 10);
        assert_eq!(hello, Err(TooManyWorkers));
    }
}
