//! Which names get series of their own.
//!
//! Whoever came first keeps its place as long as it is there: were it those that are longest just now,
//! series would come and go, and there would be no end of them.

use std::collections::BTreeSet;

/// What names share that have no place.
pub(super) const OTHER: &str = "other";
/// A longer name is somebody's mischief, and would be stored with every value.
const NAME_BYTES_MAX: usize = 128;

/// How many names get series of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelLimits {
    /// Queues.
    pub metrics_queues_max: usize,
    /// Services that hold connections to the database.
    pub metrics_services_max: usize,
}

impl Default for LabelLimits {
    fn default() -> Self {
        // Mastodon has 7 queues; services are kinds of processes.
        Self { metrics_queues_max: 100, metrics_services_max: 50 }
    }
}

/// Names that have places, from one observation to the next.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub(super) queues: Names,
    pub(super) services: Names,
}

impl Admitted {
    /// Nobody has a place yet.
    #[must_use]
    pub const fn new(limits: LabelLimits) -> Self {
        let LabelLimits { metrics_queues_max, metrics_services_max } = limits;
        Self {
            queues: Names::new("metrics_queues_max", metrics_queues_max),
            services: Names::new("metrics_services_max", metrics_services_max),
        }
    }
}

/// Names of one kind.
#[derive(Clone, Debug)]
pub(super) struct Names {
    limit: &'static str,
    max: usize,
    known: BTreeSet<String>,
    left_out: usize,
}

impl Names {
    const fn new(limit: &'static str, max: usize) -> Self {
        Self { limit, max, known: BTreeSet::new(), left_out: 0 }
    }

    /// Those that are there now: who has gone makes room.
    pub(super) fn admit<'a>(&mut self, present: impl IntoIterator<Item = &'a str>) {
        let present: BTreeSet<&str> = present.into_iter().collect();
        self.known.retain(|name| present.contains(name.as_str()));
        for name in present.iter().filter(|name| name.len() <= NAME_BYTES_MAX) {
            if self.known.len() < self.max {
                self.known.insert((*name).to_owned());
            }
        }
        self.left_out = present.len() - self.known.len();
    }

    /// The name itself, or what those share that have no place.
    pub(super) fn label<'a>(&self, name: &'a str) -> &'a str {
        if self.known.contains(name) { name } else { OTHER }
    }

    /// The setting that says how many there are.
    pub(super) const fn limit(&self) -> &'static str {
        self.limit
    }

    pub(super) const fn left_out(&self) -> usize {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_keeps_its_place_until_it_goes() {
        let mut names = Names::new("x_max", 2);
        names.admit(["m", "z"]);
        names.admit(["a", "m", "z"]);
        assert_eq!((names.label("a"), names.label("z"), names.left_out()), (OTHER, "z", 1));
        names.admit(["a", "m"]);
        assert_eq!((names.label("a"), names.left_out()), ("a", 0));
        assert_eq!(names.label("z"), OTHER);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        names.admit([long.as_str()]);
        assert_eq!((names.label(&long), names.left_out()), (OTHER, 1));
    }
}
