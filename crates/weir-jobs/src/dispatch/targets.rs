//! Dispatch by targets: which queue serves a FETCH, so that jobs start within the `target_latency` of
//! their queues.
//!
//! 1. **Guarantees.** A queue with fewer jobs in progress than it needs workers for its arrivals is
//!    served first; of several, the one with the fewest, and of equal ones those in time by slack, then
//!    the others as in 3. So if there are too few workers, they are shared evenly, and a queue that
//!    needs few gets all of them. A late queue that needs more workers than there are is guaranteed one.
//! 2. **Slack.** Then a queue whose oldest job is in time but has used half of its target, or whose
//!    fresh lane has jobs in time; the least slack (target less wait) first.
//! 3. **The backlog** gets the rest: queues that are late or have no target share workers' time by their
//!    weights, as far as their needs allow. A queue that can't meet its target gets its part, and takes nothing from those
//!    that can.
//! 4. Queues with much slack come last; they are in 2 before they are late.
//!
//! Pure: the caller describes the queues.

use std::time::Duration;

/// A queue that has jobs and may run one more.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetCandidate<C> {
    pub(super) candidate: C,
    /// How long the job that would be served has waited.
    pub(super) wait: Duration,
    pub(super) target: Option<Duration>,
    /// Whether its fresh lane has jobs in time, behind a backlog that is late.
    pub(super) has_fresh: bool,
    /// Jobs in progress that count against the guarantee.
    pub(super) running: u32,
    /// Workers that it needs.
    pub(super) needed: u32,
    /// Workers' time that it got while it was late, relative to its weight.
    pub(super) spent: f64,
}

/// How a queue is to be served, in the order of precedence. Slacks are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Rank {
    /// With its jobs in progress, its slack (infinite if it is late) and its workers' time.
    Guaranteed(u32, f64, f64),
    /// With its slack.
    Urgent(f64),
    /// With its workers' time.
    Backlog(f64),
    /// With its slack.
    InTime(f64),
}

impl<C> TargetCandidate<C> {
    /// Returns whether no time is left for the job, or there is no target.
    pub(super) fn is_late(&self) -> bool {
        self.slack().is_none()
    }

    /// Returns the seconds that are left until the job is late.
    fn slack(&self) -> Option<f64> {
        let slack = self.target?.checked_sub(self.wait)?;
        Some(slack.as_secs_f64())
    }

    /// Returns whether it is late and needs more than all `workers`, so that no guarantee would make it be in time.
    fn is_overloaded(&self, workers: u32) -> bool {
        (self.has_fresh || self.is_late()) && self.needed > workers
    }

    fn rank(&self, workers: u32) -> Rank {
        let slack = self.slack();
        let guaranteed = if self.is_overloaded(workers) { 1 } else { self.needed };
        if self.running < guaranteed {
            return Rank::Guaranteed(self.running, slack.unwrap_or(f64::INFINITY), self.spent);
        }
        match slack {
            None => Rank::Backlog(self.spent),
            Some(slack) if self.has_fresh || slack <= self.wait.as_secs_f64() => {
                Rank::Urgent(slack)
            }
            Some(slack) => Rank::InTime(slack),
        }
    }
}

