//! The request of an X-ray.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to X-ray. In a URL: `?place=dead&by=custom.tenant&sample=2000&top=20`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct XrayQuery {
    /// `scheduled`, `retries`, `dead` or `queue:NAME`.
    pub place: String,
    /// `custom.NAME` or a JSON pointer: also group by this member of the jobs.
    #[serde(default)]
    pub by: Option<String>,
    /// Jobs to draw: [`SAMPLE_JOBS`] by default, at most [`SAMPLE_JOBS_MAX`].
    #[serde(default)]
    pub sample: Option<usize>,
    /// Read all jobs.
    #[serde(default)]
    pub full: bool,
    /// With `full`: stop after this time, with the jobs that were read.
    #[serde(default)]
    pub seconds: Option<u32>,
    /// Values in each group: [`XRAY_TOP`] by default, at most [`XRAY_TOP_MAX`].
    #[serde(default)]
    pub top: Option<usize>,
}

/// Half of the bound of a share of 50 % is then 2.2 %.
pub const SAMPLE_JOBS: usize = 2_000;

/// Half of the bound of a share of 50 % is then 0.4 %. Their keys take some 5 MB.
pub const SAMPLE_JOBS_MAX: usize = 50_000;

/// What fits on a screen.
pub const XRAY_TOP: usize = 20;

/// The length of the longest list that the console or a script shows.
pub const XRAY_TOP_MAX: usize = 1_000;
