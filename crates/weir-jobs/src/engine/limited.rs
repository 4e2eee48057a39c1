//! Reservations in the log: those of jobs under a limit, which must not run twice at once.
//!
//! Such a job is handed out only after the record of its reservation is durable, unless far fewer jobs run than the limit
//! allows ([`super::unrecorded`]). After a restart it is reserved again by the same worker, and counts until ACK, FAIL or
//! the end of its lease. A reservation has a kept record ([`super::kept`]) under the job's order in its queue: the job's
//! own record ends it when it is removed or moved, so ACK and FAIL need no record more. A job that waits again keeps its
//! order, so an empty record ends its reservation.

use weir_base::clock::Timestamp;
use weir_log::{AppendError, Disk};

use super::arena::JobIndex;
use super::core::{Engine, EngineError};
use super::fair_queue::RunningLane;
use super::head::RecordHead;
use super::kept_key::KeptKey;
use super::reservation_record::{LoggedReservation, reservation_key};
use super::reservations::EngineReservation;
use crate::resources::ResourceSet;
use crate::tracks::TrackState;

/// What happened to the lease of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtendOutcome {
    /// No such job is reserved.
    Unknown,
    InMemory,
    InLog,
}

impl<D: Disk> Engine<D> {
    /// Returns whether a job that was taken may run only with so many others: its queue, its tenant or one of its
    /// resources has a limit, or it holds a unique lock while it runs.
    pub(crate) fn is_limited(
        &self,
        job: JobIndex,
        lane: Option<RunningLane>,
        uses: ResourceSet,
    ) -> bool {
        let queue = self.state.queues.get(self.state.arena.get(job).queue);
        let is_tenant_limited = || {
            let fair = queue.fair.as_ref().zip(lane);
            fair.is_some_and(|(fair, lane)| fair.is_limited(lane))
        };
        let has_concurrency = self.allocation.of(&queue.name).concurrency.is_some();
        has_concurrency
            || is_tenant_limited()
            || self.holds_lock(job)
            || self.state.resources.is_counted(uses)
    }

    /// Returns whether a job holds a unique lock while it runs.
    pub(super) fn holds_lock(&self, job: JobIndex) -> bool {
        self.state.features.get(job).runs_locked()
    }

    /// Writes the record of a reservation.
    pub(crate) fn log_reservation(
        &mut self,
        reservation: &mut EngineReservation,
    ) -> Result<(), EngineError> {
        let key = reservation_key(self.state.arena.get(reservation.job).order);
        self.write_reservation(key, &LoggedReservation::of(reservation, reservation.expires_at))?;
        reservation.logged = Some(key);
        Ok(())
    }

    fn write_reservation(
        &mut self,
        key: KeptKey,
        recorded: &LoggedReservation<'_>,
    ) -> Result<(), EngineError> {
        let mut body = Vec::new();
        recorded.write(&mut body);
        self.keep(key, &body)
    }

    /// Extends a reservation until `until`; never shortens it.
    pub(crate) fn extend(
        &mut self,
        jid: &str,
        until: Timestamp,
    ) -> Result<ExtendOutcome, EngineError> {
        let Some(held) = self.state.reserved.get(jid) else { return Ok(ExtendOutcome::Unknown) };
        let is_longer = self.outlasts_presumption(held.since, until)
            && self.is_limited(held.job, held.lane, held.uses);
        let order = self.state.arena.get(held.job).order;
        let logged = held.logged.or_else(|| is_longer.then(|| reservation_key(order)));
        if let Some(key) = logged
            && until > held.expires_at
        {
            let ticket = held.ticket;
            let mut body = Vec::new();
            LoggedReservation::of(held, until).write(&mut body);
            self.keep(key, &body)?;
            if let Some(held) = self.state.reserved.with_ticket(jid, ticket) {
                held.logged = logged;
            }
        }
        self.state.reserved.extend(jid, until);
        Ok(if logged.is_some() { ExtendOutcome::InLog } else { ExtendOutcome::InMemory })
    }

