//! The flags of `weir-bench forecasts`.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::checks::{check_range, check_range_f64};

#[derive(Debug, Clone, Args, Serialize)]
pub(crate) struct ForecastsFlags {
    /// Rounds, each of about two minutes. In each, a queue of each scenario drains.
    #[arg(long, default_value_t = 10)]
    pub(super) rounds: u64,
    /// Rounds of Sidekiq, each of about five minutes, after those of Weir's own queues.
    #[arg(long, default_value_t = 1)]
    pub(super) sidekiq_rounds: u64,
    /// Threads that compute beside it, on and off for 5 to 20 s.
    #[arg(long, default_value_t = 2)]
    pub(super) busy_threads: u64,
    /// Fail if a smaller share of the forecasts is right: the time to drain is within the range.
    #[arg(long, default_value_t = 0.85)]
    pub(super) within_min: f64,
    /// Fail with fewer ranges.
    #[arg(long, default_value_t = 100)]
    pub(super) ranges_min: u64,
    /// Backlogs, workers, run times, arrivals and the times of the forecasts follow from it.
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

impl ForecastsFlags {
    pub(super) fn validate(&self) -> Result<()> {
        check_range("--rounds", self.rounds, 0, 100)?;
        check_range("--sidekiq-rounds", self.sidekiq_rounds, 0, 100)?;
        check_range("--busy-threads", self.busy_threads, 0, 1_000)?;
        check_range("--ranges-min", self.ranges_min, 0, 100_000)?;
        check_range_f64("--within-min", self.within_min, 0.0, 1.0)?;
        let rounds = self.rounds + self.sidekiq_rounds;
        ensure!(rounds > 0, "--rounds 0 and --sidekiq-rounds 0: there is nothing to measure");
        Ok(())
    }
}
