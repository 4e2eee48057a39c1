//! The flags of `weir-bench exodus`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::policy::Policy;
use crate::checks::{check_range, check_range_f64};

#[derive(Debug, Clone, Args, Serialize)]
pub(crate) struct ExodusFlags {
    /// How Weir chooses the queue of a FETCH.
    #[arg(long, value_enum)]
    pub(super) policy: Policy,
    /// Jobs that wait when the workers start.
    #[arg(long, default_value_t = 200_000)]
    pub(super) backlog: u64,
    /// Times of the surge are divided by this.
    #[arg(long, default_value_t = 100.0)]
    pub(super) time_scale: f64,
    /// Worker processes.
    #[arg(long, default_value_t = 6)]
    pub(super) processes: u64,
    /// Jobs that each of them runs at once.
    #[arg(long, default_value_t = 25)]
    pub(super) threads: u64,
    /// Jobs that the database serves at full speed; with more, each takes longer in proportion.
    #[arg(long, default_value_t = 50)]
    pub(super) database_sessions: u64,
    /// End after so many hours of the surge, even if the backlog is not drained.
    #[arg(long, default_value_t = 24.0)]
    pub(super) hours_max: f64,
    /// Arrivals and service times follow from it, the same for every policy.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Weir's program; by default the one in this program's folder.
    #[arg(long)]
    #[serde(skip)]
    pub(super) weir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    #[serde(skip)]
    pub(super) json: bool,
}

impl ExodusFlags {
    pub(super) fn validate(&self) -> Result<()> {
        check_range("--backlog", self.backlog, 1, 10_000_000)?;
        check_range_f64("--time-scale", self.time_scale, 1.0, 1_000.0)?;
        check_range("--processes", self.processes, 1, 100)?;
        check_range("--threads", self.threads, 1, 1_000)?;
        check_range("--database-sessions", self.database_sessions, 1, 100_000)?;
        check_range_f64("--hours-max", self.hours_max, 0.01, 1_000.0)
    }

    pub(super) const fn workers(&self) -> u64 {
        self.processes * self.threads
    }
}
