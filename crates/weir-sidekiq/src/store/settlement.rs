//! Whose leases a step with a reserved job checks.

/// Whose leases the script checks when it moves a reserved job. Empty: it does not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settlement<'a> {
    /// The owner of the reservation, whose lease must be over.
    pub(super) victim: &'a str,
    /// The owner that moves the job, whose lease must be alive.
    pub(super) token: &'a str,
}
