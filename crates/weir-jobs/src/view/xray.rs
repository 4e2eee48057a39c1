//! What the jobs of a queue or set consist of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An X-ray of a queue or set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct XrayView {
    /// `scheduled`, `retries`, `dead` or `queue:NAME`.
    pub place: String,
    /// Jobs that were in it when the X-ray began.
    pub total: u64,
    /// Jobs that were read.
    pub read: u64,
    /// `samples`: drawn uniformly over all jobs, none twice; the bounds of a share are its 95 % Wilson
    /// score interval, each row by itself. `all`: all jobs were read; the counts are exact. `part`: the
    /// oldest jobs were read, until the time was over; the bounds are what is certain.
    pub coverage: XrayCoverage,
    pub seconds: f64,
    /// The member of the jobs that the group `key` is about.
    pub by: Option<String>,
    pub groups: Vec<XrayGroup>,
    /// What could not be read now, so that its jobs are missing here.
    pub missing: Option<String>,
}

/// Which jobs were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum XrayCoverage {
    Samples,
    #[default]
    All,
    Part,
}

/// The jobs by one of their properties.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct XrayGroup {
    /// `jobtype`, `queue`, `key`, `error` (the class of the last failure), `age` (in a queue or dead; in
    /// the other sets since `created_at`), `due` or `size` (of the JSON).
    pub by: String,
    /// The most frequent values first; ranges in their order.
    pub rows: Vec<XrayRow>,
    /// Jobs that lack this property.
    pub without_value: Option<XrayRow>,
    /// The jobs of all other values.
    pub other: Option<XrayRow>,
    /// The number of other values.
    pub other_values: u64,
    /// There are more other values, which were not counted.
    pub has_more_values: bool,
}

/// The jobs with one value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct XrayRow {
    pub value: Option<String>,
    /// Jobs among those that were read.
    pub read: u64,
    /// Their share of those that were read.
    pub share: f64,
    pub share_low: f64,
    pub share_high: f64,
    /// Jobs among all, extrapolated.
    pub jobs: u64,
    pub jobs_low: u64,
    pub jobs_high: u64,
}
