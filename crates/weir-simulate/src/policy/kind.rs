//! The names of policies.

use std::fmt;
use std::str::FromStr;

use super::{Autopilot, GitLab, Gradient2, Policy, ReplicaMetric, Replicas, Static, Vegas};
use crate::engine::{Record, simulate};
use crate::layout;
use crate::scenario::Scenario;

/// Share of the database's sessions that a class may use under GitLab's rule, tuned with the seeds for tuning.
const GITLAB_SHARE: f64 = 0.3;

/// A policy by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyKind {
    /// The layout of the scenario.
    Nothing,
    /// All queues in one strict order, the most urgent first.
    Strict,
    /// All queues by weight.
    Weighted,
    /// Threads reserved for each queue by its normal load: a split by hand.
    Split,
    /// The controller of weir-control.
    Autopilot,
    /// GitLab's rule with its published quota.
    GitLab,
    /// GitLab's rule with a quota that fits the database.
    GitLabTuned,
    /// KEDA by the length of the lists.
    Keda,
    /// HPA by latency.
    Hpa,
    /// Gradient2 with its published constants.
    Gradient2,
    /// Gradient2 within the system's own limits.
    Gradient2Tuned,
    /// Vegas with its published constants.
    Vegas,
    /// Vegas within the system's own limits.
    VegasTuned,
}

/// A name that no policy has.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no policy {0:?}; the policies are {names}", names = PolicyKind::names())]
pub struct UnknownPolicyError(String);

impl PolicyKind {
    /// All policies, in the order of tables.
    pub const ALL: [Self; 13] = [
        Self::Nothing,
        Self::Strict,
        Self::Weighted,
        Self::Split,
        Self::Autopilot,
        Self::GitLab,
        Self::GitLabTuned,
        Self::Keda,
        Self::Hpa,
        Self::Gradient2,
        Self::Gradient2Tuned,
        Self::Vegas,
        Self::VegasTuned,
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Strict => "strict",
            Self::Weighted => "weighted",
            Self::Split => "split",
            Self::Autopilot => "autopilot",
            Self::GitLab => "gitlab",
            Self::GitLabTuned => "gitlab-tuned",
            Self::Keda => "keda",
            Self::Hpa => "hpa",
            Self::Gradient2 => "gradient2",
            Self::Gradient2Tuned => "gradient2-tuned",
            Self::Vegas => "vegas",
            Self::VegasTuned => "vegas-tuned",
        }
    }

    fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Simulates a scenario under the policy.
    #[must_use]
    pub fn simulate(self, scenario: &Scenario, seed: u64) -> Record {
        match self {
            Self::Strict => simulate(&layout::strict(scenario), &mut Static::default(), seed),
            Self::Weighted => simulate(&layout::weighted(scenario), &mut Static::default(), seed),
            _ => simulate(scenario, self.policy(scenario, seed).as_mut(), seed),
        }
    }

    fn policy(self, scenario: &Scenario, seed: u64) -> Box<dyn Policy> {
        match self {
            Self::Nothing | Self::Strict | Self::Weighted => Box::new(Static::default()),
            Self::Split => Box::new(layout::split(scenario, None)),
            Self::Autopilot => Box::new(Autopilot::default()),
            Self::GitLab => Box::new(GitLab::published()),
            Self::GitLabTuned => {
                Box::new(GitLab::with_share(scenario.database.sessions, GITLAB_SHARE))
            }
            Self::Keda => Box::new(Replicas::new(ReplicaMetric::Length)),
            Self::Hpa => Box::new(Replicas::new(ReplicaMetric::Latency)),
            Self::Gradient2 => Box::new(Gradient2::new(false)),
            Self::Gradient2Tuned => Box::new(Gradient2::new(true)),
            Self::Vegas => Box::new(Vegas::new(false, seed)),
            Self::VegasTuned => Box::new(Vegas::new(true, seed)),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicyError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownPolicyError(name.to_owned()))
    }
}
