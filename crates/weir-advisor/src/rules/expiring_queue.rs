//! The key of a queue has an expiry: Redis deletes it with all of its jobs.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation};
use crate::shell;
use crate::wording;

pub(crate) const NAME: &str = "expiring-queue";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    // With several Redis servers, it is unknown which of them has the queue.
    let only = match observation.redis.as_slice() {
        [Fact::Known(redis)] => Some(redis.name.as_str()),
        _ => None,
    };
    let expiring = jobs.queues.iter().filter_map(|queue| Some((queue, queue.expires_in?)));
    let found = expiring.filter(|(queue, _)| queue.length > 0).map(|(queue, left)| {
        let evidence = format!(
            "{}, and its key expires in {}",
            wording::jobs_wait(queue.length),
            wording::duration(left)
        );
        let finding =
            Finding::new(NAME, Severity::Critical, format!("queue {}", queue.name), evidence);
        let finding = finding.leads_to(
            "Redis then deletes all of its jobs without an error. Sidekiq never sets an expiry: \
             another program does, such as a script that removes old keys. The command saves these \
             jobs; the next run of that program may set an expiry again, so find it as well.",
        );
        let key = shell::word(&format!("queue:{}", queue.name));
        let persist = |name| observation.redis_command(name, |cli| format!("{cli} PERSIST {key}"));
        match only {
            Some(name) => finding.next(persist(name)),
            None => finding,
        }
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::healthy;

    #[test]
    fn a_queue_that_redis_will_delete_is_saved_first() {
        let mut observation = healthy::observation();
        assert_eq!(check(&observation), []);
        let queue = observation.jobs.known_mut().queue_mut("push");
        (queue.length, queue.expires_in) = (1_466, Some(Duration::from_secs(30)));
        let finding = check(&observation).remove(0);
        assert_eq!(finding.evidence, "1,466 jobs wait, and its key expires in 30 s");
        let expected = "redis-cli -h 127.0.0.1 -p 6379 PERSIST queue:push";
        assert_eq!((finding.severity, finding.next_step()), (Severity::Critical, Some(expected)));
        observation.jobs.known_mut().queue_mut("push").length = 0;
        assert_eq!(check(&observation), [], "nothing is lost");
    }
}
