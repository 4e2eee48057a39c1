//! What an observer sees of the simulated system.

use weir_control::{ClassLoad, DatabaseLoad, LoadSample, QueueLoad, ThreadLoad};

use super::record::Point;
use super::simulation::Simulation;

impl Simulation<'_> {
    /// Returns what happened since the last sample.
    pub(super) fn sample(&mut self) -> LoadSample {
        let span = (self.now - self.sampled).max(1e-9);
        self.sampled = self.now;
        let queues = (0..self.arrivals.len()).map(|queue| QueueLoad {
            waiting: self.lines.waiting(queue) as u64,
            oldest_age_seconds: self.lines.oldest(queue).map_or(0.0, |oldest| self.now - oldest),
            arrivals: self.arrivals[queue],
            in_flight: self.lines.in_flight(queue),
        });
        let queues = queues.collect();
        self.arrivals.fill(0);
        let database = DatabaseLoad {
            connections: self.connections,
            connections_max: self.scenario.database.connections,
            waiting_for_connection: self.pool_waits.take(self.now) / span,
            lock_waits: self.lock_waits.take(self.now) / span,
            confidence: self.scenario.database.attribution,
        };
        LoadSample {
            at_seconds: self.now,
            span_seconds: span,
            queues,
            classes: self.class_loads(span),
            threads: ThreadLoad {
                limit: self.actuators.threads.unwrap_or_else(|| self.plant.static_threads()),
                busy: self.managed_busy(),
                max: self.threads_max,
            },
            database: Some(database),
        }
    }

    fn class_loads(&mut self, span: f64) -> Vec<ClassLoad> {
        let now = self.now;
        let lines = &self.lines.classes;
        let loads = self.classes.iter_mut().zip(lines).map(|(live, line)| ClassLoad {
            waiting: line.jobs.len() as u64,
            in_flight: line.in_flight,
            finished: std::mem::take(&mut live.finished),
            run_seconds: std::mem::take(&mut live.run_seconds),
            sessions: live.sessions.take(now) / span,
            idle_sessions: live.idle_sessions.take(now) / span,
            blocks: live.blocks.take(now) / span,
        });
        loads.collect()
    }

    /// Adds a point to the charts.
    pub(super) fn add_point(&mut self) {
        let queues = 0..self.plant.roster.queues.len();
        let point = Point {
            at_seconds: self.now,
            waiting: queues.clone().map(|queue| self.lines.waiting(queue) as f64).collect(),
            busy: queues.map(|queue| f64::from(self.lines.in_flight(queue))).collect(),
            sessions: self
                .classes
                .iter()
                .map(|class| class.sessions.value() + class.idle_sessions.value())
                .sum(),
            slowdown: 1.0 / self.database.speed(),
            threads: self
                .actuators
                .threads
                .map_or_else(|| f64::from(self.plant.static_threads()), f64::from),
        };
        self.record.points.push(point);
    }

    /// Judges the state for the record.
    pub(super) fn watch(&mut self) {
        let is_late = |queue: usize| {
            let oldest = self.lines.oldest_where(queue, |class| !self.record.is_culprit[class]);
            let record = &self.record.queues[queue];
            record.is_urgent
                && oldest.is_some_and(|oldest| self.now - oldest > record.target_seconds)
        };
        let is_late = (0..self.record.queues.len()).any(is_late);
        self.record.judge(self.now, is_late);
        self.note_drained();
    }
}
