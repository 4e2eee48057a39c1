//! Guarantees of queues, and which queue gets a free thread.

/// A queue that is this many times past its target is hopeless for now: it gets what the others leave, so that it does
/// not make them late as well.
const HOPELESS: f64 = 3.0;

/// A queue, when a thread is free.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Threads reserved for it.
    pub guarantee: u32,
    /// Its jobs in progress.
    pub in_flight: u32,
    /// Whether it has a job that may run.
    pub is_waiting: bool,
    /// Age of its oldest job that may run.
    pub age_seconds: f64,
    /// Its target.
    pub target_seconds: f64,
}

impl Demand {
    fn unused(&self) -> u32 {
        self.guarantee.saturating_sub(self.in_flight)
    }
}

/// Returns the position of the queue that gets the next of `free` threads. A thread that is reserved for another queue
/// stays idle.
#[must_use]
pub fn choose(queues: &[Demand], free: u32) -> Option<usize> {
    if free == 0 {
        return None;
    }
    let reserved: u32 = queues.iter().map(Demand::unused).sum();
    let may_start = |queue: &Demand| queue.is_waiting && (queue.unused() > 0 || free > reserved);
    let ready = queues.iter().enumerate().filter(|(_, queue)| may_start(queue));
    let first = ready.min_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)))?;
    Some(first.0)
}

/// The order of queues: reserved threads first, then queues that can still meet their target by the share of it that is
/// left, then those that cannot, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Rank {
    stage: u8,
    value: f64,
}

impl Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.stage.cmp(&other.stage).then(self.value.total_cmp(&other.value))
    }
}

fn rank(queue: &Demand) -> Rank {
    let share = queue.age_seconds / queue.target_seconds;
    let stage = match queue.unused() {
        1.. => 0,
        0 if share <= HOPELESS => 1,
        0 => 2,
    };
    let value = if stage == 2 { queue.target_seconds } else { -share };
    Rank { stage, value }
}

/// Returns the threads to reserve for each queue: what it wants, rounded, at least 1. If these are more than `threads`,
/// the cheapest demands are met first, and the others share what is left.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "limited to the number of threads, which has 32 bits"
)]
pub fn guarantees(wanted: &[f64], threads: u32) -> Vec<u32> {
    let whole = |wanted: &f64| wanted.round().clamp(1.0, f64::from(threads.max(1))) as u32;
    let wanted: Vec<u32> = wanted.iter().map(whole).collect();
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|queue| (wanted[*queue], *queue));
    let mut left = threads;
    let mut given = vec![0; wanted.len()];
    for (position, queue) in order.iter().enumerate() {
        // Each queue behind this one needs one thread at least.
        let behind = u32::try_from(order.len() - position - 1).unwrap_or(u32::MAX);
        given[*queue] = wanted[*queue].min(left.saturating_sub(behind));
        left -= given[*queue];
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(guarantee: u32, in_flight: u32, age_seconds: f64, target_seconds: f64) -> Demand {
        Demand { guarantee, in_flight, is_waiting: true, age_seconds, target_seconds }
    }

    #[test]
    fn reserved_threads_are_left_idle() {
        let mut idle = queue(2, 0, 0.0, 1.0);
        idle.is_waiting = false;
        let busy = queue(1, 1, 50.0, 300.0);
        assert_eq!(choose(&[idle, busy], 2), None);
        assert_eq!(choose(&[idle, busy], 3), Some(1));
        assert_eq!(choose(&[idle, busy], 0), None);
    }

    #[test]
    fn hopeless_queue_does_not_delay_others() {
        let hopeless = queue(1, 1, 40_000.0, 300.0);
        let urgent = queue(1, 1, 0.2, 5.0);
        assert_eq!(choose(&[hopeless, urgent], 1), Some(1));
        let hopeless_in_its_guarantee = queue(1, 0, 40_000.0, 300.0);
        assert_eq!(choose(&[hopeless_in_its_guarantee, urgent], 1), Some(0));
    }

    #[test]
    fn least_slack_is_first() {
        assert_eq!(choose(&[queue(0, 0, 4.0, 60.0), queue(0, 0, 2.0, 5.0)], 1), Some(1));
        assert_eq!(choose(&[queue(0, 0, 40.0, 60.0), queue(0, 0, 2.0, 5.0)], 1), Some(0));
    }

    #[test]
    fn cheapest_demands_are_met_first() {
        assert_eq!(guarantees(&[13.5, 1.8, 0.5], 100), [14, 2, 1]);
        assert_eq!(guarantees(&[13.5, 1.8, 0.5], 8), [5, 2, 1]);
        assert_eq!(guarantees(&[13.5, 1.8, 0.5], 2).iter().sum::<u32>(), 2);
    }
}
