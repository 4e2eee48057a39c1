//! Reads a scenario file and checks what its types do not.

use std::collections::BTreeSet;

use super::{Class, Event, Scenario, Workers};

/// Larger files are rejected.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Entries of one list; the cost of a simulated event grows with the classes of a queue.
const ENTRIES_MAX: usize = 1_000;
/// Threads of one group, as in the limits of workers.
const THREADS_MAX: u32 = 100_000;
/// Each waiting job takes 24 bytes.
const JOBS_MAX: f64 = 200e6;
/// Thirty days.
const SECONDS_MAX: f64 = 30.0 * 86_400.0;

/// Why a scenario file cannot be used.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ScenarioError {
    /// The file is not TOML, or has unknown or missing keys.
    #[error("{0}")]
    Syntax(String),
    /// The file is longer than a scenario can be.
    #[error("the file has more than 1 MiB, which no scenario needs")]
    TooLarge,
    /// A value cannot be simulated.
    #[error("{place}: {problem}")]
    Value {
        /// Where it is: `classes.Import`.
        place: String,
        /// What is wrong, and what is right.
        problem: String,
    },
}

fn problem(place: impl Into<String>, problem: impl Into<String>) -> ScenarioError {
    ScenarioError::Value { place: place.into(), problem: problem.into() }
}

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// The text is no scenario; the error names the line or the entry.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        if text.len() > FILE_BYTES_MAX {
            return Err(ScenarioError::TooLarge);
        }
        let scenario: Self =
            toml::from_str(text).map_err(|error| ScenarioError::Syntax(error.to_string()))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// A value cannot be simulated.
    pub fn check(&self) -> Result<(), ScenarioError> {
        number("seconds", self.seconds, 1.0, SECONDS_MAX)?;
        number("database.sessions", self.database.sessions, 0.01, 1e6)?;
        number("database.contention", self.database.contention, 0.0, 1e3)?;
        number("database.pool_wait_seconds", self.database.pool_wait_seconds, 0.0, SECONDS_MAX)?;
        number("database.attribution", self.database.attribution, 0.0, 1.0)?;
        if self.database.pool == Some(0) {
            return Err(problem("database.pool", "must be at least 1; omit it without a pooler"));
        }
        number("machine.memory_mb", self.machine.memory_mb, 1.0, 1e9)?;
        let start = self.machine.process_start_seconds;
        number("machine.process_start_seconds", start, 0.0, SECONDS_MAX)?;
        names("queues", self.queues.iter().map(|it| it.name.as_str()))?;
        names("classes", self.classes.iter().map(|it| it.name.as_str()))?;
        names("workers", self.workers.iter().map(|it| it.name.as_str()))?;
        for queue in &self.queues {
            let place = format!("queues.{}.target_seconds", queue.name);
            number(&place, queue.target_seconds, 0.001, SECONDS_MAX)?;
        }
        self.classes.iter().try_for_each(|class| self.check_class(class))?;
        self.workers.iter().try_for_each(|workers| self.check_workers(workers))?;
        if self.events.len() > ENTRIES_MAX {
            return Err(problem("events", format!("must be at most {ENTRIES_MAX}")));
        }
        self.events.iter().enumerate().try_for_each(|(at, event)| self.check_event(at, event))?;
        self.check_served()?;
        self.check_size()
    }

    fn check_class(&self, class: &Class) -> Result<(), ScenarioError> {
        let place = |key: &str| format!("classes.{}.{key}", class.name);
        if self.queue_index(&class.queue).is_none() {
            return Err(problem(place("queue"), format!("there is no queue {:?}", class.queue)));
        }
        number(&place("per_second"), class.per_second, 0.0, 1e6)?;
        number(&place("seconds"), class.seconds, 1e-6, SECONDS_MAX)?;
        number(&place("database"), class.database, 0.0, 1.0)?;
        number(&place("cpu"), class.cpu, 0.0, 1.0 - class.database)?;
        number(&place("load"), class.load, 0.001, 1e6)?;
        number(&place("fails"), class.fails, 0.0, 1.0)?;
        let idle = class.idle_in_transaction_seconds;
        number(&place("idle_in_transaction_seconds"), idle, 0.0, SECONDS_MAX)?;
        if !(1..=1_000).contains(&class.attempts) {
            return Err(problem(place("attempts"), "must be from 1 to 1000"));
        }
        Ok(())
    }

    fn check_workers(&self, workers: &Workers) -> Result<(), ScenarioError> {
        let place = format!("workers.{}", workers.name);
        let processes = workers.processes.max(workers.processes_max.unwrap_or(0));
        if processes.checked_mul(workers.threads).is_none_or(|all| all > THREADS_MAX) {
            return Err(problem(place, format!("has more than {THREADS_MAX} threads")));
        }
        if workers.threads == 0 || processes == 0 {
            return Err(problem(place, "needs at least one process with one thread"));
        }
        number(&format!("{place}.memory_mb"), workers.memory_mb, 0.0, 1e9)?;
        if workers.queues.len() > ENTRIES_MAX {
            return Err(problem(place, format!("has more than {ENTRIES_MAX} queues")));
        }
        for entry in &workers.queues {
            let (name, weight) = Workers::parse_queue(entry);
            if self.queue_index(name).is_none() {
                return Err(problem(place, format!("there is no queue {name:?}")));
            }
            if weight.is_none_or(|weight| !(1..=1_000).contains(&weight)) {
                let text = format!("{entry:?}: the weight must be from 1 to 1000 (\"{name},2\")");
                return Err(problem(place, text));
            }
        }
        Ok(())
    }

    fn check_event(&self, index: usize, event: &Event) -> Result<(), ScenarioError> {
        let place = |key: &str| format!("events[{index}].{key}");
        number(&place("at_seconds"), event.at_seconds, 0.0, SECONDS_MAX)?;
        if let Some(until) = event.until_seconds {
            number(&place("until_seconds"), until, event.at_seconds, SECONDS_MAX)?;
        }
        let of_class = event.burst > 0
            || event.per_second.is_some()
            || event.seconds.is_some()
            || event.load.is_some()
            || event.fails.is_some()
            || event.idle_in_transaction_seconds.is_some();
        match &event.class {
            None if of_class => {
                return Err(problem(place("class"), "missing: which class changes"));
            }
            Some(name) if self.class_index(name).is_none() => {
                return Err(problem(place("class"), format!("there is no class {name:?}")));
            }
            _ => {}
        }
        for (key, value, least, most) in [
            ("per_second", event.per_second, 0.0, 1e6),
            ("seconds", event.seconds, 1e-6, SECONDS_MAX),
            ("load", event.load, 0.001, 1e6),
            ("fails", event.fails, 0.0, 1.0),
            ("idle_in_transaction_seconds", event.idle_in_transaction_seconds, 0.0, SECONDS_MAX),
            ("sessions", event.sessions, 0.01, 1e6),
        ] {
            value.map_or(Ok(()), |value| number(&place(key), value, least, most))?;
        }
        Ok(())
    }

    /// Each queue that gets jobs must be served: otherwise its backlog only grows.
    fn check_served(&self) -> Result<(), ScenarioError> {
        let entries = self.workers.iter().flat_map(|it| &it.queues);
        let served: BTreeSet<&str> = entries.map(|entry| Workers::parse_queue(entry).0).collect();
        let unserved = self.classes.iter().find(|class| !served.contains(class.queue.as_str()));
        match unserved {
            None => Ok(()),
            Some(class) => Err(problem(
                format!("queues.{}", class.queue),
                "no workers serve it; add it to the `queues` of [[workers]]",
            )),
        }
    }

    /// Limits the memory and the time that a scenario can take.
    fn check_size(&self) -> Result<(), ScenarioError> {
        let rate = |class: &Class| {
            let of_class = |event: &&Event| event.class.as_ref() == Some(&class.name);
            let events = || self.events.iter().filter(of_class);
            let highest = events().filter_map(|it| it.per_second).fold(class.per_second, f64::max);
            let bursts: f64 = events().map(|it| f64::from(it.burst)).sum();
            highest * self.seconds + bursts + f64::from(class.backlog)
        };
        let jobs: f64 = self.classes.iter().map(rate).sum();
        if jobs > JOBS_MAX {
            let text = format!("up to {jobs:.0} jobs; at most {JOBS_MAX:.0} can be simulated");
            return Err(problem("classes", text));
        }
        Ok(())
    }

    /// Returns the position of a queue.
    #[must_use]
    pub fn queue_index(&self, name: &str) -> Option<usize> {
        self.queues.iter().position(|it| it.name == name)
    }

    /// Returns the position of a class.
    #[must_use]
    pub fn class_index(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|it| it.name == name)
    }

    /// Returns when the first event begins; 0 without any.
    #[must_use]
    pub fn begins_seconds(&self) -> f64 {
        let begins = self.events.iter().map(|event| event.at_seconds);
        begins.reduce(f64::min).unwrap_or(0.0)
    }

    /// Returns when the last event that ends has ended.
    #[must_use]
    pub fn ends_seconds(&self) -> f64 {
        let ends = self.events.iter().map(|it| it.until_seconds.unwrap_or(it.at_seconds));
        ends.fold(0.0, f64::max)
    }
}

