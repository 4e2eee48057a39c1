//! Tests the whole engine on a disk that loses unsynced data: random operations, random power cuts
//! and kills, and after each a check of the log's promises against a separate ledger.
//!
//! `WEIR_SIMULATION_RUNS` sets how many seeds are run, `WEIR_SIMULATION_SEED` the first of them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_base::token_bucket::Rate;
use weir_log::{SimulatedDisk, Syncer};

use super::arena::{ArenaEntry, EntryState, JobIndex};
use super::core::{Engine, EngineError};
use super::due::NextCall;
use super::head::StoredPlace;
use super::work::EngineFetch;
use crate::allocation::{
    Allocation, FairRules, LaneLimits, QueueAllocation, ResourceLimits, ResourceRules, TenantLimits,
};
use crate::batches::BatchDefinition;
use crate::custom::BatchId;
use crate::job::JobBatch;
use crate::key_path::KeyPath;
use crate::metrics::JobsMetrics;
use crate::model::{Delivery, FailureReport, JobLocation, QueueName, SetName, Wid, WorkerEnd};
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::store::{Action, QueueAction, StoreError};

const QUEUES: [&str; 3] = ["default", "mailers", "pull"];
const TYPES: [&str; 3] = ["T", "U", "V"];
const RESOURCES: [&str; 3] = ["r1", "r2", "r3"];
/// Most runs are short; one in eight is long enough for segments to be reclaimed.
const STEPS: usize = 120;
const STEPS_LONG: usize = 900;

/// The queue or set of each job as recorded in the log; a reserved job counts as waiting.
type View = BTreeSet<(u8, u16, u64, u32)>;

/// What must and what may exist after a crash.
#[derive(Debug, Default)]
struct Ledger {
    /// jid -> the log's end after its push.
    pushed: BTreeMap<String, u64>,
    /// jid -> the log's end after it was acked, discarded, cleared.
    ended: BTreeMap<String, u64>,
    /// The state after each step and the log's end then. `None`: the step wrote several records.
    views: Vec<(u64, Option<View>)>,
    /// The unique jobs that no operator has moved, each with the number of its lock.
    unique: BTreeMap<String, u8>,
    /// The jobs under a limit that workers have, or that are on their way to them.
    leases: BTreeMap<String, Lease>,
    /// The jobs whose leases have ended, each with the log's end then.
    leases_ended: BTreeMap<String, u64>,
}

/// A job that was taken under a limit.
#[derive(Clone, Debug)]
struct Lease {
    /// The log's end after its reservation: its worker has the job from the moment at which this is durable.
    reserved_at: u64,
    queue: QueueName,
    wid: Wid,
    json: Vec<u8>,
    /// Whether its reservation is in the log. If not, a crash loses the reservation, and the worker still has the job.
    is_recorded: bool,
    until: Timestamp,
}

struct Run {
    disk: SimulatedDisk,
    engine: Engine<SimulatedDisk>,
    syncer: Syncer<SimulatedDisk>,
    ledger: Ledger,
    now: Timestamp,
    random: fastrand::Rng,
    next_jid: u32,
    crashes: u32,
    batches: Vec<BatchId>,
    /// Whether the disk is full.
    full: bool,
    allocation: Allocation,
    /// Leases that were found again after a restart.
    leases_restored: u32,
    /// Leases that no restart knows.
    leases_lost: Vec<Lease>,
    leases_lost_total: u32,
    /// When jobs of each queue, and of each tenant of it, started since their rates began.
    starts: BTreeMap<(QueueName, Option<String>), Vec<Timestamp>>,
    /// The same of resources.
    resource_starts: BTreeMap<String, Vec<Timestamp>>,
    /// Fetches that found nothing while jobs of other types or queues waited for resources.
    fetches_blocked: u32,
}

