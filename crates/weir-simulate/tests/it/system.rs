//! Small systems.

use weir_simulate::policy::PolicyKind;
use weir_simulate::{Record, Scenario};

/// One class, one queue, one group.
pub(crate) struct System {
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    pub(crate) run_seconds: f64,
    pub(crate) database: f64,
    pub(crate) threads: u32,
    pub(crate) sessions: f64,
    /// Further keys of the class.
    pub(crate) class: &'static str,
    /// Further tables.
    pub(crate) rest: &'static str,
}

impl Default for System {
    fn default() -> Self {
        Self {
            seconds: 400_000.0,
            per_second: 0.7,
            run_seconds: 1.0,
            database: 0.0,
            threads: 1,
            sessions: 1_000.0,
            class: "",
            rest: "",
        }
    }
}

impl System {
    pub(crate) fn scenario(&self) -> Scenario {
        let text = format!(
            "seconds = {}\n[database]\nsessions = {}\nconnections = 100000\n\
             [[queues]]\nname = \"default\"\ntarget_seconds = 5\nurgent = true\n\
             [[classes]]\nname = \"Job\"\nqueue = \"default\"\nper_second = {}\nseconds = {}\ndatabase = {}\n{}\n\
             [[workers]]\nname = \"all\"\nprocesses = 1\nthreads = {}\nqueues = [\"default\"]\n{}",
            self.seconds,
            self.sessions,
            self.per_second,
            self.run_seconds,
            self.database,
            self.class,
            self.threads,
            self.rest
        );
        Scenario::parse(&text).expect("a scenario")
    }

    pub(crate) fn run(&self) -> Record {
        PolicyKind::Nothing.simulate(&self.scenario(), 1)
    }
}

/// Jobs that arrived, and those of them that are somewhere.
pub(crate) fn balance(record: &Record) -> (u64, u64) {
    let arrived = record.classes.iter().map(|class| class.arrived).sum();
    let ended: u64 = record.classes.iter().map(|class| class.done + class.dead).sum();
    (arrived, ended + record.waiting + record.in_flight + record.retries)
}
