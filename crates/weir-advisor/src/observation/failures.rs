//! Properties of sampled jobs by class: their failures and their sizes.

use std::time::Duration;

use serde::Serialize;

/// Failed jobs of one class with the same error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailingClass {
    /// The class.
    pub class: String,
    /// The error's class.
    pub error: String,
    /// Jobs in the sample.
    pub count: u64,
    /// How long ago the first of them failed for the first time.
    pub first_before: Duration,
    /// How long ago the last of them failed.
    pub last_before: Duration,
}

/// Sizes of the jobs of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PayloadSize {
    /// The class.
    pub class: String,
    /// Jobs in the sample.
    pub count: u64,
    /// Mean size in bytes, with the arguments.
    pub mean_bytes: u64,
    /// The largest of them.
    pub largest_bytes: u64,
}