fn settings() -> JobServerSettings {
    JobServerSettings {
        limits: JobServerLimits {
            segment_bytes: 16 << 10,
            reserve_bytes: 3 << 10,
            dead_jobs_max: 12,
            batch_commit_timeout: Duration::from_secs(864_000),
            ..JobServerLimits::default()
        },
        ..JobServerSettings::default()
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::parse(name, &JobServerLimits::default()).unwrap()
}

impl Run {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed);
        disk.set_short_transfers(seed.is_multiple_of(3));
        disk.set_allocates(!seed.is_multiple_of(5));
        let (engine, _) = open(&disk, seed, &Allocation::default());
        Self {
            syncer: engine.journal.log.syncer(),
            disk,
            engine,
            ledger: Ledger { views: vec![(0, Some(View::new()))], ..Ledger::default() },
            now: Timestamp::from_millis(1_700_000_000_000),
            random: fastrand::Rng::with_seed(seed),
            next_jid: 0,
            crashes: 0,
            batches: Vec::new(),
            full: false,
            allocation: Allocation::default(),
            leases_restored: 0,
            leases_lost: Vec::new(),
            leases_lost_total: 0,
            starts: BTreeMap::new(),
            resource_starts: BTreeMap::new(),
            fetches_blocked: 0,
        }
    }

    fn step(&mut self) {
        self.now = self.now + Duration::from_micros(self.random.u64(0..2_000_000));
        match self.random.u8(0..100) {
            0..30 => self.push(),
            30..50 => self.take(),
            50..64 => self.finish(),
            64..69 => self.fail(),
            69 => self.change_rules(),
            70..74 => self.tick(),
            74..77 => self.act(),
            77..79 => self.queue_action(),
            79 => self.release(),
            80..90 => drop(self.syncer.sync().and_then(|_| self.syncer.maintain())),
            90..93 => drop(self.engine.journal.log.flush()),
            93..95 => self.change_space(),
            95 => self.now = self.now + Duration::from_secs(self.random.u64(0..4_000)),
            96 => self.batch(),
            97 => self.crash(),
            98 if self.random.bool() => self.kill(),
            98 => self.close(),
            _ => self.late_ack(),
        }
        self.note_callbacks();
        self.note_ended_leases();
        self.check_consistency();
    }

    /// Gives the queues other rules about tenants: a few, which share lanes, or as many as there are jobs.
    fn change_rules(&mut self) {
        let mut queues = BTreeMap::new();
        for name in QUEUES {
            let by = ["/retry", "/jid", "/args/0", ""][self.random.usize(0..4)];
            let Ok(by) = by.parse() else { continue };
            let (headroom, tenants_max) = (self.random.u32(0..3), self.random.usize(1..4));
            let weights = BTreeMap::from([("25".to_owned(), 3)]);
            let each = LaneLimits {
                concurrency: self.random.bool().then(|| self.random.u32(1..6)),
                rate: self.random.bool().then(|| self.rate()),
            };
            let limits = TenantLimits { each, ..TenantLimits::default() };
            let fair = Some(FairRules { by, headroom, tenants_max, weights, limits });
            let concurrency = self.random.bool().then(|| self.random.u32(1..10));
            let rate = self.random.bool().then(|| self.rate());
            let counts_bytes = self.random.bool();
            let rules = QueueAllocation {
                fair,
                concurrency,
                rate,
                counts_bytes,
                ..QueueAllocation::default()
            };
            queues.insert(queue(name), rules);
        }
        let resources = self.resources();
        self.allocation = Allocation { queues, resources, ..Allocation::default() };
        self.engine.allocate(self.allocation.clone());
        self.starts.clear();
        self.resource_starts.clear();
        // Limits that are lowered count the jobs that have a record by then.
        self.leases_lost.clear();
        self.note_recorded();
        let _ = self.syncer.sync();
    }

    /// Notes the leases that have got a record since.
    fn note_recorded(&mut self) {
        for (jid, lease) in &mut self.ledger.leases {
            let held = self.engine.state.reserved.get(jid).unwrap();
            if !lease.is_recorded && held.logged.is_some() {
                (lease.is_recorded, lease.reserved_at) = (true, self.engine.end().0);
            }
        }
    }

    fn resources(&mut self) -> ResourceRules {
        let mut of = BTreeMap::new();
        for name in RESOURCES {
            if self.random.u8(0..3) == 0 {
                continue;
            }
            let types = TYPES.into_iter().filter(|_| self.random.u8(0..3) == 0);
            let types = types.map(str::to_owned).collect();
            let queues = QUEUES.into_iter().filter(|_| self.random.u8(0..4) == 0).map(queue);
            let queues = queues.collect();
            let rate = ["1/s", "2/s burst 3", "30/m"][self.random.usize(0..3)].parse().unwrap();
            let limits = ResourceLimits {
                concurrency: self.random.bool().then(|| self.random.u32(1..4)),
                rate: (self.random.u8(0..3) == 0).then_some(rate),
                types,
                queues,
                is_temporary: false,
            };
            of.insert(name.to_owned(), limits);
        }
        ResourceRules { of }
    }

    /// Returns a rate of about a job per step.
    fn rate(&mut self) -> Rate {
        Rate::new(self.random.u32(1..4), Duration::from_millis(self.random.u64(1..3_000)))
    }

    /// Runs an operation. While the log is behind, syncs it as the sync thread would.
    fn run<T>(
        &mut self,
        mut operation: impl FnMut(&mut Engine<SimulatedDisk>, Timestamp) -> Result<T, EngineError>,
    ) -> Result<T, StoreError> {
        for _ in 0..20 {
            match operation(&mut self.engine, self.now) {
                Ok(done) => return Ok(done),
                Err(EngineError::Store(error)) => return Err(error),
                Err(EngineError::Behind) => {
                    let _ = self.syncer.sync();
                    let _ = self.syncer.maintain();
                }
            }
        }
        // If the file system can't allocate in advance, a full disk is only noticed on a write.
        assert!(self.full, "syncing did not make room");
        Err(StoreError::DiskFull)
    }

    fn note(&mut self, exact: bool) {
        let view = exact.then(|| view(&self.engine));
        self.ledger.views.push((self.engine.end().0, view));
    }

    fn push(&mut self) {
        self.next_jid += 1;
        let jid = format!("jid-{:08}", self.next_jid);
        let padding = "x".repeat(self.random.usize(0..400));
        let name = QUEUES[self.random.usize(0..3)];
        let at = match self.random.u8(0..4) {
            0 => {
                let due = self.now + Duration::from_secs(self.random.u64(1..3_000));
                format!(r#","at":"{}""#, crate::stamp::rfc3339(due))
            }
            _ => String::new(),
        };
        let retry = [25, 1, 0, -1][self.random.usize(0..4)];
        let lock = self.random.u8(0..30);
        let (custom, args) = match lock {
            0..6 => (r#","custom":{"unique_for":86400000}"#.to_owned(), format!("{lock}")),
            6..9 => {
                (r#","custom":{"expires_at":"2023-11-14T23:00:00Z"}"#.to_owned(), "0".to_owned())
            }
            9..16 if !self.batches.is_empty() => {
                let batch = self.batches[self.random.usize(..self.batches.len())];
                let track = lock % 2;
                (format!(r#","custom":{{"bid":"{batch}","track":{track}}}"#), "0".to_owned())
            }
            _ => (String::new(), format!("\"{padding}\"")),
        };
        let name = if lock < 6 { QUEUES[0] } else { name };
        // Unique jobs are of one type, which is part of the key.
        let jobtype = if lock < 6 { TYPES[0] } else { TYPES[self.random.usize(0..3)] };
        let json = format!(
            r#"{{"jid":"{jid}","jobtype":"{jobtype}","args":[{args}],"queue":"{name}","retry":{retry}{at}{custom}}}"#
        );
        let mut batch = JobBatch::new();
        let now = self.now;
        let job = batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).unwrap();
        match self.run(|engine, now| engine.store(&job, now)) {
            Ok(_) => {
                if lock < 6 {
                    let holder = self.holder_of(lock);
                    assert_eq!(holder, None, "{jid} was stored although a job holds its lock");
                    self.ledger.unique.insert(jid.clone(), lock);
                }
                self.ledger.pushed.insert(jid, self.engine.end().0);
            }
            // Its creation was lost with the end of the log.
            Err(StoreError::NoSuchBatch(id)) => self.batches.retain(|batch| *batch != id),
            Err(StoreError::NotUnique) => assert!(lock < 6, "{jid} asks for no lock"),
            Err(StoreError::DiskFull) => assert!(self.full, "a push was refused without need"),
            Err(other) => panic!("{other}"),
        }
        // A new queue is a separate record; the view between the two records is unknown.
        self.note(self.next_jid > 30);
    }

    /// Creates a batch, or commits one.
    fn batch(&mut self) {
        if self.batches.len() < 3 || self.random.bool() {
            let name = format!("cb-{:08x}-", self.random.u32(..));
            let callback = |kind: &str| {
                let jid = format!("{name}{kind}");
                Some(format!(r#"{{"jid":"{jid}","jobtype":"C","args":[]}}"#).into_bytes())
            };
            let parent = self.batches.last().copied().filter(|_| self.random.bool());
            let (complete, success) = (callback("complete"), callback("success"));
            let definition = BatchDefinition { parent, description: name, complete, success };
            if let Ok(id) = self.run(|engine, now| engine.batch_new(&definition, now)) {
                self.batches.push(id);
            }
        } else {
            let batch = self.batches[self.random.usize(..self.batches.len())];
            let _ = self.run(|engine, now| engine.batch_commit(batch, now));
        }
        self.note(false);
    }

    /// Lets all batches end. Each callback must have run once.
    fn finish_batches(&mut self) {
        let mut batches = self.batches.clone();
        batches.retain(|id| self.engine.state.features.batches.contains(*id));
        for id in &batches {
            self.run(|engine, now| engine.batch_commit(*id, now)).unwrap();
        }
        // Rates would hold up the jobs for longer than this takes.
        self.engine.allocate(Allocation::default());
        let mut callbacks = BTreeMap::<String, u32>::new();
        let queues = QUEUES.map(queue);
        for name in QUEUES {
            self.run(|engine, _| engine.act_on_queue(name, QueueAction::Resume)).unwrap();
        }
        for _ in 0..20 {
            self.now = self.now + Duration::from_secs(2_000);
            while self.run(|engine, now| engine.tick(now)).unwrap().next == NextCall::Now {
                // A segment is removed once the log has room to note that.
                let _ = self.syncer.sync().and_then(|_| self.syncer.maintain());
            }
            while let Ok(Some(taken)) = self.engine.take(None, &queues, |_| 0, self.now) {
                let jid = taken.delivery.jid;
                if jid.starts_with("cb-") {
                    *callbacks.entry(jid.to_string()).or_default() += 1;
                }
                self.run(|engine, now| engine.ack(None, &jid, now)).unwrap();
            }
        }
        assert!(callbacks.values().all(|times| *times == 1), "{callbacks:?}");
        for id in batches {
            let status = self.engine.state.features.batches.status(id).unwrap();
            assert_eq!(status.pending, status.failed, "{status:?}: all jobs have run");
        }
    }

    /// Records callbacks that were stored. None may come back after its end.
    fn note_callbacks(&mut self) {
        let end = self.engine.end().0;
        let callbacks: Vec<String> = self
            .batches
            .iter()
            .filter_map(|id| self.engine.state.features.batches.record(*id))
            .flat_map(|(definition, _)| {
                ["complete", "success"].map(|kind| format!("{}{kind}", definition.description))
            })
            .collect();
        let live: Vec<u32> = live(&self.engine).map(|entry| entry.hash).collect();
        for jid in callbacks {
            let hash = self.engine.state.hash(&jid);
            let times = live.iter().filter(|live| **live == hash).count();
            assert!(times <= 1, "{jid} was stored twice");
            if times == 1 {
                assert!(!self.ledger.ended.contains_key(&jid), "{jid} was stored again");
                self.ledger.pushed.entry(jid).or_insert(end);
            }
        }
    }

    /// Returns the job that must hold a lock.
    fn holder_of(&self, lock: u8) -> Option<&String> {
        let state = &self.engine.state;
        let live: BTreeSet<u32> = live(&self.engine).map(|entry| entry.hash).collect();
        let holders = self.ledger.unique.iter().filter(|(_, held)| **held == lock);
        holders.map(|(jid, _)| jid).find(|jid| live.contains(&state.hash(jid)))
    }

    fn take(&mut self) {
        let first = self.random.usize(0..3);
        let queues = [queue(QUEUES[first]), queue(QUEUES[(first + 1) % 3])];
        let wid = Wid::new(["w1", "w2"][self.random.usize(0..2)]);
        let before = self.engine.end();
        let taken = self.engine.take(Some(&wid), &queues, |_| 0, self.now).ok().flatten();
        if self.engine.end() > before {
            // Expired jobs were dropped, or the reservation was written.
            self.note_vanished();
            self.note(false);
        }
        if taken.is_none() && self.engine.end() == before {
            self.check_nothing_may_start(&queues);
        }
        if let Some(taken) = &taken {
            // It may get a record later, when its queue gets a limit.
            self.ledger.leases_ended.remove(&*taken.delivery.jid);
            let held = self.engine.state.reserved.get(&taken.delivery.jid).unwrap();
            if self.engine.is_limited(held.job, held.lane, held.uses) {
                let Delivery { jid, json } = taken.delivery.clone();
                self.note_lease(&jid, wid, json);
            }
        }
        if let Some(undelivered) = taken.as_ref().filter(|_| self.random.u8(0..6) == 0) {
            assert!(self.engine.put_back(undelivered).is_some());
            let _ = self.run(|engine, _| engine.note_all_waiting());
            self.note(false);
        } else if let Some(taken) = &taken {
            self.note_start(&taken.delivery);
            self.check_is_logged(taken);
        }
        if let Some(taken) = taken {
            let text = std::str::from_utf8(&taken.delivery.json).unwrap();
            assert!(text.contains(&*taken.delivery.jid), "a worker got another job's text");
            assert!(
                !self.ledger.ended.contains_key(&*taken.delivery.jid),
                "an ended job came back"
            );
        }
    }

    /// Records that a job started. In any period, at most the burst and one job per interval start: of its queue, of its
    /// tenant, who may share a lane, and of its resources.
    fn note_start(&mut self, started: &Delivery) {
        let state = &self.engine.state;
        let job = state.reserved.get(&started.jid).unwrap().job;
        let name = state.queues.get(state.arena.get(job).queue).name.clone();
        let jobtype = jobtype(&started.json);
        let rules = self.allocation.of(&name);
        let of_tenant = rules.fair.as_ref().and_then(|fair| {
            let tenant = fair.by.find(&started.json).map(Cow::into_owned).unwrap_or_default();
            Some((Some(tenant), fair.limits.each.rate?))
        });
        let of_queue = rules.rate.map(|rate| (None, rate));
        let rates: Vec<_> = of_queue.into_iter().chain(of_tenant).collect();
        for (tenant, rate) in rates {
            check_rate(self.starts.entry((name.clone(), tenant)).or_default(), rate, self.now);
        }
        for (resource, limits) in &self.allocation.resources.of {
            if let Some(rate) = limits.rate.filter(|_| uses(limits, &name, &jobtype)) {
                let starts = self.resource_starts.entry(resource.clone()).or_default();
                check_rate(starts, rate.rate(), self.now);
            }
        }
    }

    /// Checks that a job that uses a resource with a limit of jobs at once has a record of its reservation.
    fn check_is_logged(&self, taken: &EngineFetch) {
        let state = &self.engine.state;
        let job = state.reserved.get(&taken.delivery.jid).unwrap().job;
        let name = &state.queues.get(state.arena.get(job).queue).name;
        let jobtype = jobtype(&taken.delivery.json);
        let counted = self.allocation.resources.of.values().filter(|it| it.concurrency.is_some());
        let is_counted = counted.into_iter().any(|limits| uses(limits, name, &jobtype));
        assert!(taken.is_logged || !is_counted, "{}", taken.delivery.jid);
    }

    /// Checks that a fetch of these queues left out no job that may start.
    fn check_nothing_may_start(&mut self, queues: &[QueueName]) {
        let engine = &self.engine;
        if !engine.held_by_log.is_empty() || !engine.held_by_space.is_empty() {
            return;
        }
        let state = &engine.state;
        let running = |limits: &ResourceLimits| {
            let held = state.reserved.iter().filter(|held| {
                let name = &state.queues.get(state.arena.get(held.job).queue).name;
                uses(limits, name, &self.jobtype(held.job))
            });
            held.count()
        };
        let is_full = |limits: &ResourceLimits| {
            limits.concurrency.is_some_and(|most| running(limits) >= most as usize)
        };
        let resources = || self.allocation.resources.of.values();
        // Rates are checked when jobs start; here they only hold up more.
        let blocking: Vec<_> = resources().filter(|it| it.rate.is_some() || is_full(it)).collect();
        for name in queues {
            let Some(queue) = state.queues.number(name.as_str()).map(|it| state.queues.get(it))
            else {
                continue;
            };
            let rules = self.allocation.of(name);
            let is_held_back = queue.paused
                || rules.rate.is_some()
                || rules.fair.is_some()
                || rules.concurrency.is_some_and(|most| queue.reserved >= most);
            let laned_up_to = queue.fair.as_ref().and_then(|fair| fair.laned_up_to);
            if is_held_back || laned_up_to.is_some() {
                continue;
            }
            for job in queue.lane.after(None, &state.arena) {
                let jobtype = self.jobtype(job);
                let is_blocked = blocking.iter().any(|it| uses(it, name, &jobtype));
                assert!(is_blocked, "a job of {name} and type {jobtype} may start");
                self.fetches_blocked += 1;
            }
        }
    }

    fn jobtype(&self, job: JobIndex) -> String {
        let mut buffer = Vec::new();
        let position = self.engine.state.arena.get(job).position;
        let body = self.engine.journal.read(position, &mut buffer).unwrap();
        body.jobtype.to_owned()
    }

    /// Records that a worker gets a job, unless the process ends first. No limit may be exceeded.
    fn note_lease(&mut self, jid: &str, wid: Wid, json: Vec<u8>) {
        let state = &self.engine.state;
        let held = state.reserved.get(jid).unwrap();
        let queue = state.queues.get(state.arena.get(held.job).queue).name.clone();
        let lease = Lease {
            reserved_at: self.engine.end().0,
            queue: queue.clone(),
            wid,
            json,
            is_recorded: held.logged.is_some(),
            until: held.expires_at,
        };
        self.ledger.leases.insert(jid.to_owned(), lease);
        self.ledger.leases_ended.remove(jid);
        let live = self.leases_lost.iter().filter(|lease| lease.until > self.now);
        let running = || {
            let known = self.ledger.leases.values();
            known.chain(live.clone()).filter(|lease| lease.queue == queue)
        };
        let rules = self.allocation.of(&queue);
        if let Some(most) = rules.concurrency {
            let running = running().count();
            assert!(running <= most as usize, "{running} jobs of {queue} run, and {most} may");
        }
        if let Some(fair) = &rules.fair
            && let Some(most) = fair.limits.each.concurrency
        {
            let tenant = |lease: &Lease| fair.by.find(&lease.json).map(Cow::into_owned);
            let own = self.ledger.leases.get(jid).and_then(tenant);
            let running = running().filter(|lease| tenant(lease) == own).count();
            assert!(running <= most as usize, "{running} jobs of {own:?} run, and {most} may");
        }
        for (name, limits) in &self.allocation.resources.of {
            let uses = |lease: &Lease| uses(limits, &lease.queue, &jobtype(&lease.json));
            let is_used = self.ledger.leases.get(jid).is_some_and(uses);
            if let Some(most) = limits.concurrency.filter(|_| is_used) {
                let running = self.ledger.leases.values().filter(|lease| uses(lease)).count();
                assert!(running <= most as usize, "{running} jobs of {name} run, and {most} may");
            }
        }
    }

    /// Forgets the leases that the last step has ended.
    fn note_ended_leases(&mut self) {
        let (reserved, end) = (&self.engine.state.reserved, self.engine.end().0);
        let Ledger { leases, leases_ended, .. } = &mut self.ledger;
        for jid in leases.extract_if(.., |jid, _| reserved.get(jid).is_none()).map(|(jid, _)| jid) {
            // A full disk may not have room for the end of a reservation.
            if !self.full {
                leases_ended.insert(jid, end);
            }
        }
    }

    /// Checks after a restart that every job that a worker has is reserved by it, and none that waited.
    fn check_leases(&mut self, promised: u64) {
        let reserved = &self.engine.state.reserved;
        for (jid, end) in std::mem::take(&mut self.ledger.leases_ended) {
            assert!(
                end > promised || reserved.get(&jid).is_none(),
                "{jid} waited, and is reserved"
            );
        }
        let lost = self.ledger.leases.extract_if(.., |_, lease| !lease.is_recorded);
        self.leases_lost.extend(lost.map(|(_, lease)| lease));
        self.leases_lost_total += u32::try_from(self.leases_lost.len()).unwrap();
        self.ledger.leases.retain(|jid, lease| {
            let held = reserved.get(jid);
            if lease.reserved_at <= promised {
                let wid =
                    held.unwrap_or_else(|| panic!("{jid} runs, and is not reserved")).wid.as_ref();
                assert_eq!(wid, Some(&lease.wid), "{jid}");
                self.leases_restored += 1;
            }
            lease.reserved_at <= promised
        });
    }

    fn reserved(&mut self) -> Option<String> {
        let held: BTreeSet<_> =
            self.engine.state.reserved.iter().map(|held| held.jid.to_string()).collect();
        let nth = self.random.usize(..held.len().max(1));
        held.into_iter().nth(nth)
    }

    fn finish(&mut self) {
        let Some(jid) = self.reserved() else { return };
        match self.run(|engine, now| engine.ack(None, &jid, now)) {
            Ok(known) => {
                assert!(known.is_some());
                self.ledger.ended.insert(jid, self.engine.end().0);
            }
            Err(StoreError::DiskFull) => assert!(self.full),
            Err(other) => panic!("{other}"),
        }
        // The end of a job may store a callback.
        self.note(self.batches.is_empty());
    }

    /// Acknowledges a job that was reserved before a crash, is in any state, or does not exist.
    fn late_ack(&mut self) {
        let nth = self.random.usize(..self.ledger.pushed.len().max(1));
        let Some(jid) = self.ledger.pushed.keys().nth(nth).cloned() else {
            return;
        };
        if let Ok(Some(_)) = self.run(|engine, now| engine.ack(None, &jid, now)) {
            self.ledger.ended.insert(jid, self.engine.end().0);
        }
        self.note(self.batches.is_empty());
    }

    fn fail(&mut self) {
        let Some(jid) = self.reserved() else { return };
        let report = FailureReport { jid: Box::from(&*jid), ..FailureReport::default() };
        match self.run(|engine, now| engine.fail(None, report.clone(), now)) {
            Ok(_) => self.note_vanished(),
            Err(error) => assert!(self.full, "{error}"),
        }
        self.note(false);
    }

    fn tick(&mut self) {
        let _ = self.run(|engine, now| engine.tick(now));
        self.note_vanished();
        self.note(false);
    }

    fn release(&mut self) {
        let wid = Wid::new("w1");
        let end = if self.random.bool() { WorkerEnd::Killed } else { WorkerEnd::Stopped };
        while let Ok(Some(_)) = self.run(|engine, now| engine.release_one(&wid, end, now)) {}
        self.note_vanished();
        self.note(false);
    }

    fn act(&mut self) {
        let set = SetName::ALL[self.random.usize(0..3)];
        let later = Action::Reschedule(self.now + Duration::from_secs(self.random.u64(0..300)));
        let action =
            [Action::Requeue, Action::Kill, Action::Discard, later][self.random.usize(0..4)];
        let Some((_, job)) = self.engine.state.set(set).first().copied() else {
            return;
        };
        let stop = self.engine.stop(job);
        let mut buffer = Vec::new();
        let body = self.engine.journal.read(stop.position, &mut buffer).unwrap();
        let key = self.engine.stored(&stop, &body).key;
        assert_eq!(self.engine.entry(&JobLocation::Set(set), &key), Some(job));
        let mut is_unlocked = true;
        let done = if self.random.u8(0..4) == 0 {
            let (name, paused) = (queue(QUEUES[self.random.usize(0..3)]), self.random.bool());
            self.run(|engine, now| engine.move_to(job, &name, paused, now)).map(drop)
        } else {
            is_unlocked = action != later;
            self.run(|engine, now| engine.act(job, action, now)).map(drop)
        };
        if done.is_ok() && is_unlocked {
            self.ledger.unique.remove(&*key.jid);
        }
        self.note_vanished();
        self.note(false);
    }

    fn queue_action(&mut self) {
        let actions =
            [QueueAction::Pause, QueueAction::Resume, QueueAction::Clear, QueueAction::Remove];
        let action = actions[self.random.usize(0..4)];
        let name = QUEUES[self.random.usize(0..3)];
        let _ = self.run(|engine, _| engine.act_on_queue(name, action));
        if action == QueueAction::Remove {
            // A queue without jobs is forgotten, and its rate begins anew with the next job.
            self.starts.retain(|(queue, _), _| queue.as_str() != name);
        }
        self.note_vanished();
        self.note(false);
    }

    /// Records the end of jobs that an operation ended in addition to its own.
    fn note_vanished(&mut self) {
        let live: BTreeSet<u32> = live(&self.engine).map(|e| e.hash).collect();
        let end = self.engine.end().0;
        for jid in self.ledger.pushed.keys() {
            if !live.contains(&self.engine.state.hash(jid)) {
                self.ledger.ended.entry(jid.clone()).or_insert(end);
            }
        }
    }

    fn change_space(&mut self) {
        self.full = !self.full;
        let left = self.random.u64(0..20_000);
        self.disk.set_space(self.full.then(|| self.disk.used_bytes() + left));
        let _ = self.syncer.sync();
        let _ = self.syncer.maintain();
    }

    fn crash(&mut self) {
        let durable = self.syncer.durable().0;
        let disk = self.disk.crash();
        self.reopen(disk, durable);
    }

    /// Kills the process: what was written survives, what was only in memory is lost.
    fn kill(&mut self) {
        let written = if self.random.bool() {
            self.engine.journal.log.flush().map_or(self.syncer.durable().0, |lsn| lsn.0)
        } else {
            self.syncer.durable().0
        };
        let disk = self.disk.kill();
        self.reopen(disk, written);
    }

    fn reopen(&mut self, disk: SimulatedDisk, promised: u64) {
        self.crashes += 1;
        self.starts.clear();
        self.resource_starts.clear();
        if self.full {
            // Opening an existing log needs no room; what comes then may.
            self.full = false;
            disk.set_space(None);
        }
        let (engine, _) = open(&disk, u64::from(self.crashes), &self.allocation);
        self.disk = disk;
        self.engine = engine;
        self.syncer = self.engine.journal.log.syncer();
        self.check_promises(promised);
        self.check_leases(promised);
        self.engine.allocate(self.allocation.clone());
        self.engine.presume_running(self.now);
        self.start_new_life(promised);
    }

    /// Closes the store and opens it again. It knows all leases, and presumes others only if a crash has left some.
    fn close(&mut self) {
        let presumed = self.engine.presumed_until.is_some();
        if self.run(|engine, _| engine.note_closed()).is_err() || self.syncer.sync().is_err() {
            assert!(self.full);
            return self.crash();
        }
        self.note_recorded();
        for (jid, lease) in &self.ledger.leases {
            assert!(lease.is_recorded, "{jid}");
        }
        // Jobs that no limit counts wait again.
        let state = &self.engine.state;
        let is_counted = |jid: &str, lease: &Lease| {
            let job = state.reserved.get(jid).unwrap().job;
            let (queue, json) = (&lease.queue, &lease.json);
            self.allocation.limits_running(queue, &jobtype(json)) || self.engine.holds_lock(job)
        };
        let waiting = self.ledger.leases.extract_if(.., |jid, lease| !is_counted(jid, lease));
        let waiting: Vec<String> = waiting.map(|(jid, _)| jid).collect();
        let lost = std::mem::take(&mut self.leases_lost);
        let disk = self.disk.crash();
        self.reopen(disk, self.syncer.durable().0);
        let _ = self.run(|engine, _| engine.note_all_waiting());
        for jid in waiting {
            assert!(self.engine.state.reserved.get(&jid).is_none(), "{jid}");
            self.ledger.leases_ended.insert(jid, self.engine.end().0);
        }
        assert!(presumed || self.engine.presumed_until.is_none());
        self.leases_lost.extend(lost);
    }

    /// Kills the process if a segment has begun, and compares the counts. Returns the number of restarts.
    fn restart_in_new_segment(&mut self, batch: BatchId) -> u32 {
        if self.engine.journal.segments_begun == 0 {
            return 0;
        }
        let counts = |engine: &Engine<SimulatedDisk>| {
            let status = engine.state.features.batches.status(batch).unwrap();
            (status.total, status.pending, status.failed, engine.state.totals)
        };
        let expected = counts(&self.engine);
        self.engine.journal.log.flush().unwrap();
        let disk = self.disk.kill();
        let (engine, _) = open(&disk, 1, &self.allocation);
        assert_eq!(counts(&engine), expected);
        self.disk = disk;
        self.syncer = engine.journal.log.syncer();
        self.engine = engine;
        1
    }

    fn check_promises(&self, promised: u64) {
        let live: BTreeSet<u32> = live(&self.engine).map(|e| e.hash).collect();
        assert_eq!(self.engine.state.arena.len(), live.len(), "a job came back twice");
        for (jid, end) in &self.ledger.pushed {
            let there = live.contains(&self.engine.state.hash(jid));
            let ended = self.ledger.ended.get(jid);
            assert!(
                there || *end > promised || ended.is_some(),
                "{jid} was acknowledged and is lost"
            );
            let ended_for_good = ended.is_some_and(|ended| *ended <= promised);
            assert!(!there || !ended_for_good, "{jid} was acknowledged as done and came back");
        }
        let recovered = view(&self.engine);
        let possible: Vec<_> = self.views_from(promised).collect();
        if possible.iter().all(Option::is_some) {
            let found = possible.iter().flatten().any(|view| *view == recovered);
            assert!(found, "the log came back as something that never was");
        }
    }

    /// Returns the views that the log may recover to: the last durable one and all later ones.
    fn views_from(&self, promised: u64) -> impl Iterator<Item = Option<View>> + '_ {
        let last_promised = self.ledger.views.iter().rposition(|(end, _)| *end <= promised);
        let from = last_promised.unwrap_or(0);
        self.ledger.views[from..].iter().map(|(_, view)| view.clone())
    }

    /// Records that everything in the log is durable.
    fn start_new_life(&mut self, promised: u64) {
        let live: BTreeSet<u32> = live(&self.engine).map(|e| e.hash).collect();
        let seed = self.engine.state.seed;
        let there = |jid: &String| live.contains(&super::index::hash_of(jid, seed));
        let pushed: BTreeSet<String> =
            self.ledger.pushed.keys().filter(|j| there(j)).cloned().collect();
        // A callback whose record was lost is stored again.
        let was_lost = |jid: &String| {
            let ended = self.ledger.ended.get(jid);
            jid.starts_with("cb-") && ended.is_none_or(|ended| *ended > promised)
        };
        let ended = self.ledger.pushed.keys().filter(|jid| !there(jid) && !was_lost(jid)).cloned();
        self.ledger = Ledger {
            ended: ended.map(|jid| (jid, 0)).collect(),
            pushed: pushed.into_iter().map(|jid| (jid, 0)).collect(),
            views: Vec::new(),
            unique: std::mem::take(&mut self.ledger.unique),
            leases: std::mem::take(&mut self.ledger.leases),
            leases_ended: BTreeMap::new(),
        };
        for lease in self.ledger.leases.values_mut() {
            lease.reserved_at = 0;
        }
        let view = view(&self.engine);
        self.ledger.views.push((0, Some(view)));
    }

    /// Checks that all counts match the jobs.
    fn check_consistency(&self) {
        let state = &self.engine.state;
        let mut by_segment: BTreeMap<u32, u32> = BTreeMap::new();
        let mut by_queue: BTreeMap<u16, (usize, u32, u32)> = BTreeMap::new();
        let mut in_sets = [0; 3];
        for (job, entry) in state.arena.iter() {
            *by_segment.entry(entry.position.segment).or_default() += 1;
            let queue = by_queue.entry(entry.queue).or_default();
            queue.2 += 1;
            if state.is_cleared(job) {
                continue;
            }
            match entry.rest {
                EntryState::Waiting => queue.0 += 1,
                EntryState::Reserved => queue.1 += 1,
                rest => in_sets[rest.set().unwrap() as usize] += 1,
            }
        }
        for position in state.kept.values() {
            *by_segment.entry(position.segment).or_default() += 1;
        }
        let unindexed = state.arena.iter().filter(|(_, entry)| !entry.indexed).count();
        assert_eq!(state.unindexed, unindexed);
        for (segment, live) in by_segment {
            assert_eq!(state.segments.live(segment), live, "live jobs of segment {segment}");
        }
        for (number, queue) in state.queues.iter() {
            let counted = by_queue.remove(&number).unwrap_or_default();
            assert_eq!((queue.lane.len(), queue.reserved, queue.jobs), counted, "{}", queue.name);
        }
        self.check_lanes();
        self.check_bytes();
        for status in self.batches.iter().filter_map(|id| state.features.batches.status(*id)) {
            assert!(status.pending <= status.total, "{status:?}: a job was counted twice");
        }
        state.features.assert_consistent(|job| state.arena.lookup(job).is_some());
        assert!(by_queue.is_empty(), "jobs of a queue that is not there");
        assert_eq!(SetName::ALL.map(|set| state.set(set).len()), in_sets);
        let reserved: u32 = state.queues.iter().map(|(_, queue)| queue.reserved).sum();
        assert_eq!(state.reserved.len(), reserved as usize);
    }
}

impl Run {
    /// Checks that the bytes of each queue are those of its jobs that were counted, and that these are right.
    fn check_bytes(&self) {
        let state = &self.engine.state;
        for (_, queue) in state.queues.iter() {
            let mut sum = 0;
            for job in queue.lane.after(None, &state.arena) {
                let bytes = state.sizes.get(job);
                sum += u64::from(bytes);
                let mut buffer = Vec::new();
                let position = state.arena.get(job).position;
                if let Ok(body) = self.engine.journal.read(position, &mut buffer) {
                    let is_right = bytes == 0 || bytes as usize == body.json.len();
                    assert!(is_right, "{bytes} bytes instead of {}", body.json.len());
                }
            }
            assert_eq!(sum, queue.bytes.unwrap_or(0), "bytes of {}", queue.name);
        }
    }

    /// Checks that each waiting job is in a lane, or will be.
    fn check_lanes(&self) {
        let state = &self.engine.state;
        for (number, queue) in state.queues.iter() {
            let Some(fair) = &queue.fair else { continue };
            let is_laned = |job: &JobIndex| {
                let order = state.arena.get(*job).order;
                fair.laned_up_to.is_none_or(|up_to| order <= up_to)
            };
            let laned = queue.lane.after(None, &state.arena).filter(is_laned).count();
            let held = state.reserved.iter().filter(|held| {
                state.arena.get(held.job).queue == number
                    && held.lane.is_some_and(|lane| fair.is_current(lane))
            });
            fair.assert_counts(laned, held.count());
            let is_relaning =
                self.engine.relaning.iter().any(|it| it.is_of(number, fair.generation));
            assert_eq!(fair.laned_up_to.is_some(), is_relaning);
        }
    }
}

/// Records a start. In any period, at most the burst and one job per interval start.
fn check_rate(starts: &mut Vec<Timestamp>, rate: Rate, now: Timestamp) {
    starts.push(now);
    for (count, first) in starts.iter().rev().enumerate() {
        let intervals = now.since(*first).as_micros() / rate.interval().as_micros();
        assert!((count as u128) < u128::from(rate.burst()) + intervals, "{starts:?}");
    }
}

fn uses(limits: &ResourceLimits, queue: &QueueName, jobtype: &str) -> bool {
    limits.queues.contains(queue) || limits.types.contains(jobtype)
}

fn jobtype(json: &[u8]) -> String {
    let path: KeyPath = "/jobtype".parse().unwrap();
    path.find(json).unwrap().into_owned()
}

fn open(
    disk: &SimulatedDisk,
    seed: u64,
    rules: &Allocation,
) -> (Engine<SimulatedDisk>, weir_log::RecoveryReport) {
    let random = fastrand::Rng::with_seed(seed);
    Engine::open(disk.clone(), &settings(), rules, JobsMetrics::detached(), random).unwrap()
}

/// Returns the jobs that are visible.
fn live(engine: &Engine<SimulatedDisk>) -> impl Iterator<Item = &ArenaEntry> {
    let state = &engine.state;
    state.arena.iter().filter(|(job, _)| !state.is_cleared(*job)).map(|(_, entry)| entry)
}

fn view(engine: &Engine<SimulatedDisk>) -> View {
    let place = |rest: EntryState| match rest.set().map_or(StoredPlace::Queue, StoredPlace::Set) {
        StoredPlace::Queue => 0,
        StoredPlace::Set(set) => 1 + set as u8,
    };
    live(engine).map(|entry| (place(entry.rest), entry.queue, entry.order, entry.hash)).collect()
}

#[expect(clippy::disallowed_methods, reason = "a long run by hand asks for more seeds")]
fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn what_was_promised_survives_power_cuts_and_kills() {
    let runs = number_from_environment("WEIR_SIMULATION_RUNS", 300);
    let first = number_from_environment("WEIR_SIMULATION_SEED", 0);
    let (mut crashes, mut jobs, mut leases, mut lost, mut blocked) = (0, 0, 0, 0, 0);
    for seed in first..first + runs {
        let outcome = std::panic::catch_unwind(|| {
            let mut run = Run::new(seed);
            if seed % 3 == 1 {
                run.change_rules();
            }
            let steps = if seed % 8 == 7 { STEPS_LONG } else { STEPS };
            for _ in 0..steps {
                run.step();
            }
            run.crash();
            run.finish_batches();
            (
                run.crashes,
                run.next_jid,
                run.leases_restored,
                run.leases_lost_total,
                run.fetches_blocked,
            )
        });
        let Ok(outcome) = outcome else {
            panic!(
                "seed {seed} broke a promise: WEIR_SIMULATION_SEED={seed} WEIR_SIMULATION_RUNS=1"
            )
        };
        crashes += outcome.0;
        jobs += outcome.1;
        leases += outcome.2;
        lost += outcome.3;
        blocked += outcome.4;
    }
    println!(
        "{runs} runs, {crashes} power cuts and kills, {jobs} jobs, {leases} leases found again, {lost} presumed, {blocked} jobs waited for resources: every promise held"
    );
    assert!(leases > 0 && lost > 0 && blocked > 0);
}

/// Restarts after every change of segments, so that each snapshot is read.
#[test]
fn counts_agree_after_a_restart_wherever_a_segment_ends() {
    let mut run = Run::new(1);
    let definition = BatchDefinition { description: "b".to_owned(), ..BatchDefinition::default() };
    let batch = run.run(|engine, now| engine.batch_new(&definition, now)).unwrap();
    let queues = [queue("default")];
    let mut restarts = 0;
    for number in 0..4_000_u32 {
        let padding = "x".repeat(run.random.usize(0..80));
        let json = format!(
            r#"{{"jid":"jid-{number:08}","jobtype":"T","args":["{padding}"],"retry":0,"custom":{{"bid":"{batch}","track":1}}}}"#
        );
        let mut jobs = JobBatch::new();
        let job = jobs.parse_one(json.as_bytes(), run.now, &JobServerLimits::default()).unwrap();
        run.run(|engine, now| engine.store(&job, now)).unwrap();
        restarts += run.restart_in_new_segment(batch);
        let taken = run.engine.take(None, &queues, |_| 0, run.now);
        let jid = taken.unwrap().unwrap().delivery.jid;
        let report = FailureReport { jid, ..FailureReport::default() };
        run.run(|engine, now| engine.fail(None, report.clone(), now)).unwrap();
        restarts += run.restart_in_new_segment(batch);
    }
    assert!(restarts > 20, "{restarts}");
}

/// Restarts while the jobs of a cleared queue are forgotten, and begins segments meanwhile.
#[test]
fn a_job_of_a_cleared_queue_is_counted_once_wherever_a_restart_comes() {
    for slices in 0..30 {
        let mut run = Run::new(slices);
        let definition =
            BatchDefinition { description: "b".to_owned(), ..BatchDefinition::default() };
        let batch = run.run(|engine, now| engine.batch_new(&definition, now)).unwrap();
        let push = |run: &mut Run, number: u64, queue: &str, custom: &str| {
            let padding = "x".repeat(300);
            let json = format!(
                r#"{{"jid":"jid-{number:08}","jobtype":"T","args":["{padding}"],"queue":"{queue}"{custom}}}"#
            );
            let mut jobs = JobBatch::new();
            let limits = JobServerLimits::default();
            let job = jobs.parse_one(json.as_bytes(), run.now, &limits).unwrap();
            run.run(|engine, now| engine.store(&job, now)).unwrap();
        };
        for number in 0..40 {
            push(&mut run, number, "default", &format!(r#","custom":{{"bid":"{batch}"}}"#));
        }
        run.run(|engine, _| engine.act_on_queue("default", QueueAction::Clear)).unwrap();
        for number in 0..slices {
            run.run(|engine, _| engine.forget_cleared(2)).unwrap();
            for plain in 0..10 {
                push(&mut run, 1_000 + number * 10 + plain, "mailers", "");
            }
        }
        for _ in 0..3 {
            run.engine.journal.log.flush().unwrap();
            run.disk = run.disk.kill();
            let (engine, _) = open(&run.disk, 7, &Allocation::default());
            run.syncer = engine.journal.log.syncer();
            run.engine = engine;
            let status = run.engine.state.features.batches.status(batch).unwrap();
            assert_eq!((status.total, status.pending, status.failed), (40, 40, 40), "{slices}");
            push(&mut run, 9_000, "mailers", "");
        }
    }
}
