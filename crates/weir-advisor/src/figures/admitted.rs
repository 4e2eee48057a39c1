//! Limits the names that get their own time series.
//!
//! A name is admitted first come, first served, and stays admitted while it exists. Selecting the
//! longest queues instead would create ever new series.

use std::collections::BTreeSet;

/// The label shared by names that are not admitted.
pub(super) const OTHER: &str = "other";
/// Longer names are never admitted, because a label is stored with every value.
const NAME_BYTES_MAX: usize = 128;

/// Maximum numbers of names with their own series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelLimits {
    /// Number of queues.
    pub metrics_queues_max: usize,
    /// Number of services with connections to the database.
    pub metrics_services_max: usize,
}

impl Default for LabelLimits {
    fn default() -> Self {
        // Mastodon has 7 queues. Services are few, as they are kinds of processes.
        Self { metrics_queues_max: 100, metrics_services_max: 50 }
    }
}

/// The admitted names, to be passed from one observation to the next.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub(super) queues: AdmittedNames,
    pub(super) services: AdmittedNames,
}

impl Admitted {
    /// Creates a set without admitted names.
    #[must_use]
    pub const fn new(limits: LabelLimits) -> Self {
        let LabelLimits { metrics_queues_max, metrics_services_max } = limits;
        Self {
            queues: AdmittedNames::new("metrics_queues_max", metrics_queues_max),
            services: AdmittedNames::new("metrics_services_max", metrics_services_max),
        }
    }
}

/// Admitted names of one kind, each with its Redis ("" if there is only one).
#[derive(Clone, Debug)]
pub(super) struct AdmittedNames {
    limit: &'static str,
    max: usize,
    known: BTreeSet<(String, String)>,
    left_out: usize,
}

impl AdmittedNames {
    const fn new(limit: &'static str, max: usize) -> Self {
        Self { limit, max, known: BTreeSet::new(), left_out: 0 }
    }

    /// Updates the set with the names that are `present`. Drops absent names, unless their Redis
    /// `is_away`.
    pub(super) fn admit(
        &mut self,
        present: &BTreeSet<(String, String)>,
        is_away: impl Fn(&str) -> bool,
    ) {
        self.known.retain(|name| is_away(&name.0) || present.contains(name));
        for name in present.iter().filter(|(_, name)| name.len() <= NAME_BYTES_MAX) {
            if self.known.len() < self.max {
                self.known.insert(name.clone());
            }
        }
        self.left_out = present.difference(&self.known).count();
    }

    /// Updates a set of names that belong to no Redis.
    pub(super) fn admit_plain<'a>(&mut self, present: impl IntoIterator<Item = &'a str>) {
        let present = present.into_iter().map(|name| (String::new(), name.to_owned())).collect();
        self.admit(&present, |_| false);
    }

    /// Returns the label for a name: the name itself if admitted, otherwise [`OTHER`].
    pub(super) fn label<'a>(&self, shard: &str, name: &'a str) -> &'a str {
        let is_known = self.known.contains(&(shard.to_owned(), name.to_owned()));
        if is_known { name } else { OTHER }
    }

    /// Returns the setting that limits this set.
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
        let mut names = AdmittedNames::new("x_max", 2);
        names.admit_plain(["m", "z"]);
        names.admit_plain(["a", "m", "z"]);
        let label = |names: &AdmittedNames, name| names.label("", name).to_owned();
        assert_eq!((label(&names, "a"), label(&names, "z")), (OTHER.to_owned(), "z".to_owned()));
        assert_eq!(names.left_out(), 1);
        names.admit_plain(["a", "m"]);
        assert_eq!((label(&names, "a"), names.left_out()), ("a".to_owned(), 0));
        assert_eq!(label(&names, "z"), OTHER);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        names.admit_plain([long.as_str()]);
        assert_eq!((names.label("", &long), names.left_out()), (OTHER, 1));
    }

    #[test]
    fn who_is_of_a_redis_that_is_away_keeps_its_place() {
        let of = |names: &[(&str, &str)]| -> BTreeSet<(String, String)> {
            names.iter().map(|(shard, name)| ((*shard).to_owned(), (*name).to_owned())).collect()
        };
        let mut names = AdmittedNames::new("x_max", 2);
        names.admit(&of(&[("a", "push"), ("b", "push")]), |_| false);
        names.admit(&of(&[("b", "mailers"), ("b", "push")]), |shard| shard == "a");
        assert_eq!((names.label("a", "push"), names.label("b", "mailers")), ("push", OTHER));
        assert_eq!(names.left_out(), 1);
        names.admit(&of(&[("b", "mailers"), ("b", "push")]), |_| false);
        assert_eq!((names.label("a", "push"), names.label("b", "mailers")), (OTHER, "mailers"));
    }
}