/// Chooses among `candidates`, which may use so many `workers`; the first of several equal ones.
pub(super) fn choose<C>(
    candidates: impl Iterator<Item = TargetCandidate<C>>,
    workers: u32,
) -> Option<TargetCandidate<C>> {
    let mut best: Option<(Rank, TargetCandidate<C>)> = None;
    for candidate in candidates {
        let rank = candidate.rank(workers);
        if best.as_ref().is_none_or(|(least, _)| rank < *least) {
            best = Some((rank, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Candidates as `running/needed wait/target spent`, `-` for no target, `fresh` instead of the time
    /// spent for a fresh lane with jobs in time, `;` between them. All workers but one are busy with them.
    fn chosen(text: &str) -> usize {
        let parse = |(place, words): (usize, &str)| {
            let words: Vec<&str> = words.split_whitespace().collect();
            let (running, needed) = words[0].split_once('/').unwrap();
            let (wait, target) = words[1].split_once('/').unwrap();
            TargetCandidate {
                candidate: place,
                wait: Duration::from_secs(wait.parse().unwrap()),
                target: target.parse().ok().map(Duration::from_secs),
                running: running.parse().unwrap(),
                needed: needed.parse().unwrap(),
                has_fresh: words.get(2) == Some(&"fresh"),
                spent: words.get(2).and_then(|spent| spent.parse().ok()).unwrap_or(0.0),
            }
        };
        let candidates: Vec<_> = text.split(';').enumerate().map(parse).collect();
        let workers = candidates.iter().map(|candidate| candidate.running).sum::<u32>() + 1;
        choose(candidates.into_iter(), workers).unwrap().candidate
    }

    #[test]
    fn guarantees_go_first_and_share_a_shortage() {
        assert_eq!(chosen("1/1 4/5; 0/1 0/-"), 1, "at least one");
        assert_eq!(chosen("3/99 4/5; 2/3 0/5"), 1, "the fewest jobs in progress");
        assert_eq!(chosen("2/99 0/5; 2/3 4/5"), 1, "as many: the smaller slack");
        assert_eq!(chosen("2/3 0/-; 2/3 4/5"), 1, "as many: the one with a target");
        assert_eq!(chosen("0/1 9999/5 3; 0/1 0/- 2"), 1, "as many, both late: by workers' time");
        assert_eq!(chosen("9/10 999/5; 1/1 4/5"), 0, "before what is urgent");
    }

    #[test]
    fn a_late_queue_that_needs_more_workers_than_there_are_is_guaranteed_one() {
        assert_eq!(chosen("9/12 999/5; 1/1 4/5"), 1, "after what is urgent");
        assert_eq!(chosen("9/12 1/5 fresh; 1/1 4/5"), 1, "also with new jobs");
        assert_eq!(chosen("9/12 4/5; 1/1 999/5"), 0, "it is in time");
        assert_eq!(chosen("0/12 999/5; 1/1 4/5"), 0, "the one");
        assert_eq!(chosen("9/12 999/5 8; 1/1 9/- 9"), 0, "it has its part of the rest");
    }

    #[test]
    fn the_least_slack_goes_next_and_those_that_are_late_get_the_rest() {
        assert_eq!(chosen("1/1 50/60; 1/1 4/5"), 1, "the least slack");
        assert_eq!(chosen("1/1 21600/5; 1/1 31/60"), 1, "a hopeless queue takes nothing from it");
        assert_eq!(chosen("1/1 21600/5; 1/1 29/60"), 0, "it has much slack left");
        assert_eq!(chosen("1/1 1/60; 1/1 2/4000"), 0, "the least slack");
        assert_eq!(chosen("1/1 31/60; 1/1 2/30 fresh"), 1, "new jobs behind a backlog");
        assert_eq!(chosen("1/1 9/- 0; 1/1 59/60 fresh"), 1, "new jobs behind a backlog");
        assert_eq!(chosen("1/1 21600/5 7; 1/1 9/- 3"), 1, "by workers' time");
        assert_eq!(chosen("1/1 9/- 3; 1/1 21600/5 3"), 0, "the order of the request");
    }

    #[derive(Clone, Copy, Debug)]
    struct Load {
        /// Jobs per second, and seconds of each.
        rate: f64,
        service: f64,
        target: Option<f64>,
        backlog: usize,
    }

    /// The queue of a simulated server with FIFO queues.
    #[derive(Debug, Default)]
    struct SimulatedQueue {
        waiting: std::collections::VecDeque<f64>,
        running: Vec<f64>,
        arrived: f64,
        /// Workers' time that it got, and the part of it that it got while it was late.
        time: f64,
        spent: f64,
        served: usize,
        late: usize,
    }

    /// Serves the loads with so many workers, in steps of 50 ms.
    fn simulate(loads: &[Load], workers: usize, seconds: u32) -> Vec<SimulatedQueue> {
        let mut queues: Vec<SimulatedQueue> = loads
            .iter()
            .map(|load| SimulatedQueue {
                waiting: std::iter::repeat_n(-3_600.0, load.backlog).collect(),
                ..SimulatedQueue::default()
            })
            .collect();
        for step in 0..seconds * 20 {
            let now = f64::from(step) / 20.0;
            for (queue, load) in queues.iter_mut().zip(loads) {
                queue.running.retain(|end| *end > now);
                queue.arrived += load.rate / 20.0;
                while queue.arrived >= 1.0 {
                    queue.arrived -= 1.0;
                    queue.waiting.push_back(now);
                }
            }
            while queues.iter().map(|queue| queue.running.len()).sum::<usize>() < workers {
                let total = u32::try_from(workers).unwrap();
                let candidates = queues.iter().zip(loads).enumerate();
                let candidates = candidates.filter_map(|(place, (queue, load))| {
                    let needed = (load.rate * load.service * 1.25).ceil().max(1.0);
                    Some(TargetCandidate {
                        candidate: place,
                        wait: Duration::from_secs_f64(now - queue.waiting.front()?),
                        target: load.target.map(Duration::from_secs_f64),
                        has_fresh: false,
                        running: u32::try_from(queue.running.len()).unwrap(),
                        #[expect(
                            clippy::cast_possible_truncation,
                            clippy::cast_sign_loss,
                            reason = "small"
                        )]
                        needed: needed as u32,
                        spent: queue.spent,
                    })
                });
                let Some(chosen) = choose(candidates, total) else { break };
                let is_late = chosen.is_late();
                let (queue, load) = (&mut queues[chosen.candidate], &loads[chosen.candidate]);
                let at = queue.waiting.pop_front().unwrap();
                queue.running.push(now + load.service);
                queue.time += load.service;
                queue.spent += if is_late { load.service } else { 0.0 };
                queue.served += 1;
                queue.late += usize::from(load.target.is_some_and(|target| now - at > target));
            }
        }
        queues
    }

    #[test]
    fn a_hopeless_queue_gets_the_rest_and_the_others_stay_in_time() {
        let mailers = Load { rate: 8.0, service: 0.5, target: Some(5.0), backlog: 0 };
        let scheduler = Load { rate: 1.0, service: 1.0, target: Some(5.0), backlog: 0 };
        let hopeless = Load { rate: 10.0, service: 1.0, target: Some(60.0), backlog: 100_000 };
        let untargeted = Load { rate: 2.0, service: 2.0, target: None, backlog: 100_000 };
        let queues = simulate(&[hopeless, untargeted, mailers, scheduler], 40, 600);
        assert_eq!((queues[2].late, queues[3].late), (0, 0));
        let (in_time, served) = (queues[2].served, queues[3].served);
        assert!(in_time >= 4_700 && served >= 590, "{in_time} {served}");
        // 40 workers, less 4 + 1 for those in time; the backlogs share the rest, more than they need.
        assert!((16.5..18.5).contains(&(queues[0].time / 600.0)), "{}", queues[0].time);
        assert!((16.5..18.5).contains(&(queues[1].time / 600.0)), "{}", queues[1].time);
    }

    #[test]
    fn a_shortage_leaves_a_queue_that_needs_few_workers_in_time() {
        let load = |rate, target, backlog| Load { rate, service: 1.0, target, backlog };
        let loads =
            [load(40.0, Some(1.0), 1_000), load(1.0, Some(5.0), 0), load(40.0, None, 1_000)];
        let queues = simulate(&loads, 12, 300);
        assert_eq!(queues[1].late, 0);
        for place in [0, 2] {
            let workers = queues[place].time / 300.0;
            assert!((5.0..6.0).contains(&workers), "{place}: {workers}");
        }
    }

    proptest! {
        #[test]
        fn workers_are_never_idle_while_jobs_wait(
            loads in prop::collection::vec(
                (0.0..20.0_f64, 0.1..3.0_f64, prop::option::of(1.0..100.0_f64), 0..500_usize), 1..5),
            workers in 1..20_usize,
        ) {
            let load = |(rate, service, target, backlog)| Load { rate, service, target, backlog };
            let loads: Vec<Load> = loads.into_iter().map(load).collect();
            let queues = simulate(&loads, workers, 20);
            let running: usize = queues.iter().map(|queue| queue.running.len()).sum();
            let waiting: usize = queues.iter().map(|queue| queue.waiting.len()).sum();
            prop_assert!(running == workers || waiting == 0);
            for (queue, load) in queues.iter().zip(&loads) {
                prop_assert!(queue.served > 0 || load.backlog == 0 || workers < loads.len());
            }
        }
    }
}
