//! The loop: what happens next, and what it does.

use super::events::Step;
use super::random;
use super::record::{DecisionRecord, Record, WATCH_SECONDS};
use super::simulation::Simulation;
use super::waiting::WaitingJob;

/// Points of the charts.
const POINTS: f64 = 240.0;
/// A backlog is over when this many jobs wait, or those of one second.
const DRAINED_JOBS: f64 = 20.0;
/// A simulation that is over ends so long after its events, so that what follows them is seen.
const AFTER_SECONDS: f64 = 120.0;

/// Where the next step happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Calendar,
    Database,
    Processors(usize),
}

impl Simulation<'_> {
    pub(super) fn run(mut self) -> Record {
        self.begin();
        while let Some((at, step)) = self.next_step() {
            if at > self.scenario.seconds || self.is_over() {
                break;
            }
            self.now = at;
            match step {
                NextStep::Calendar => self.calendar_step(),
                NextStep::Database => self.on_database_done(),
                NextStep::Processors(group) => self.on_processors_done(group),
            }
        }
        self.finish()
    }

    /// Adds what is known in advance.
    fn begin(&mut self) {
        self.apply_caps();
        for class in 0..self.classes.len() {
            for _ in 0..self.classes[class].values.backlog {
                let job =
                    WaitingJob { enqueued: 0.0, id: self.next_id, attempt: 1, is_backlog: true };
                self.next_id = self.next_id.wrapping_add(1);
                self.record.classes[class].arrived += 1;
                self.lines.push(class, job);
            }
            self.schedule_arrival(class);
        }
        for (index, event) in self.scenario.events.iter().enumerate() {
            self.calendar.add(event.at_seconds, Step::EventBegins(index));
            if let Some(until) = event.until_seconds {
                self.calendar.add(until, Step::EventEnds(index));
            }
        }
        self.calendar.add(0.0, Step::Point);
        self.calendar.add(WATCH_SECONDS, Step::Watch);
        self.calendar.add(self.policy.interval_seconds(), Step::Policy);
        self.start_jobs();
    }

    /// Returns what happens next, and when.
    fn next_step(&self) -> Option<(f64, NextStep)> {
        let mut next = self.calendar.next().map(|at| (at, NextStep::Calendar));
        let mut consider = |at: Option<f64>, step: NextStep| {
            if let Some(at) = at
                && next.is_none_or(|(earliest, _)| at < earliest)
            {
                next = Some((at, step));
            }
        };
        consider(self.database.next(), NextStep::Database);
        for (index, group) in self.groups.iter().enumerate() {
            consider(group.processors.next(), NextStep::Processors(index));
        }
        next
    }

    fn calendar_step(&mut self) {
        match self.calendar.pop() {
            Some(Step::EventBegins(index)) => self.change(index, true),
            Some(Step::EventEnds(index)) => self.change(index, false),
            Some(Step::Arrival { class, generation }) => self.on_arrival(class, generation),
            Some(Step::Retry { class, id, attempt }) => {
                self.retries -= 1;
                let job = WaitingJob { enqueued: self.now, id, attempt, is_backlog: false };
                self.enqueue(class, job);
            }
            Some(Step::OutsideEnds(job)) => self.on_outside_done(job),
            Some(Step::TransactionEnds(job)) => self.end_idle_transaction(job),
            Some(Step::PoolTimeout { job, serial }) => self.on_pool_timeout(job, serial),
            Some(Step::ProcessesReady { group, processes }) => self.on_processes(group, processes),
            Some(Step::Policy) => self.ask_policy(),
            Some(Step::Watch) => {
                self.watch();
                self.calendar.add(self.now + WATCH_SECONDS, Step::Watch);
            }
            Some(Step::Point) => {
                self.add_point();
                self.calendar.add(self.now + self.point_seconds(), Step::Point);
            }
            None => {}
        }
    }

    fn point_seconds(&self) -> f64 {
        (self.scenario.seconds / POINTS).max(1.0)
    }

    /// Returns whether everything that the scenario describes is over.
    fn is_over(&self) -> bool {
        let Some(drained) = self.record.drained_at_seconds else { return false };
        self.record.has_cause
            && self.now > drained.max(self.scenario.ends_seconds()) + AFTER_SECONDS
    }

    /// Notes when the backlog is empty for the first time after its cause.
    pub(super) fn note_drained(&mut self) {
        if self.now < self.scenario.ends_seconds() || !self.record.has_cause {
            return;
        }
        let rate: f64 = self.classes.iter().map(|class| class.values.per_second).sum();
        let is_drained = self.lines.total as f64 <= rate.max(DRAINED_JOBS);
        match self.record.drained_at_seconds {
            None if is_drained => self.record.drained_at_seconds = Some(self.now),
            _ => {}
        }
    }

    fn schedule_arrival(&mut self, class: usize) {
        let live = &mut self.classes[class];
        let rate = live.values.per_second;
        if rate > 0.0 {
            let at = self.now + random::exponential(&mut live.arrivals) / rate;
            let generation = live.generation;
            self.calendar.add(at, Step::Arrival { class, generation });
        }
    }

    fn on_arrival(&mut self, class: usize, generation: u32) {
        if generation != self.classes[class].generation {
            return; // its rate has changed since; another arrival was scheduled then
        }
        self.arrive(class, self.now);
        self.schedule_arrival(class);
    }

    fn arrive(&mut self, class: usize, enqueued: f64) {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.record.classes[class].arrived += 1;
        self.arrivals[self.classes[class].queue] += 1;
        self.enqueue(class, WaitingJob { enqueued, id, attempt: 1, is_backlog: false });
    }

    fn enqueue(&mut self, class: usize, job: WaitingJob) {
        self.lines.push(class, job);
        self.start_jobs_of(self.classes[class].queue);
    }

    /// Begins or ends an event.
    fn change(&mut self, index: usize, begins: bool) {
        let event = self.scenario.events[index].clone();
        if event.blind {
            self.is_blind =
                if begins { self.is_blind + 1 } else { self.is_blind.saturating_sub(1) };
        }
        if let Some(sessions) = event.sessions {
            let sessions = if begins { sessions } else { self.scenario.database.sessions };
            self.database.set_capacity(self.now, sessions);
        }
        let Some(class) = event.class.as_ref().and_then(|name| self.scenario.class_index(name))
        else {
            return;
        };
        let before = &self.scenario.classes[class];
        let value =
            |changed: Option<f64>, before: f64| changed.filter(|_| begins).unwrap_or(before);
        let live = &mut self.classes[class];
        live.values.per_second = value(event.per_second, before.per_second);
        live.values.seconds = value(event.seconds, before.seconds);
        live.values.load = value(event.load, before.load);
        live.values.fails = value(event.fails, before.fails);
        let idle = before.idle_in_transaction_seconds;
        live.values.idle_in_transaction_seconds = value(event.idle_in_transaction_seconds, idle);
        if event.per_second.is_some() {
            live.generation += 1;
            self.schedule_arrival(class);
        }
        if begins {
            (0..event.burst).for_each(|_| self.arrive(class, self.now));
        }
    }

    fn on_processes(&mut self, group: usize, processes: u32) {
        let live = &mut self.groups[group];
        live.starting -= processes;
        live.running = (live.running + processes).min(self.actuators.processes[group]);
        live.processors.set_capacity(self.now, f64::from(live.running.max(1)));
        self.start_jobs();
    }

    fn ask_policy(&mut self) {
        self.calendar.add(self.now + self.policy.interval_seconds(), Step::Policy);
        let sample = self.sample();
        let is_seen = self.is_blind == 0;
        let seen = if is_seen { Some(&sample) } else { None };
        for text in self.policy.tick(self.now, seen, &self.plant, &mut self.actuators) {
            self.record.decisions.push(DecisionRecord { at_seconds: self.now, text });
        }
        self.apply_caps();
        self.apply_processes();
        self.start_jobs();
    }

    fn apply_caps(&mut self) {
        let caps = self.actuators.caps.iter().zip(&self.scenario.classes);
        for (line, (cap, class)) in self.lines.classes.iter_mut().zip(caps) {
            line.cap = [*cap, class.limit].into_iter().flatten().min();
        }
    }

    fn apply_processes(&mut self) {
        for (index, group) in self.plant.groups.iter().enumerate() {
            let most = if group.is_managed { group.processes_max } else { group.processes };
            let wanted = self.actuators.processes[index].clamp(u32::from(!group.is_managed), most);
            self.actuators.processes[index] = wanted;
            let live = &mut self.groups[index];
            let missing = wanted.saturating_sub(live.running + live.starting);
            if missing > 0 {
                live.starting += missing;
                let at = self.now + self.scenario.machine.process_start_seconds;
                self.calendar.add(at, Step::ProcessesReady { group: index, processes: missing });
            }
            if wanted < live.running {
                live.running = wanted;
                live.processors.set_capacity(self.now, f64::from(wanted.max(1)));
            }
        }
    }

    fn finish(mut self) -> Record {
        self.add_point();
        let in_flight = (self.jobs.len() - self.free.len()) as u64;
        self.record.finish(self.now, self.lines.total, in_flight, self.retries);
        self.record
    }
}