impl Workers {
    /// Splits `name,weight`; the weight is 1 without one and `None` if it is not a number.
    pub(crate) fn parse_queue(entry: &str) -> (&str, Option<u32>) {
        match entry.split_once(',') {
            Some((name, weight)) => (name, weight.trim().parse().ok()),
            None => (entry, Some(1)),
        }
    }
}

fn number(place: &str, value: f64, least: f64, most: f64) -> Result<(), ScenarioError> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(problem(place, format!("is {value}, must be from {least} to {most}")))
}

fn names<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), ScenarioError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.len() > 200 || name.contains(',') {
            return Err(problem(list, format!("{name:?}: a name has 1 to 200 bytes and no comma")));
        }
        if !seen.insert(name) {
            return Err(problem(list, format!("{name:?} is defined twice")));
        }
    }
    match seen.len() {
        0 => Err(problem(list, "at least one is needed")),
        1..=ENTRIES_MAX => Ok(()),
        count => Err(problem(list, format!("has {count} entries, must be at most {ENTRIES_MAX}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "seconds = 60\n[database]\nsessions = 10\nconnections = 20\n\
        [[queues]]\nname = \"default\"\ntarget_seconds = 5\n\
        [[classes]]\nname = \"A\"\nqueue = \"default\"\nper_second = 1\nseconds = 0.1\n\
        [[workers]]\nname = \"w\"\nprocesses = 1\nthreads = 5\nqueues = [\"default\"]\n";

    #[test]
    fn small_file_has_defaults() {
        let scenario = Scenario::parse(SMALL).unwrap();
        assert_eq!(scenario.classes[0].attempts, 26);
        assert!(scenario.workers[0].managed && scenario.events.is_empty());
    }

    #[test]
    fn errors_name_the_entry() {
        for (from, to, expected) in [
            ("sessions = 10", "sessions = 0", "database.sessions: is 0"),
            ("per_second = 1", "per_second = -1", "classes.A.per_second: is -1"),
            ("per_second = 1", "per_second = nan", "classes.A.per_second: is NaN"),
            ("queue = \"default\"", "queue = \"x\"", "classes.A.queue: there is no queue \"x\""),
            ("queues = [\"default\"]", "queues = []", "queues.default: no workers serve it"),
            ("[\"default\"]", "[\"default,0\"]", "workers.w: \"default,0\": the weight"),
            ("threads = 5", "threads = 5000000", "workers.w: has more than 100000 threads"),
            ("seconds = 60", "seconds = 6000\nbogus = 1", "unknown field `bogus`"),
            ("seconds = 60", "", "missing field `seconds`"),
            ("per_second = 1", "per_second = 1e6\nbacklog = 4000000000", "at most 200000000"),
        ] {
            let error = Scenario::parse(&SMALL.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn event_without_its_class_is_rejected() {
        let text = format!("{SMALL}[[events]]\nat_seconds = 5\nper_second = 9\n");
        let error = Scenario::parse(&text).unwrap_err().to_string();
        assert_eq!(error, "events[0].class: missing: which class changes");
    }
}
