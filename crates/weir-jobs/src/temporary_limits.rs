//! Limits of jobs in progress that are set at run time and end by themselves.
//!
//! They are shared resources ([`crate::resources`]) beside those of the settings, so there is one implementation of
//! limits. Reservations under them need no record in the log: after a crash, fewer of them count than jobs run, which a
//! limit that protects a database can tolerate, and a sync for each job would cost more than it protects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::allocation::{Allocation, ResourceLimits};
use crate::model::QueueName;
use crate::settings::{JobServerLimits, RESOURCES_MAX};

/// The name of the limit of all queues together, as a resource.
pub const ALL_QUEUES: &str = "autopilot:threads";
/// The names of the limits of job types begin with this.
pub const TYPE_PREFIX: &str = "autopilot:type:";

/// The longest time for which limits may be set at once. Whoever set them must renew them.
pub const LEASE_MAX: Duration = Duration::from_secs(3_600);

/// Limits of jobs in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemporaryLimits {
    /// The most jobs in progress of all these queues together.
    pub running: Option<RunningLimit>,
    /// The most jobs in progress of a type (`jobtype`), in any queue; 0: none starts.
    pub types: BTreeMap<String, u32>,
}

/// The limit of several queues together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningLimit {
    pub max: u32,
    pub queues: BTreeSet<String>,
}

/// Limits with their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeasedLimits {
    pub(crate) limits: TemporaryLimits,
    pub(crate) until: Timestamp,
}

/// Why limits cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemporaryLimitsError {
    /// The store has no limits of types.
    #[error("limits at run time need the embedded store")]
    NotEmbedded,
    /// There is no room for more resources.
    #[error("{0} resources would be in use, and at most {RESOURCES_MAX} may be")]
    TooMany(usize),
    /// The lease is too long.
    #[error("limits at run time are set for at most {} s at once", LEASE_MAX.as_secs())]
    TooLong,
}

impl TemporaryLimits {
    /// Returns whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_none() && self.types.is_empty()
    }

    /// Adds the limits to the rules of the settings.
    ///
    /// # Errors
    /// There would be more resources than a store supports.
    pub(crate) fn add_to(&self, rules: &mut Allocation) -> Result<(), TemporaryLimitsError> {
        let added = usize::from(self.running.is_some()) + self.types.len();
        let all = rules.resources.of.len() + added;
        if all > RESOURCES_MAX {
            return Err(TemporaryLimitsError::TooMany(all));
        }
        if let Some(running) = &self.running {
            rules.resources.of.insert(ALL_QUEUES.to_owned(), running.resource());
        }
        for (jobtype, max) in &self.types {
            let limits = ResourceLimits {
                types: [jobtype.clone()].into(),
                ..ResourceLimits::temporary(*max)
            };
            rules.resources.of.insert(format!("{TYPE_PREFIX}{jobtype}"), limits);
        }
        Ok(())
    }
}

impl RunningLimit {
    fn resource(&self) -> ResourceLimits {
        let limits = JobServerLimits::default();
        let queues = self.queues.iter().filter_map(|name| QueueName::parse(name, &limits).ok());
        ResourceLimits { queues: queues.collect(), ..ResourceLimits::temporary(self.max) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::ResourceRules;

    #[test]
    fn limits_are_resources_that_need_no_records() {
        let limits = TemporaryLimits {
            running: Some(RunningLimit { max: 8, queues: ["a".to_owned(), "b".to_owned()].into() }),
            types: [("Hog".to_owned(), 0)].into(),
        };
        let mut rules = Allocation::default();
        limits.add_to(&mut rules).unwrap();
        let of = &rules.resources.of;
        assert!(of.values().all(|it| it.is_temporary));
        assert_eq!(of[ALL_QUEUES].queues.len(), 2);
        assert_eq!(of["autopilot:type:Hog"].concurrency, Some(0));
    }

    #[test]
    fn more_resources_than_a_store_has_are_an_error() {
        let resource = |number: usize| (format!("r{number}"), ResourceLimits::default());
        let of = (0..RESOURCES_MAX).map(resource).collect();
        let mut rules = Allocation { resources: ResourceRules { of }, ..Allocation::default() };
        let limits =
            TemporaryLimits { types: [("Hog".to_owned(), 1)].into(), ..TemporaryLimits::default() };
        let before = rules.clone();
        assert_eq!(
            limits.add_to(&mut rules),
            Err(TemporaryLimitsError::TooMany(RESOURCES_MAX + 1))
        );
        assert_eq!(rules, before);
    }
}
