//! The flags of `weir-bench tenants`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::checks::{check_range, check_range_f64};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Policy {
    /// Lanes by tenant (`fair_by`).
    Fair,
    /// The oldest job of the queue first.
    Fifo,
}

impl Policy {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Fifo => "fifo",
        }
    }
}

#[derive(Debug, Clone, Args, Serialize)]
pub(crate) struct TenantsFlags {
    /// Whether the queue knows its tenants.
    #[arg(long, value_enum, default_value_t = Policy::Fair)]
    pub(super) policy: Policy,
    /// Jobs that run at once, each on a connection of its own.
    #[arg(long, default_value_t = 100)]
    pub(super) slots: u64,
    /// Slots that a tenant above its share may not take (`fair_headroom`).
    #[arg(long, default_value_t = 14)]
    pub(super) headroom: u64,
    /// Tenants beside the hog.
    #[arg(long, default_value_t = 200)]
    pub(super) quiet_tenants: u64,
    /// Jobs of all quiet tenants together that arrive per second (Poisson).
    #[arg(long, default_value_t = 100.0)]
    pub(super) quiet_rate: f64,
    /// Mean seconds that a job of a quiet tenant runs (exponential).
    #[arg(long, default_value_t = 0.2)]
    pub(super) quiet_service: f64,
    /// Jobs that the hog pushes at once.
    #[arg(long, default_value_t = 60_000)]
    pub(super) hog_jobs: u64,
    /// Mean seconds that a job of the hog runs (exponential).
    #[arg(long, default_value_t = 0.2)]
    pub(super) hog_service: f64,
    /// Seconds after which the hog pushes its jobs; waits and shares count from then on.
    #[arg(long, default_value_t = 10.0)]
    pub(super) hog_at: f64,
    /// Seconds of the run.
    #[arg(long, default_value_t = 120.0)]
    pub(super) seconds: f64,
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

impl TenantsFlags {
    pub(super) fn validate(&self) -> Result<()> {
        check_range("--slots", self.slots, 1, 1_000)?;
        check_range("--headroom", self.headroom, 0, self.slots)?;
        check_range("--quiet-tenants", self.quiet_tenants, 1, 1_000_000)?;
        check_range_f64("--quiet-rate", self.quiet_rate, 0.1, 10_000.0)?;
        check_range_f64("--quiet-service", self.quiet_service, 0.0, 3_600.0)?;
        check_range("--hog-jobs", self.hog_jobs, 0, 10_000_000)?;
        check_range_f64("--hog-service", self.hog_service, 0.0, 3_600.0)?;
        check_range_f64("--seconds", self.seconds, 1.0, 3_600.0)?;
        check_range_f64("--hog-at", self.hog_at, 0.0, self.seconds)
    }
}
