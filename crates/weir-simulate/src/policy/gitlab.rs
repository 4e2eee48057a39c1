//! The rule that GitLab.com runs since 2025: each minute the limit of a class whose jobs spent more than a quota in the
//! database is cut to 0.8, or to 0.5 if the class also has the most sessions in `pg_stat_activity`; the limits of the
//! others grow back by 1 or 10 %.
//!
//! Source: `lib/gitlab/sidekiq_middleware/throttling` (`Strategy`, `Decider`, `RecoveryService`) of gitlab-org/gitlab,
//! and <https://runbooks.gitlab-static.net/sidekiq/sidekiq-concurrency-limit>.

use std::collections::VecDeque;

use weir_control::LoadSample;

use super::Policy;
use crate::plant::{Actuators, Plant};

/// Database seconds per minute of a class, as published; for classes of high urgency five times as many.
const QUOTA_SECONDS: f64 = 20_000.0;
const URGENT_FACTOR: f64 = 5.0;
/// Samples of `pg_stat_activity`, one per minute, by which the predominant class is determined.
const ACTIVITY_SAMPLES: usize = 4;

/// GitLab's rule.
#[derive(Debug)]
pub struct GitLab {
    quota_seconds: f64,
    activity: VecDeque<Vec<f64>>,
    limits: Vec<u32>,
}

impl GitLab {
    /// The published constants.
    #[must_use]
    pub fn published() -> Self {
        Self { quota_seconds: QUOTA_SECONDS, activity: VecDeque::new(), limits: Vec::new() }
    }

    /// A quota that fits the database: a class may use this share of the sessions that run at full speed.
    #[must_use]
    pub fn with_share(sessions: f64, share: f64) -> Self {
        Self { quota_seconds: 60.0 * sessions * share, ..Self::published() }
    }

    fn predominant(&self) -> Option<usize> {
        if self.activity.len() < ACTIVITY_SAMPLES {
            return None;
        }
        let classes = self.activity.front()?.len();
        let sums = (0..classes).map(|class| self.activity.iter().map(|it| it[class]).sum::<f64>());
        sums.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(class, _)| class)
    }
}

impl Policy for GitLab {
    fn interval_seconds(&self) -> f64 {
        60.0
    }

    fn tick(
        &mut self,
        _now_seconds: f64,
        sample: Option<&LoadSample>,
        plant: &Plant,
        actuators: &mut Actuators,
    ) -> Vec<String> {
        let Some(sample) = sample else { return Vec::new() };
        let most = plant.static_threads();
        self.limits.resize(sample.classes.len(), most);
        self.activity.push_back(sample.classes.iter().map(|class| class.sessions).collect());
        if self.activity.len() > ACTIVITY_SAMPLES {
            self.activity.pop_front();
        }
        let predominant = self.predominant();
        let mut changes = Vec::new();
        for (class, load) in sample.classes.iter().enumerate() {
            let info = &plant.roster.classes[class];
            let is_urgent = plant.roster.queues[info.queue].target_seconds <= 60.0;
            let quota = self.quota_seconds * if is_urgent { URGENT_FACTOR } else { 1.0 };
            let seconds = load.sessions * 60.0;
            let limit = self.limits[class];
            let next = match seconds > quota {
                true if predominant == Some(class) => (limit.div_ceil(2)).max(1),
                true => (limit * 4).div_ceil(5).max(1),
                false => (limit + 1).max(limit * 11 / 10).min(most),
            };
            if next != limit {
                changes.push(format!(
                    "limit of {} from {limit} to {next}: {seconds:.0} s in the database",
                    info.name
                ));
            }
            self.limits[class] = next;
            actuators.caps[class] = (next < most).then_some(next);
        }
        changes
    }
}
