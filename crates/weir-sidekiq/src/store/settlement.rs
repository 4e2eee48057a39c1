//! Whose leases a step with a reserved job checks, and what it means for the job's features.

use super::features::FeatureEvent;

/// Whose leases the script checks when it moves a reserved job. Empty: it does not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settlement<'a> {
    /// The owner of the reservation, whose lease must be over.
    pub(super) victim: &'a str,
    /// The owner that moves the job, whose lease must be alive.
    pub(super) token: &'a str,
    /// What the step means for the features of the job, if it has any, and its tag.
    pub(super) tag: Option<(FeatureEvent, &'a str)>,
}