    /// Gives workers time to return after a restart, during which they could not report the end of a job. The
    /// reservations of those that do not return end before that, because they send no BEAT.
    pub(crate) fn extend_restored(&mut self, now: Timestamp) {
        let until = now + 2 * self.settings.limits.heartbeat_timeout;
        self.state.reserved.extend_all(until);
        let held = self.state.reserved.iter();
        let held: Vec<_> = held.map(|held| (held.job, held.jid.clone())).collect();
        for (job, jid) in held {
            self.note_track(job, &jid, TrackState::Working, now);
        }
    }

    /// Forgets the record of a reservation whose job was removed or moved.
    pub(crate) fn forget_logged(&mut self, ended: &EngineReservation) {
        if let Some(key) = ended.logged {
            self.forget_kept(key);
        }
    }

    /// Notes in the log that the job of a reservation waits again. Without that, a restart reserves it for a worker
    /// that does not have it: no limit is exceeded, but its lease may end as if it had run.
    ///
    /// # Errors
    /// Returns [`EngineError::Behind`] if that is possible later. A log that accepts nothing is no reason to keep the
    /// job from others.
    pub(crate) fn note_waiting(&mut self, logged: Option<KeptKey>) -> Result<(), EngineError> {
        let Some(key) = logged else { return Ok(()) };
        match self.journal.note_with(&RecordHead::Kept { key }, &[], &self.state) {
            Err(AppendError::Backpressure) => Err(EngineError::Behind),
            _ => Ok(()),
        }
    }

    /// Ends the record of a reservation whose job waits again. If the log is behind, that is noted after the next round of
    /// the sync thread.
    pub(crate) fn end_logged(&mut self, ended: &EngineReservation) {
        if self.note_waiting(ended.logged).is_err() {
            self.unnoted.extend(ended.logged);
        }
        self.forget_logged(ended);
    }

    /// Notes what could not be noted at once, of jobs that still wait.
    pub(crate) fn note_all_waiting(&mut self) -> Result<(), EngineError> {
        while let Some(key) = self.unnoted.last().copied() {
            // A job that was reserved again has a later record.
            if !self.state.kept.contains_key(&key) {
                self.note_waiting(Some(key))?;
            }
            self.unnoted.pop();
        }
        Ok(())
    }

