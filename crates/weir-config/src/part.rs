//! The parts that can run alone (`weir up --only`).

/// A part of Weir.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The job server.
    Jobs,
    /// Apps, on front.listen.
    Front,
    /// Realtime channels, on front.listen and realtime.listen.
    Realtime,
    /// The index of gems, on gems.listen and at gems.mount.
    Gems,
    /// Processes that work off jobs.
    Workers,
    /// The console, with the admin API and /metrics, over TCP.
    Console,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Jobs, Self::Front, Self::Realtime, Self::Gems, Self::Workers, Self::Console];

    /// Returns whether the part is enabled by `only` (empty: all).
    pub fn is_among(self, only: &[Self]) -> bool {
        only.is_empty() || only.contains(&self)
    }

    /// Returns its name in descriptors, the ready line and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Front => "front",
            Self::Realtime => "realtime",
            Self::Gems => "gems",
            Self::Workers => "workers",
            Self::Console => "console",
        }
    }
}
