//! A job from its start to its end.

use super::events::Step;
use super::random;
use super::simulation::{Running, Simulation};
use super::waiting::WaitingJob;

/// How long it takes to learn that the database has no connection left.
const REJECTED_SECONDS: f64 = 0.01;

impl Simulation<'_> {
    pub(super) fn start_job(&mut self, class: usize, group: usize, waiting: WaitingJob) {
        let values = &self.classes[class].values;
        let mut rng = random::stream(self.seed ^ 0x6A6F_6273, u64::from(waiting.id));
        let seconds = values.seconds * random::size(values.distribution, &mut rng);
        let mut luck =
            random::stream(u64::from(waiting.attempt), u64::from(waiting.id) ^ self.seed);
        let fails = values.fails > 0.0 && luck.f64() < values.fails;
        let uses_database = values.database > 0.0 || values.lock.is_some();
        let outside = seconds * (1.0 - values.database - values.cpu).max(0.0);
        let job = Running {
            class,
            group,
            id: waiting.id,
            attempt: waiting.attempt,
            serial: 0,
            started: self.now,
            computing: seconds * values.cpu,
            work: seconds * values.database,
            load: values.load,
            in_database: 0.0,
            fails,
            has_connection: uses_database && self.connections < self.scenario.database.connections,
            has_pooled: false,
        };
        let slot = self.place(job);
        self.groups[group].busy += 1;
        self.record.started(
            self.now,
            class,
            self.classes[class].queue,
            waiting.enqueued,
            waiting.is_backlog,
        );
        if uses_database && !job.has_connection {
            self.record.rejected_connections += 1;
            self.jobs[slot as usize].fails = true;
            self.jobs[slot as usize].computing = 0.0;
            self.calendar.add(self.now + REJECTED_SECONDS, Step::OutsideEnds(slot));
            return;
        }
        self.connections += u32::from(job.has_connection);
        self.record.connections_max = self.record.connections_max.max(self.connections);
        if outside > 0.0 {
            self.calendar.add(self.now + outside, Step::OutsideEnds(slot));
        } else {
            self.on_outside_done(slot);
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "threads are limited by the scenario's check"
    )]
    fn place(&mut self, mut job: Running) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                job.serial = self.jobs[slot as usize].serial + 1;
                self.jobs[slot as usize] = job;
                slot
            }
            None => {
                self.jobs.push(job);
                (self.jobs.len() - 1) as u32
            }
        }
    }

    pub(super) fn on_outside_done(&mut self, slot: u32) {
        let job = self.jobs[slot as usize];
        if job.computing > 0.0 {
            self.groups[job.group].processors.add(self.now, slot, job.computing, 1.0);
        } else {
            self.enter_pool(slot);
        }
    }

    pub(super) fn on_processors_done(&mut self, group: usize) {
        let Some(slot) = self.groups[group].processors.pop(self.now) else { return };
        self.groups[group].processors.release(1.0);
        self.enter_pool(slot);
    }

    fn enter_pool(&mut self, slot: u32) {
        let job = self.jobs[slot as usize];
        if !job.has_connection {
            self.end_job(slot); // it does not use the database
        } else if self.pool_free > 0 {
            self.pool_free -= 1;
            self.jobs[slot as usize].has_pooled = true;
            self.enter_database(slot);
        } else {
            self.pool_waiting.push_back(slot);
            self.pool_waits.add(self.now, 1.0);
            let at = self.now + self.scenario.database.pool_wait_seconds;
            self.calendar.add(at, Step::PoolTimeout { job: slot, serial: job.serial });
        }
    }

    pub(super) fn on_pool_timeout(&mut self, slot: u32, serial: u32) {
        if self.jobs[slot as usize].serial != serial || self.jobs[slot as usize].has_pooled {
            return;
        }
        let Some(at) = self.pool_waiting.iter().position(|it| *it == slot) else { return };
        self.pool_waiting.remove(at);
        self.pool_waits.add(self.now, -1.0);
        self.record.pool_timeouts += 1;
        self.jobs[slot as usize].fails = true;
        self.end_job(slot);
    }

    fn enter_database(&mut self, slot: u32) {
        let class = self.jobs[slot as usize].class;
        self.jobs[slot as usize].in_database = self.now;
        match self.classes[class].lock {
            None => self.work(slot),
            Some(lock) if self.locks[lock].holder.is_none() => {
                self.locks[lock].holder = Some(slot);
                self.work(slot);
            }
            Some(lock) => {
                self.locks[lock].waiting.push_back(slot);
                self.lock_waits.add(self.now, 1.0);
                self.blocked_by(lock, 1.0);
            }
        }
    }

    /// Adds sessions to those that wait for the class which holds a lock.
    fn blocked_by(&mut self, lock: usize, sessions: f64) {
        if let Some(holder) = self.locks[lock].holder {
            let class = self.jobs[holder as usize].class;
            self.classes[class].blocks.add(self.now, sessions);
        }
    }

    fn work(&mut self, slot: u32) {
        let job = self.jobs[slot as usize];
        self.classes[job.class].sessions.add(self.now, 1.0);
        self.database.add(self.now, slot, job.work, job.load);
    }

    pub(super) fn on_database_done(&mut self) {
        let Some(slot) = self.database.pop(self.now) else { return };
        let job = self.jobs[slot as usize];
        self.database.release(job.load);
        self.record.database_done(self.now, job.class, job.work, self.now - job.in_database);
        let idle = self.classes[job.class].values.idle_in_transaction_seconds;
        self.classes[job.class].sessions.add(self.now, -1.0);
        if idle > 0.0 {
            self.classes[job.class].idle_sessions.add(self.now, 1.0);
            self.calendar.add(self.now + idle, Step::TransactionEnds(slot));
        } else {
            self.end_transaction(slot);
        }
    }

    /// Ends a transaction that was idle.
    pub(super) fn end_idle_transaction(&mut self, slot: u32) {
        let class = self.jobs[slot as usize].class;
        self.classes[class].idle_sessions.add(self.now, -1.0);
        self.end_transaction(slot);
    }

    /// Releases the lock and the connection, and ends the job.
    fn end_transaction(&mut self, slot: u32) {
        let class = self.jobs[slot as usize].class;
        if let Some(lock) = self.classes[class].lock {
            self.release_lock(lock);
        }
        self.jobs[slot as usize].has_pooled = false;
        match self.pool_waiting.pop_front() {
            Some(next) => {
                self.pool_waits.add(self.now, -1.0);
                self.jobs[next as usize].has_pooled = true;
                self.enter_database(next);
            }
            None => self.pool_free += 1,
        }
        self.end_job(slot);
    }

    /// Gives the lock to the first in line.
    fn release_lock(&mut self, lock: usize) {
        let waiting = self.locks[lock].waiting.len() as f64;
        self.blocked_by(lock, -waiting);
        let next = self.locks[lock].waiting.pop_front();
        self.locks[lock].holder = next;
        if let Some(next) = next {
            self.lock_waits.add(self.now, -1.0);
            self.blocked_by(lock, waiting - 1.0);
            self.work(next);
        }
    }

    fn end_job(&mut self, slot: u32) {
        let job = self.jobs[slot as usize];
        self.connections -= u32::from(job.has_connection);
        self.groups[job.group].busy -= 1;
        self.lines.classes[job.class].in_flight -= 1;
        let live = &mut self.classes[job.class];
        live.finished += 1;
        live.run_seconds += self.now - job.started;
        let (attempts, queue) = (live.values.attempts, live.queue);
        self.jobs[slot as usize].serial += 1;
        self.free.push(slot);
        if !job.fails {
            self.record.classes[job.class].done += 1;
        } else if job.attempt >= attempts {
            self.record.classes[job.class].dead += 1;
        } else {
            self.record.classes[job.class].failed += 1;
            self.retries += 1;
            let delay = random::retry_delay(job.attempt, &mut self.choices);
            let step = Step::Retry { class: job.class, id: job.id, attempt: job.attempt + 1 };
            self.calendar.add(self.now + delay, step);
        }
        self.on_thread_free(job.group, queue);
    }
}
