//! Measured goodput is lower with more threads, because the database cannot use them.

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{Goodput, Observation, Throughput};
use crate::wording::{self, rate};

pub(crate) const NAME: &str = "threads-hurt";

/// Levels this close to the best count as equal, because measurements are no more precise.
const EQUAL_SHARE: f64 = 0.95;
/// Differences of fewer standard deviations are attributed to chance.
const CHANCE_DEVIATIONS: f64 = 3.0;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let measured = observation.goodput.known().map(Vec::as_slice).unwrap_or_default();
    measured.iter().filter_map(judge).collect()
}

fn judge(throughput: &Throughput) -> Option<Finding> {
    let levels = &throughput.levels;
    let rate = |level: &&Goodput| level.jobs_per_second;
    let best = levels.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)))?;
    let equal = |level: &&Goodput| level.jobs_per_second >= EQUAL_SHARE * best.jobs_per_second;
    // Among equally good levels, the one with the fewest threads leaves the most for web requests.
    let enough = levels.iter().filter(equal).min_by_key(|level| level.threads)?;
    let is_chance = |level: &Goodput| {
        let difference = best.jobs_per_second - level.jobs_per_second;
        difference < CHANCE_DEVIATIONS * best.deviation.hypot(level.deviation)
    };
    let above =
        |level: &&Goodput| level.threads > enough.threads && !equal(level) && !is_chance(level);
    let worse = levels.iter().filter(above).max_by_key(|level| level.threads);
    // With that many or fewer, more threads are a thing of the past.
    let worse = worse.filter(|_| throughput.threads_now > enough.threads);
    worse.map(|worse| found(throughput, enough, worse))
}

fn found(throughput: &Throughput, enough: &Goodput, worse: &Goodput) -> Finding {
    let threads = throughput.threads_now;
    let evidence = format!(
        "{} completed {}, {} threads only {}; {threads} run now",
        wording::number(enough.threads, "thread", "threads"),
        rate(enough.jobs_per_second),
        worse.threads,
        rate(worse.jobs_per_second)
    );
    let too_many = threads >= worse.threads;
    let severity = if too_many { Severity::Warning } else { Severity::Notice };
    let finding = Finding::new(NAME, severity, format!("threads of {}", throughput.of), evidence)
        .with_confidence(Confidence::Likely)
        .leads_to(
            "More threads most likely lower throughput: a resource that they share, mostly the database, \
             is the limit. The figures are of different times, and of what ran then.",
        );
    if too_many {
        let line = format!("-c: {} in all", enough.threads);
        finding.change_and_restart(throughput.place.as_str(), line)
    } else {
        finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn level(threads: u32, jobs_per_second: f64) -> Goodput {
        Goodput { threads, jobs_per_second, deviation: 0.1 }
    }

    #[test]
    fn what_may_be_chance_is_met_with_silence() {
        let mut observation = healthy::observation();
        let few_windows = |level: Goodput| Goodput { deviation: 2.0, ..level };
        observation.goodput.known_mut()[0].levels =
            vec![few_windows(level(15, 20.0)), few_windows(level(30, 12.0))];
        assert_eq!(check(&observation), []);
        observation.goodput.known_mut()[0].levels[1].jobs_per_second = 11.0;
        assert_eq!(check(&observation).len(), 1);
    }

    #[test]
    fn too_many_threads_are_told_how_many_are_enough() {
        let mut observation = healthy::observation();
        let levels = vec![level(15, 19.6), level(20, 20.0), level(30, 12.0)];
        observation.goodput.known_mut()[0].levels = levels;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.evidence.ends_with("30 run now"));
        assert_eq!(finding.line_change().unwrap().line, "-c: 15 in all");
        observation.goodput.known_mut()[0].threads_now = 20;
        assert_eq!(check(&observation)[0].severity, Severity::Notice);
    }

    #[test]
    fn one_thread_is_one() {
        let mut observation = healthy::observation();
        let throughput = &mut observation.goodput.known_mut()[0];
        (throughput.levels, throughput.threads_now) = (vec![level(1, 20.0), level(30, 12.0)], 2);
        let expected = "1 thread completed 20.0/s, 30 threads only 12.0/s; 2 run now";
        assert_eq!(check(&observation)[0].evidence, expected);
        observation.goodput.known_mut()[0].threads_now = 1;
        assert_eq!(check(&observation), [], "the line was followed");
    }

    #[test]
    fn nine_tenths_of_the_best_is_not_enough() {
        let mut observation = healthy::observation();
        observation.goodput.known_mut()[0].levels =
            vec![level(10, 18.0), level(20, 20.0), level(30, 12.0)];
        assert_eq!(check(&observation).remove(0).line_change().unwrap().line, "-c: 20 in all");
    }

    #[test]
    fn more_threads_that_do_more_are_fine() {
        let mut observation = healthy::observation();
        observation.goodput.known_mut()[0].levels =
            vec![level(15, 10.0), level(30, 20.0), level(60, 19.5)];
        assert_eq!(check(&observation), []);
        observation.goodput.known_mut().clear();
        assert_eq!(check(&observation), []);
    }
}
