//! How many jobs of each class ended, where a system counts only all of them together: estimated from what was taken
//! from each queue and from which classes its jobs are.

use std::collections::BTreeMap;

/// What was seen of a queue's jobs counts for about so many samples.
const FORGET_SAMPLES: f64 = 20.0;
/// Classes that are remembered of a queue.
const CLASSES_MAX: usize = 100;

/// A queue between two samples.
#[derive(Clone, Debug, Default)]
pub struct QueueSeen {
    /// Its name.
    pub name: String,
    /// Jobs that were taken from it, about.
    pub taken: f64,
    /// Jobs of a sample of those that wait, by class.
    pub waiting: Vec<(String, u64)>,
    /// Jobs in progress, by class.
    pub in_progress: Vec<(String, u64)>,
}

/// Remembers from samples of which classes a queue's jobs are.
#[derive(Clone, Debug, Default)]
pub struct ClassEstimate {
    queues: BTreeMap<String, BTreeMap<String, f64>>,
}

impl ClassEstimate {
    /// Divides the jobs that ended among the classes. Where a queue has had no waiting jobs, its jobs in progress show
    /// its classes, of which those that run for long are then counted too often.
    pub fn divide(&mut self, ended: f64, queues: &[QueueSeen]) -> BTreeMap<String, f64> {
        self.queues.retain(|name, _| queues.iter().any(|queue| queue.name == *name));
        let mut weights: BTreeMap<String, f64> = BTreeMap::new();
        let mut in_progress: BTreeMap<String, f64> = BTreeMap::new();
        for queue in queues {
            let shares = self.shares(queue);
            for (class, share) in shares {
                *weights.entry(class).or_default() += share * queue.taken.max(0.0);
            }
            for (class, jobs) in &queue.in_progress {
                *in_progress.entry(class.clone()).or_default() += *jobs as f64;
            }
        }
        let is_known = weights.values().sum::<f64>() > 0.0;
        let weights = if is_known { weights } else { in_progress };
        let all: f64 = weights.values().sum();
        if all <= 0.0 {
            return BTreeMap::new();
        }
        weights.into_iter().map(|(class, weight)| (class, ended * weight / all)).collect()
    }

    /// Returns the shares of a queue's classes, with what it shows now.
    fn shares(&mut self, queue: &QueueSeen) -> Vec<(String, f64)> {
        let seen = self.queues.entry(queue.name.clone()).or_default();
        let waiting = queue.waiting.iter().map(|(_, jobs)| *jobs).sum::<u64>();
        let now = if waiting > 0 { Some(&queue.waiting) } else { None };
        // Jobs in progress say less: they show nothing that is not known already.
        let now = now.or_else(|| seen.is_empty().then_some(&queue.in_progress));
        if let Some(now) = now {
            let all = now.iter().map(|(_, jobs)| *jobs as f64).sum::<f64>().max(1.0);
            seen.values_mut().for_each(|share| *share *= 1.0 - 1.0 / FORGET_SAMPLES);
            for (class, jobs) in now {
                if seen.len() < CLASSES_MAX || seen.contains_key(class) {
                    *seen.entry(class.clone()).or_default() += *jobs as f64 / all / FORGET_SAMPLES;
                }
            }
            seen.retain(|_, share| *share > 1e-4);
        }
        let all = seen.values().sum::<f64>().max(1e-9);
        seen.iter().map(|(class, share)| (class.clone(), share / all)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(
        name: &str,
        taken: f64,
        waiting: &[(&str, u64)],
        running: &[(&str, u64)],
    ) -> QueueSeen {
        let owned = |all: &[(&str, u64)]| {
            all.iter().map(|(class, jobs)| ((*class).to_owned(), *jobs)).collect()
        };
        QueueSeen {
            name: name.to_owned(),
            taken,
            waiting: owned(waiting),
            in_progress: owned(running),
        }
    }

    fn is_near(found: &BTreeMap<String, f64>, class: &str, expected: f64) -> bool {
        (found.get(class).copied().unwrap_or_default() - expected).abs() < 1e-6
    }

    #[test]
    fn jobs_are_divided_by_what_was_taken_and_of_which_classes_it_is() {
        let mut estimate = ClassEstimate::default();
        let push = queue("push", 90.0, &[("Push", 40)], &[("Push", 3)]);
        let low = queue("low", 10.0, &[("Import", 10), ("Clean", 30)], &[("Import", 9)]);
        let found = estimate.divide(200.0, &[push, low]);
        assert!(is_near(&found, "Push", 180.0), "{found:?}");
        assert!(is_near(&found, "Import", 5.0) && is_near(&found, "Clean", 15.0), "{found:?}");
        // Its classes are remembered when none of its jobs waits.
        let low = queue("low", 10.0, &[], &[("Import", 9)]);
        let found = estimate.divide(100.0, &[low]);
        assert!(is_near(&found, "Import", 25.0) && is_near(&found, "Clean", 75.0), "{found:?}");
    }

    #[test]
    fn jobs_in_progress_show_the_classes_of_a_queue_in_which_none_has_waited() {
        let mut estimate = ClassEstimate::default();
        let found = estimate.divide(10.0, &[queue("q", 0.0, &[], &[("A", 3), ("B", 1)])]);
        assert!(is_near(&found, "A", 7.5) && is_near(&found, "B", 2.5), "{found:?}");
        assert!(ClassEstimate::default().divide(10.0, &[queue("q", 5.0, &[], &[])]).is_empty());
    }

    #[test]
    fn classes_that_come_no_more_are_forgotten() {
        let mut estimate = ClassEstimate::default();
        estimate.divide(1.0, &[queue("q", 1.0, &[("Old", 100)], &[])]);
        for _ in 0..200 {
            estimate.divide(1.0, &[queue("q", 1.0, &[("New", 100)], &[])]);
        }
        let found = estimate.divide(1.0, &[queue("q", 1.0, &[("New", 100)], &[])]);
        assert!(is_near(&found, "New", 1.0) && !found.contains_key("Old"), "{found:?}");
    }
}
