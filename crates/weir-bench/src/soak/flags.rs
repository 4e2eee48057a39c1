//! The flags of `weir-bench soak`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::fault::Fault;
use crate::checks::{check_range, check_range_f64};

const SECONDS_MAX: f64 = 7.0 * 86_400.0;
/// Shorter ones would overlap with the recovery from the fault before.
const FAULT_INTERVAL_MIN: f64 = 5.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// One Weir with the embedded store and all parts.
    One,
    /// Three Weirs with jobs and realtime in one Redis, each with a front of its own.
    Three,
}

impl Shape {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Three => "three",
        }
    }

    pub(super) const fn nodes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Three => 3,
        }
    }
}

#[derive(Debug, Clone, Args, Serialize)]
pub(crate) struct SoakFlags {
    /// How many Weirs, and which stores they have.
    #[arg(long, value_enum, default_value = "one")]
    pub(super) shape: Shape,
    /// How long load is generated. Draining takes up to five minutes more.
    #[arg(long, default_value_t = 3_600.0)]
    pub(super) seconds: f64,
    /// Seconds between the beginnings of two faults.
    #[arg(long, default_value_t = 60.0)]
    pub(super) fault_interval: f64,
    /// Inject only these; repeatable. Without it, all that this machine permits.
    #[arg(long = "fault", value_enum)]
    pub(super) faults: Vec<Fault>,
    /// Jobs per second over all producers.
    #[arg(long, default_value_t = 100.0)]
    pub(super) jobs_per_second: f64,
    /// Events per second in each of the eight channels.
    #[arg(long, default_value_t = 10.0)]
    pub(super) events_per_second: f64,
    /// Requests per second at the front of each node.
    #[arg(long, default_value_t = 40.0)]
    pub(super) requests_per_second: f64,
    /// Order, times and victims of the faults follow from it. By default a random one, which is printed.
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// Weir's program; by default the one in this program's folder.
    #[arg(long)]
    #[serde(skip)]
    pub(super) weir: Option<PathBuf>,
    /// libfaketime's library (libfaketimeMT.so.1), for steps of the clock; by default where Debian installs it.
    #[arg(long)]
    #[serde(skip)]
    pub(super) faketime: Option<PathBuf>,
    /// Keep all files of the run here, including the logs of the nodes. The folder must be empty or not exist.
    #[arg(long)]
    #[serde(skip)]
    pub(super) keep: Option<PathBuf>,
    /// Write the report to this file as Markdown.
    #[arg(long)]
    #[serde(skip)]
    pub(super) report: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    #[serde(skip)]
    pub(super) json: bool,
}

impl SoakFlags {
    pub(super) fn validate(&self) -> Result<()> {
        check_range_f64("--seconds", self.seconds, 1.0, SECONDS_MAX)?;
        check_range_f64("--fault-interval", self.fault_interval, FAULT_INTERVAL_MIN, SECONDS_MAX)?;
        check_range_f64("--jobs-per-second", self.jobs_per_second, 1.0, 10_000.0)?;
        check_range_f64("--events-per-second", self.events_per_second, 0.1, 1_000.0)?;
        check_range_f64("--requests-per-second", self.requests_per_second, 1.0, 10_000.0)?;
        check_range("--seed", self.seed.unwrap_or_default(), 0, u64::MAX)
    }
}
