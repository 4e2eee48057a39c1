//! Whether memory, descriptors, threads and disk stay as they are: the last quarter of a time against its first quarter.

use std::time::Duration;

use serde::Serialize;

use super::samples::Sample;

/// What the median may grow by: so much of its value, and so much more.
const MEMORY: Bound = Bound { factor: 1.3, more: (48 << 20) as f64 };
const DESCRIPTORS: Bound = Bound { factor: 1.2, more: 40.0 };
const THREADS: Bound = Bound { factor: 1.2, more: 8.0 };
/// A store rewrites what it does not need any more only when there is enough of it.
const DISK: Bound = Bound { factor: 1.5, more: (128 << 20) as f64 };
/// Fewer samples are no basis for a verdict.
const SAMPLES_MIN: usize = 12;
/// At the beginning of a process, caches fill up.
const WARM_UP: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
struct Bound {
    factor: f64,
    more: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Growth {
    pub(super) node: usize,
    /// `run`, or `life` for the service process that lived longest.
    pub(super) over: &'static str,
    pub(super) figure: &'static str,
    pub(super) first_quarter: f64,
    pub(super) last_quarter: f64,
    pub(super) bound: f64,
}

impl Growth {
    pub(super) fn is_too_much(&self) -> bool {
        self.last_quarter > self.bound
    }
}

/// Compares over the whole run, and over the longest life of a service process: a restart hides what grows.
pub(super) fn measure(node: usize, samples: &[Sample]) -> Vec<Growth> {
    let mut growth = compare(node, "run", samples);
    let life = longest_life(samples);
    let begin = life.first().map(|sample| sample.at + WARM_UP).unwrap_or_default();
    let warm = life.iter().position(|sample| sample.at >= begin).unwrap_or(life.len());
    growth.extend(compare(node, "life", &life[warm..]));
    growth
}

fn longest_life(samples: &[Sample]) -> &[Sample] {
    let lives = samples.chunk_by(|one, other| one.service == other.service);
    lives.max_by_key(|life| life.len()).unwrap_or_default()
}

fn compare(node: usize, over: &'static str, samples: &[Sample]) -> Vec<Growth> {
    if samples.len() < SAMPLES_MIN {
        return Vec::new();
    }
    let quarter = samples.len() / 4;
    let (first, last) = (&samples[..quarter], &samples[samples.len() - quarter..]);
    let figure = |figure, bound: Bound, of: fn(&Sample) -> u64| {
        let (first_quarter, last_quarter) = (median(first, of), median(last, of));
        let bound = first_quarter.mul_add(bound.factor, bound.more);
        Growth { node, over, figure, first_quarter, last_quarter, bound }
    };
    vec![
        figure("memory", MEMORY, |sample| sample.rss_bytes),
        figure("descriptors", DESCRIPTORS, |sample| sample.descriptors),
        figure("threads", THREADS, |sample| sample.threads),
        figure("disk", DISK, |sample| sample.disk_bytes),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "bytes of memory and of a disk, below 2^53")]
fn median(samples: &[Sample], of: fn(&Sample) -> u64) -> f64 {
    let mut values: Vec<u64> = samples.iter().map(of).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rss: impl Fn(u64) -> u64, service: impl Fn(u64) -> u32) -> Vec<Sample> {
        let sample = |number| Sample {
            at: Duration::from_secs(number * 5),
            rss_bytes: rss(number) << 20,
            descriptors: 50,
            service: service(number),
            ..Sample::default()
        };
        (0..120).map(sample).collect()
    }

    fn too_much(samples: &[Sample]) -> Vec<(&'static str, &'static str)> {
        let growth = measure(0, samples).into_iter().filter(Growth::is_too_much);
        growth.map(|growth| (growth.over, growth.figure)).collect()
    }

    #[test]
    fn steady_memory_is_no_growth() {
        assert!(too_much(&samples(|number| 100 + number % 7, |_| 1)).is_empty());
    }

    #[test]
    fn growth_is_found_over_the_run_and_within_a_life() {
        let leaking = samples(|number| 100 + 3 * number, |_| 1);
        assert_eq!(too_much(&leaking), [("run", "memory"), ("life", "memory")]);
        // A restart in the second half hides it from the comparison over the run.
        let rss = |number| if number < 80 { 100 + 3 * number } else { 100 };
        let restarted = samples(rss, |number| u32::from(number >= 80));
        assert_eq!(too_much(&restarted), [("life", "memory")]);
    }

    #[test]
    fn short_runs_have_no_verdict() {
        assert!(measure(0, &samples(|_| 1, |_| 1)[..5]).is_empty());
    }
}
