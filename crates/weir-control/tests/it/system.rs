//! A system whose samples a test chooses.

use weir_control::load::{ClassInfo, QueueInfo};
use weir_control::{
    ClassLoad, Controls, DatabaseLoad, Decision, History, LoadSample, QueueLoad, Roster, Settings,
    State, ThreadLoad, decide,
};

/// Two queues, `urgent` with the class Mail and `default` with the classes Import and Report; 40 threads.
pub(crate) struct System {
    pub(crate) now: f64,
    pub(crate) settings: Settings,
    pub(crate) history: History,
    pub(crate) controls: Controls,
    pub(crate) sample: LoadSample,
    pub(crate) roster: Roster,
}

/// A class with so many jobs per second of so many seconds in the database, which is half of their run time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small positive numbers"
)]
pub(crate) fn class(per_second: f64, seconds: f64) -> ClassLoad {
    let busy = per_second * seconds * 2.0;
    ClassLoad {
        waiting: 0,
        in_flight: busy.round() as u32,
        finished: (per_second * 5.0).round() as u64,
        run_seconds: busy * 5.0,
        sessions: per_second * seconds,
        idle_sessions: 0.0,
        blocks: 0.0,
    }
}

impl System {
    pub(crate) fn new() -> Self {
        let queue = |name: &str, target_seconds, fresh_lane| QueueInfo {
            name: name.to_owned(),
            target_seconds,
            fresh_lane,
            is_managed: true,
        };
        let info =
            |name: &str, queue| ClassInfo { name: name.to_owned(), queue, can_be_limited: true };
        let roster = Roster {
            queues: vec![queue("urgent", 5.0, false), queue("default", 60.0, true)],
            classes: vec![info("Mail", 0), info("Import", 1), info("Report", 1)],
            shares_threads_itself: false,
        };
        let sample = LoadSample {
            at_seconds: 0.0,
            span_seconds: 5.0,
            queues: vec![QueueLoad { arrivals: 50, ..QueueLoad::default() }; 2],
            classes: vec![class(10.0, 0.1), class(10.0, 0.4), class(10.0, 0.2)],
            threads: ThreadLoad { limit: 40, busy: 14, max: 80 },
            database: Some(DatabaseLoad {
                connections: 14,
                connections_max: 100,
                confidence: 0.9,
                ..DatabaseLoad::default()
            }),
        };
        let (now, settings) = (0.0, Settings::default());
        let (history, controls) = (History::default(), Controls::default());
        Self { now, settings, history, controls, sample, roster }
    }

    /// A system that has been healthy for ten minutes.
    pub(crate) fn healthy() -> Self {
        let mut system = Self::new();
        system.run(600.0);
        system
    }

    /// Samples and decides every five seconds; applies the decisions, and returns them.
    pub(crate) fn run(&mut self, seconds: f64) -> Vec<Decision> {
        let until = self.now + seconds;
        let mut decisions = Vec::new();
        while self.now < until {
            self.now += self.settings.interval_seconds;
            let mut sample = self.sample.clone();
            sample.at_seconds = self.now;
            sample.threads.limit = self.controls.threads.unwrap_or(40);
            self.history.record(sample, &self.roster, &self.settings);
            decisions.extend(self.decide());
        }
        decisions
    }

    /// Decides without a new sample.
    pub(crate) fn decide(&mut self) -> Option<Decision> {
        let state = State {
            now_seconds: self.now,
            roster: &self.roster,
            controls: &self.controls,
            static_threads: 40,
            thread_steps: &[],
        };
        let decision = decide(&state, &self.settings, &self.history)?;
        decision.change.apply(&mut self.controls);
        self.history.note(decision.clone());
        Some(decision)
    }
}
