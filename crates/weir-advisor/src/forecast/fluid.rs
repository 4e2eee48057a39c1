//! Simulates queues as fluids, from one queue becoming empty to the next.
//!
//! Until the first queue is empty, all rates are as observed. From then on, threads are shared out
//! in the order of their process' queues, at the rates per thread that explain the observation.

/// A queue. Rates are in jobs per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FluidQueue {
    pub(super) length: f64,
    pub(super) arrivals: f64,
    pub(super) served: f64,
    /// Observed change of its length; 0 if it may be due to chance.
    pub(super) change: f64,
    /// Whether it has a backlog. Otherwise jobs are completed as they arrive.
    pub(super) waits: bool,
}

/// Threads that serve the same queues in the same order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Team {
    pub(super) threads: f64,
    pub(super) order: FluidOrder,
    /// Indices of queues in order, with their weights.
    pub(super) queues: Vec<(usize, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FluidOrder {
    /// The first queue with a backlog gets all threads.
    Strict,
    /// Queues with a backlog share the threads by weight.
    Shared,
}

/// Rounds of fitting the rates per thread to the observation. Each at least halves the error.
const CALIBRATION_ROUNDS: usize = 30;

/// Returns the seconds until each queue is empty, or `None` for queues that do not drain.
pub(super) fn run(lines: &[FluidQueue], teams: &[Team]) -> Vec<Option<f64>> {
    let mut ends = vec![None; lines.len()];
    let Some(paces) = paces(lines, teams) else { return ends };
    let mut lines = lines.to_vec();
    let mut now = 0.0;
    // Each iteration empties a queue. A queue that builds up a new backlog is emptied at most once
    // more.
    for _ in 0..2 * lines.len() {
        let Some(step) = until_one_is_empty(&lines) else { break };
        now += step;
        for (line, end) in lines.iter_mut().zip(&mut ends).filter(|(line, _)| line.waits) {
            line.length = (line.length + line.change * step).max(0.0);
            // Less than a thousandth of a job is a rounding error.
            line.waits = line.length > 1e-3;
            *end = (!line.waits).then_some(now);
        }
        let served = share_out(&mut lines, teams, &paces);
        for (line, served) in lines.iter_mut().zip(served) {
            line.change = line.arrivals - served;
        }
    }
    for (line, end) in lines.iter().zip(&mut ends) {
        *end = end.filter(|_| !line.waits);
    }
    ends
}

fn until_one_is_empty(lines: &[FluidQueue]) -> Option<f64> {
    let shrink = lines.iter().filter(|line| line.waits && line.change < 0.0);
    shrink.map(|line| line.length / -line.change).reduce(f64::min)
}

/// Returns the share of completions that the order of `teams` does not explain.
pub(super) fn misfit(lines: &[FluidQueue], teams: &[Team]) -> f64 {
    let Some(pace) = common_pace(lines, teams) else { return 1.0 };
    let explained = share_out(&mut lines.to_vec(), teams, &vec![pace; lines.len()]);
    let apart: f64 = lines.iter().zip(&explained).map(|(it, said)| (it.served - said).abs()).sum();
    let all: f64 = lines.iter().map(|line| line.served).sum();
    apart / all
}

/// Returns the rate per thread for each queue, or `None` if no job is completed.
fn paces(lines: &[FluidQueue], teams: &[Team]) -> Option<Vec<f64>> {
    let mut paces = vec![common_pace(lines, teams)?; lines.len()];
    if teams.iter().any(|team| team.order == FluidOrder::Shared) {
        return Some(paces);
    }
    // Adjusts the rates per queue, because jobs of different queues may differ in duration.
    let explained = share_out(&mut lines.to_vec(), teams, &paces);
    for ((line, explained), pace) in lines.iter().zip(explained).zip(&mut paces) {
        if line.waits && line.served > 0.0 && explained > 0.0 {
            *pace *= line.served / explained;
        }
    }
    Some(paces)
}

/// Returns the common rate per thread that yields the observed total.
fn common_pace(lines: &[FluidQueue], teams: &[Team]) -> Option<f64> {
    let threads: f64 = teams.iter().map(|team| team.threads).sum();
    let seen: f64 = lines.iter().map(|line| line.served).sum();
    if threads <= 0.0 || seen <= 0.0 {
        return None;
    }
    let mut pace = seen / threads;
    for _ in 0..CALIBRATION_ROUNDS {
        let explained = share_out(&mut lines.to_vec(), teams, &vec![pace; lines.len()]);
        let explained: f64 = explained.iter().sum();
        pace *= (seen / explained.max(f64::MIN_POSITIVE)).clamp(0.5, 2.0);
    }
    Some(pace)
}

/// Returns the completion rate of each queue. Queues whose arrivals exceed it get a backlog.
fn share_out(lines: &mut [FluidQueue], teams: &[Team], paces: &[f64]) -> Vec<f64> {
    loop {
        let (served, left) = shared_once(lines, teams, paces);
        let mut late = lines.iter_mut().zip(left).filter(|(line, left)| {
            // Less than a millionth of the arrivals is a rounding error.
            !line.waits && *left > 1e-6 * line.arrivals
        });
        let Some((line, _)) = late.next() else { return served };
        line.waits = true;
    }
}

/// Does one pass, and also returns the arrivals per second that are not completed.
fn shared_once(lines: &[FluidQueue], teams: &[Team], paces: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mut served = vec![0.0; lines.len()];
    let mut left: Vec<f64> =
        lines.iter().map(|line| if line.waits { 0.0 } else { line.arrivals }).collect();
    // Threads without a backlog are assigned first.
    let mut teams: Vec<&Team> = teams.iter().collect();
    teams.sort_by_key(|team| team.queues.iter().any(|(place, _)| lines[*place].waits));
    for team in teams {
        team.work(lines, paces, &mut left, &mut served);
    }
    (served, left)
}

impl Team {
    fn work(&self, lines: &[FluidQueue], paces: &[f64], left: &mut [f64], served: &mut [f64]) {
        let mut threads = self.threads;
        for &(place, _) in &self.queues {
            if !lines[place].waits {
                let taken = left[place].min(threads * paces[place]);
                threads = (threads - taken / paces[place]).max(0.0);
                left[place] -= taken;
                served[place] += taken;
            } else if self.order == FluidOrder::Strict {
                served[place] += threads * paces[place];
                return;
            }
        }
        for (place, share) in self.shares(lines) {
            served[place] += share * threads / self.seconds_of_a_job(lines, paces);
        }
    }

    /// Returns the shares of the queues with a backlog in all jobs taken. Equal if all weights are
    /// 0.
    fn shares(&self, lines: &[FluidQueue]) -> Vec<(usize, f64)> {
        let waiting: Vec<_> =
            self.queues.iter().copied().filter(|(place, _)| lines[*place].waits).collect();
        let all: f64 = waiting.iter().map(|(_, weight)| weight).sum();
        let alike = 1.0 / waiting.len().max(1) as f64;
        let share = |weight: f64| if all > 0.0 { weight / all } else { alike };
        waiting.into_iter().map(|(place, weight)| (place, share(weight))).collect()
    }

    fn seconds_of_a_job(&self, lines: &[FluidQueue], paces: &[f64]) -> f64 {
        self.shares(lines).into_iter().map(|(place, share)| share / paces[place]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(length: f64, served: f64, arrivals: f64) -> FluidQueue {
        FluidQueue { length, arrivals, served, change: arrivals - served, waits: true }
    }

    fn taken(arrivals: f64) -> FluidQueue {
        FluidQueue { length: 0.0, arrivals, served: arrivals, change: 0.0, waits: false }
    }

    fn strict(threads: f64, queues: &[usize]) -> Team {
        let queues = queues.iter().map(|place| (*place, 1.0)).collect();
        Team { threads, order: FluidOrder::Strict, queues }
    }

    fn ends(lines: &[FluidQueue], teams: &[Team]) -> Vec<Option<f64>> {
        let round = |end: f64| (end * 10.0).round() / 10.0;
        run(lines, teams).into_iter().map(|end| end.map(round)).collect()
    }

    #[test]
    fn threads_go_on_with_the_next_queue_that_they_serve() {
        // Both teams serve the first queue; only one of them also serves the second.
        let lines = [waits(20_000.0, 200.0, 0.0), waits(5_000.0, 0.0, 0.0)];
        let teams = [strict(5.0, &[0, 1]), strict(5.0, &[0])];
        assert_eq!(ends(&lines, &teams), [Some(100.0), Some(150.0)]);
        let lines = [waits(5_000.0, 100.0, 0.0), waits(20_000.0, 100.0, 0.0)];
        let teams = [strict(5.0, &[0, 1]), strict(5.0, &[1])];
        assert_eq!(ends(&lines, &teams), [Some(50.0), Some(125.0)]);
    }

    #[test]
    fn what_comes_for_others_takes_its_share() {
        let lines = [taken(100.0), waits(1_000.0, 100.0, 0.0), waits(1_000.0, 0.0, 50.0)];
        let teams = [strict(10.0, &[0, 1, 2])];
        // 500 jobs for the third queue have arrived meanwhile: 1,500 at 50 per second.
        assert_eq!(ends(&lines, &teams), [None, Some(10.0), Some(40.0)]);
    }

    #[test]
    fn jobs_that_take_longer_keep_their_pace() {
        let lines = [waits(1_000.0, 100.0, 0.0), waits(1_000.0, 10.0, 0.0)];
        let teams = [strict(5.0, &[0, 1]), strict(5.0, &[1])];
        // After ten seconds the second queue has 900 jobs left, and ten threads complete 20 per
        // second.
        assert_eq!(ends(&lines, &teams), [Some(10.0), Some(55.0)]);
    }

    #[test]
    fn weights_share_jobs_until_one_is_empty() {
        let lines = [waits(800.0, 80.0, 0.0), waits(1_000.0, 20.0, 0.0)];
        let queues = vec![(0, 4.0), (1, 1.0)];
        let teams = [Team { threads: 5.0, order: FluidOrder::Shared, queues }];
        assert_eq!(ends(&lines, &teams), [Some(10.0), Some(18.0)]);
        assert!(misfit(&lines, &teams) < 1e-6);
        assert!(misfit(&lines, &[strict(5.0, &[0, 1])]) > 0.3);
    }

    #[test]
    fn what_never_ends_has_no_end() {
        let lines = [waits(1_000.0, 100.0, 0.0), waits(1_000.0, 0.0, 200.0)];
        assert_eq!(ends(&lines, &[strict(5.0, &[0, 1])]), [Some(10.0), None]);
        assert_eq!(ends(&[waits(9.0, 0.0, 0.0)], &[strict(5.0, &[0])]), [None]);
        assert_eq!(ends(&[waits(9.0, 1.0, 0.0)], &[]), [None]);
    }

    proptest::proptest! {
        #[test]
        fn every_run_ends(
            lengths in proptest::collection::vec((0.0..1e6f64, 0.0..1e3f64, 0.0..1e3f64, proptest::bool::ANY), 1..8),
            teams in proptest::collection::vec((0.0..50.0f64, proptest::collection::vec(0..8usize, 0..8), proptest::bool::ANY), 0..5),
        ) {
            let lines: Vec<FluidQueue> = lengths
                .iter()
                .map(|&(length, arrivals, served, waits)| FluidQueue { length, arrivals, served, change: arrivals - served, waits })
                .collect();
            let team = |(threads, places, is_strict): &(f64, Vec<usize>, bool)| Team {
                threads: *threads,
                order: if *is_strict { FluidOrder::Strict } else { FluidOrder::Shared },
                queues: places.iter().filter(|it| **it < lines.len()).map(|it| (*it, 1.0)).collect(),
            };
            let teams: Vec<Team> = teams.iter().map(team).collect();
            for (end, line) in run(&lines, &teams).iter().zip(&lines) {
                proptest::prop_assert!(end.is_none_or(|end| end >= 0.0 && (line.waits || line.arrivals > 0.0)));
            }
        }
    }
}