    /// Returns the record of the reservation with this key.
    pub(crate) fn reservation_record(&self, key: KeptKey) -> Option<Vec<u8>> {
        let held = self.state.reserved.iter().find(|held| held.logged == Some(key))?;
        let mut body = Vec::new();
        LoggedReservation::of(held, held.expires_at).write(&mut body);
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_log::SimulatedDisk;

    use super::*;
    use crate::allocation::{Allocation, QueueAllocation};
    use crate::engine::due::NextCall;
    use crate::job::JobBatch;
    use crate::metrics::JobsMetrics;
    use crate::model::{FailureReport, QueueName, SetName, Wid, WorkerEnd};
    use crate::settings::{JobServerLimits, JobServerSettings, QueueSettings};
    use crate::store::FailOutcome;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn name(name: &str) -> QueueName {
        QueueName::parse(name, &JobServerLimits::default()).unwrap()
    }

    /// Opens a store whose queue `one` runs one job at once.
    fn open(disk: &SimulatedDisk) -> Engine<SimulatedDisk> {
        let mut settings = JobServerSettings::default();
        let one = QueueSettings { concurrency: Some(1), ..QueueSettings::default() };
        settings.queues.insert(name("one"), one);
        let random = fastrand::Rng::with_seed(1);
        let rules = Allocation::of_settings(&settings);
        let opened = Engine::open(disk.clone(), &settings, &rules, JobsMetrics::detached(), random);
        let (mut engine, _) = opened.unwrap();
        engine.allocate(rules);
        engine
    }

    fn store(engine: &mut Engine<SimulatedDisk>, jid: &str, members: &str) -> bool {
        let json = format!(r#"{{"jid":"{jid}","jobtype":"T","args":[],{members}}}"#);
        let mut batch = JobBatch::new();
        let job = batch.parse_one(json.as_bytes(), NOW, &JobServerLimits::default()).unwrap();
        match engine.store(&job, NOW) {
            Ok(_) => true,
            Err(EngineError::Behind) => false,
            Err(other) => panic!("{other}"),
        }
    }

    fn take(engine: &mut Engine<SimulatedDisk>) -> Option<String> {
        let taken = engine.take(Some(&Wid::new("w1")), &[name("one")], |_| 1, NOW).unwrap()?;
        Some(taken.delivery.jid.to_string())
    }

    /// The log says that a job runs, and accepts nothing at the moment at which it waits again.
    #[test]
    fn a_job_that_waits_again_while_the_log_is_behind_waits_after_a_restart() {
        for is_put_back in [false, true] {
            let disk = SimulatedDisk::new(1);
            let mut engine = open(&disk);
            assert!(store(&mut engine, "first-job", r#""queue":"one""#));
            let wid = Wid::new("w1");
            let taken = engine.take(Some(&wid), &[name("one")], |_| 1, NOW).unwrap().unwrap();
            assert!(taken.is_logged);
            fall_behind(&mut engine);
            if is_put_back {
                assert!(engine.put_back(&taken).is_some());
            } else {
                assert_eq!(
                    engine.release_one(&wid, WorkerEnd::Killed, NOW),
                    Err(EngineError::Behind)
                );
                assert!(engine.state.reserved.get("first-job").is_some(), "nothing was done");
            }
            engine.journal.log.syncer().sync().unwrap();
            if is_put_back {
                engine.note_all_waiting().unwrap();
            } else {
                assert!(engine.release_one(&wid, WorkerEnd::Killed, NOW).unwrap().is_some());
            }
            engine.journal.log.flush().unwrap();
            let mut engine = open(&disk.kill());
            assert_eq!(engine.state.reserved.len(), 0, "{is_put_back}");
            assert_eq!(take(&mut engine).as_deref(), Some("first-job"));
        }
    }

    /// Stores jobs in another queue until the log is behind. Returns their number.
    fn fall_behind(engine: &mut Engine<SimulatedDisk>) -> usize {
        (0..).find(|number| !fill(engine, *number)).unwrap_or(0)
    }

    fn fill(engine: &mut Engine<SimulatedDisk>, number: usize) -> bool {
        let padding = format!(r#""queue":"two","custom":{{"x":"{}"}}"#, "x".repeat(100_000));
        store(engine, &format!("filler-{number:04}"), &padding)
    }

    #[test]
    fn a_stop_adds_nothing_to_a_segment_that_an_older_weir_can_read() {
        let disk = SimulatedDisk::new(1);
        let first = include_bytes!("../../tests/it/format_3/0000000001.log");
        let second = include_bytes!("../../tests/it/format_3/0000000002.log");
        disk.put_file("0000000001.log", first.to_vec());
        disk.put_file("0000000002.log", second.to_vec());
        disk.set_space(Some(disk.used_bytes()));
        let mut engine = open(&disk);
        assert!(!engine.journal.log.is_current(), "there is no space for another segment");
        let end = engine.end();
        assert_eq!((engine.note_closed(), engine.end()), (Ok(()), end));
    }

    #[test]
    fn a_fetch_that_cannot_drop_an_expired_job_is_served_after_the_next_round() {
        let mut engine = open(&SimulatedDisk::new(1));
        let expired = r#""queue":"many","custom":{"expires_at":"2023-11-14T22:13:21Z"}"#;
        assert!(store(&mut engine, "expired-job", expired));
        assert!(store(&mut engine, "second-job", r#""queue":"many""#));
        fall_behind(&mut engine);
        let later = NOW + Duration::from_secs(60);
        let take = |engine: &mut Engine<SimulatedDisk>| {
            let taken = engine.take(None, &[name("many")], |_| 1, later).unwrap();
            taken.map(|taken| taken.delivery.jid.to_string())
        };
        assert_eq!(take(&mut engine), None);
        let number = engine.state.queues.number("many");
        assert_eq!(engine.held_by_log.first().copied(), number);
        engine.journal.log.syncer().sync().unwrap();
        assert_eq!(take(&mut engine).as_deref(), Some("second-job"));
    }

    #[test]
    fn a_failure_is_reported_although_the_log_has_no_room_to_delete_older_dead_jobs() {
        let prepare = || {
            let mut engine = open(&SimulatedDisk::new(1));
            engine.settings.limits.dead_jobs_max = 0;
            // Its record is as large as that of a filler.
            let members =
                format!(r#""queue":"one","retry":-1,"custom":{{"x":"{}"}}"#, "x".repeat(100_000));
            assert!(store(&mut engine, "first-job", &members));
            assert!(take(&mut engine).is_some());
            engine
        };
        let fillers = fall_behind(&mut prepare());
        let mut engine = prepare();
        assert!((1..fillers).all(|number| fill(&mut engine, number)));
        let report = FailureReport { jid: "first-job".into(), ..FailureReport::default() };
        let failed = engine.fail(Some(&Wid::new("w1")), report, NOW);
        assert_eq!(failed.map(|(outcome, _)| outcome), Ok(FailOutcome::Dead));
        assert_eq!(engine.state.set(SetName::Dead).len(), 1, "the log is behind");
        engine.journal.log.syncer().sync().unwrap();
        assert_eq!(engine.trim_dead(), Ok(()));
        assert_eq!(engine.state.set(SetName::Dead).len(), 0);
    }

    #[test]
    fn a_tick_that_the_log_holds_up_loses_no_queue() {
        let mut engine = open(&SimulatedDisk::new(1));
        assert!(store(&mut engine, "later-job", r#""queue":"one","at":"2023-11-14T22:13:30Z""#));
        fall_behind(&mut engine);
        engine.woken.push(7);
        let later = NOW + Duration::from_secs(60);
        for _ in 0..2 {
            assert_eq!(engine.tick(later).map(|ticked| ticked.queues), Err(EngineError::Behind));
        }
        engine.journal.log.syncer().sync().unwrap();
        let queues = engine.tick(later).unwrap().queues;
        assert_eq!(queues.first(), Some(&7));
        assert_eq!(queues.len(), 2, "and that of the job that is due");
    }

    #[test]
    fn jobs_that_run_when_a_limit_is_set_are_recorded_once_the_log_has_room() {
        let disk = SimulatedDisk::new(1);
        let mut engine = open(&disk);
        let mut rules = engine.rules.clone();
        rules.queues.clear();
        engine.allocate(rules.clone());
        for number in 0..3 {
            assert!(store(&mut engine, &format!("job-{number:05}"), r#""queue":"one""#));
            assert!(take(&mut engine).is_some());
        }
        engine.tick(NOW).unwrap();
        fall_behind(&mut engine);
        let limit = QueueAllocation { concurrency: Some(8), ..QueueAllocation::default() };
        rules.queues.insert(name("one"), limit);
        engine.allocate(rules);
        assert_eq!(engine.next_time(), NextCall::At(Timestamp::default()));
        assert_eq!(engine.tick(NOW).map(|ticked| ticked.next), Err(EngineError::Behind));
        engine.journal.log.syncer().sync().unwrap();
        let next = engine.tick(NOW).unwrap().next;
        assert!(matches!(next, NextCall::At(at) if at > NOW), "{next:?}");
        engine.journal.log.flush().unwrap();
        let engine = open(&disk.kill());
        assert_eq!(engine.state.reserved.len(), 3);
    }

    #[test]
    fn a_restored_reservation_lasts_until_its_worker_could_return() {
        let disk = SimulatedDisk::new(1);
        let mut engine = open(&disk);
        assert!(store(&mut engine, "first-job", r#""queue":"one","reserve_for":60,"retry":0"#));
        assert!(take(&mut engine).is_some());
        engine.journal.log.flush().unwrap();
        let mut engine = open(&disk.kill());
        let later = NOW + Duration::from_secs(3_600);
        engine.extend_restored(later);
        assert_eq!(engine.lapse_one(later), Ok(None));
        assert!(engine.ack(Some(&Wid::new("w1")), "first-job", later).unwrap().is_some());
    }

    #[test]
    fn a_restored_job_holds_no_lock_that_ended_when_it_started() {
        let disk = SimulatedDisk::new(1);
        let mut engine = open(&disk);
        let lock = r#""queue":"one","custom":{"unique_for":600,"unique_until":"start"}"#;
        assert!(store(&mut engine, "first-job", lock));
        assert!(take(&mut engine).is_some());
        engine.journal.log.flush().unwrap();
        let mut engine = open(&disk.kill());
        assert_eq!(engine.state.reserved.len(), 1);
        assert!(store(&mut engine, "second-job", lock), "it is what the lock is for");
    }
}
