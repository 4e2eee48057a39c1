//! Computes how long jobs wait while every thread is busy, which is when targets matter.
//!
//! Based on the M/M/c queue with all c threads busy: waiting jobs start at the rate (c - load) /
//! service time, and waits are exponentially distributed. 95 % of them are below ln 20 times the
//! mean.

use std::fmt::Write;
use std::time::Duration;

use crate::observation::{Ordering, is_set_aside};
use crate::wording::{self, list};

use super::claim::{Claim, ClaimOutcome, Proof};
use super::layout::{ProcessLayout, ServiceLayout, WorkerLayout};
use super::split::{WEB, need};
use super::{DemandSource, PlanInput, QueueDemand, ceiling, cpu};

/// ln 20: the 95th percentile of an exponential distribution in units of its mean.
const NINETEEN_OF_TWENTY: f64 = 2.995_732_273_553_991;

/// Returns the fewest threads with which the queue meets its target if each may be busy for
/// `longest` seconds with another queue's job. Returns `None` without a target.
pub(super) fn threads(queue: &QueueDemand, longest: f64) -> Option<u32> {
    let target = queue.target_seconds?;
    Some(ceiling(need(queue) + NINETEEN_OF_TWENTY * longest / target))
}

/// Returns the 95th percentile of the wait in seconds; infinite if the threads do not keep up.
fn wait(threads: f64, load: f64, longest: f64) -> f64 {
    let spare = threads - load;
    if spare > 0.0 { NINETEEN_OF_TWENTY * longest / spare } else { f64::INFINITY }
}

/// Returns the longest mean duration of a job among `queues`.
pub(super) fn longest<'a>(queues: impl IntoIterator<Item = &'a QueueDemand>) -> f64 {
    queues.into_iter().map(|queue| queue.service_seconds).fold(0.0, f64::max)
}

/// Checks the targets of all queues. Returns `None` if there are no targets.
pub(super) fn proof(wanted: &PlanInput, layout: &ProcessLayout) -> Option<Proof> {
    let (mut kept, mut broken, mut is_unknown) = (Vec::new(), Vec::new(), false);
    for queue in &wanted.queues {
        let Some(target) = queue.target_seconds else { continue };
        let of = |worker: &WorkerLayout| wait_in(wanted, worker, queue);
        let firsts = layout.workers.iter().filter(|worker| worker.is_first(&queue.name));
        let wait = firsts.map(of).fold(f64::INFINITY, f64::min);
        let mut figures = format!("{} {} of {}", queue.name, words(wait), words(target));
        if !queue.known.knows_seconds() {
            is_unknown = true;
            figures.push_str(" if the assumption is right");
        }
        if wait <= target { kept.push(figures) } else { broken.push(figures) }
    }
    let outcome = ClaimOutcome::told(!broken.is_empty(), is_unknown);
    let all = if broken.is_empty() { kept } else { broken };
    let figures = list(all.iter().map(String::as_str));
    (!all.is_empty()).then_some(Proof { claim: Claim::TargetsKept, outcome, figures })
}

/// The load of one kind of process.
pub(super) struct WorkerLoad {
    name: String,
    busy: f64,
    threads: u32,
    /// Cores that its jobs use on average, as far as known. Each process can use one.
    cores: f64,
    processes: u32,
}

impl WorkerLoad {
    fn of(wanted: &PlanInput, worker: &WorkerLayout) -> Option<Self> {
        // Queues that were set aside need not keep up.
        let queues = wanted.queues.iter().filter(|queue| !is_set_aside(&queue.name));
        let first = queues.filter(|queue| worker.is_first(&queue.name));
        let name = match (worker.queues.as_slice(), worker.is_by_chance()) {
            ([], _) => return None,
            ([name], true) => name.clone(),
            ([name, others @ ..], true) => {
                format!("{name} and {}", wording::number(others.len() as u64, "other", "others"))
            }
            ([name, ..], false) => name.clone(),
        };
        let first: Vec<&QueueDemand> = first.collect();
        Some(Self {
            name,
            busy: first.iter().copied().map(need).sum(),
            threads: worker.threads(),
            cores: cpu::cores_of(first),
            processes: worker.processes,
        })
    }

    fn of_web(wanted: &PlanInput, web: &ServiceLayout) -> Self {
        let threads = web.processes.saturating_mul(web.threads);
        let busy = wanted.web.busy();
        Self { name: web.name.clone(), busy, threads, cores: 0.0, processes: web.processes }
    }

    fn share(&self) -> f64 {
        let of_threads = self.busy / f64::from(self.threads.max(1));
        of_threads.max(self.cores / f64::from(self.processes.max(1)))
    }

    /// Reports whether its jobs compute more than its processes can, whatever their threads.
    fn lacks_processes(&self) -> bool {
        self.cores > 0.0 && self.cores >= f64::from(self.processes)
    }

    /// Describes why it does not keep up.
    fn shortage(&self) -> String {
        let Self { name, busy, threads, cores, processes } = self;
        if !self.lacks_processes() {
            return format!("{name} keeps {busy:.1} threads busy and has {threads}");
        }
        let processes = wording::number(*processes, "process", "processes");
        format!("jobs of {name} use {cores:.1} cores, and {processes} of Ruby can use one each")
    }

    /// Describes its load.
    fn words(&self) -> String {
        let Self { name, busy, threads, cores, processes } = self;
        let threads = format!("{name}, with {busy:.1} of {threads} threads busy on average");
        match *cores > 0.0 {
            true => format!("{threads} and {cores:.1} of {processes} cores used"),
            false => threads,
        }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    pub(super) fn is_behind(&self) -> bool {
        self.busy >= f64::from(self.threads) || self.lacks_processes()
    }
}

/// Returns the load of all Sidekiq and web processes.
pub(super) fn loads<'a>(
    wanted: &'a PlanInput,
    layout: &'a ProcessLayout,
) -> impl Iterator<Item = WorkerLoad> + 'a {
    let web = layout.services.iter().filter(|it| it.name == WEB);
    let workers = layout.workers.iter().filter_map(|worker| WorkerLoad::of(wanted, worker));
    workers.chain(web.map(|web| WorkerLoad::of_web(wanted, web)))
}

/// Checks whether each process has more threads than its queues or requests keep busy on average.
pub(super) fn has_enough_threads(wanted: &PlanInput, layout: &ProcessLayout) -> Proof {
    let loads: Vec<_> = loads(wanted, layout).collect();
    let behind: Vec<_> =
        loads.iter().filter(|load| load.is_behind()).map(WorkerLoad::shortage).collect();
    let unknown = unknown(wanted, layout);
    let outcome = ClaimOutcome::told(!behind.is_empty(), unknown.is_some());
    let fullest = loads.iter().max_by(|one, other| one.share().total_cmp(&other.share()));
    let figures = match fullest {
        _ if outcome == ClaimOutcome::Unknown => unknown.unwrap_or_default(),
        Some(fullest) if behind.is_empty() => {
            format!("the fullest is {}{}", fullest.words(), assumption(wanted))
        }
        _ => behind.join("; "),
    };
    match growing(wanted).filter(|_| outcome == ClaimOutcome::Holds) {
        Some(why) => {
            let (outcome, figures) = (ClaimOutcome::Unknown, format!("{figures}; {why}"));
            Proof { claim: Claim::KeepsUp, outcome, figures }
        }
        None => Proof { claim: Claim::KeepsUp, outcome, figures },
    }
}

/// Explains why more threads may not help queues that grow now. Returns `None` if none grows.
///
/// The rate of a queue whose jobs push further jobs depends on how many of them are run, so that the
/// measured one is not that with more threads.
fn growing(wanted: &PlanInput) -> Option<String> {
    let queues = wanted.queues.iter().filter(|it| it.grows && !is_set_aside(&it.name));
    let queues: Vec<_> = queues.collect();
    let (grow, their) = if queues.len() == 1 { ("grows", "its") } else { ("grow", "their") };
    let rounded = |figure: f64| (figure * 1_000.0).round() / 1_000.0;
    let option = |it: &&QueueDemand| {
        let (rate, seconds) = (rounded(it.arrivals_per_second), rounded(it.service_seconds));
        format!(" --queue {}={rate},{}", it.name, seconds.max(0.001))
    };
    let options: String = queues.iter().map(option).collect();
    (!queues.is_empty()).then(|| {
        format!(
            "unknown, because {} {grow} now: if {their} jobs push further jobs, or begin again before \
             they have ended, more arrive with more threads, which then do not help; if they do not, \
             give the figures (weir plan{options})",
            list(queues.iter().map(|it| it.name.as_str()))
        )
    })
}

/// Names the queues whose jobs are assumed to wait mostly, because their CPU time is unknown.
fn assumption(wanted: &PlanInput) -> String {
    let queues = wanted.queues.iter().filter(|queue| !is_set_aside(&queue.name));
    let (known, unknown): (Vec<_>, Vec<_>) = queues.partition(|it| it.cpu_seconds.is_some());
    let jobs = match (known.is_empty(), unknown.is_empty()) {
        (_, true) => return String::new(),
        (true, false) => "jobs".to_owned(),
        _ => format!("jobs of {}", list(unknown.iter().map(|it| it.name.as_str()))),
    };
    format!(
        "; if {jobs} mostly wait, for a database or the network: their CPU time is not known, and a \
         Ruby process uses one core at a time"
    )
}

/// Queues with a property, and the others.
type Split<'a> = (Vec<&'a &'a QueueDemand>, Vec<&'a &'a QueueDemand>);

/// Explains why it is unknown whether all processes keep up, or returns `None` if it is known.
fn unknown(wanted: &PlanInput, layout: &ProcessLayout) -> Option<String> {
    let is_one = |it: &&QueueDemand| !it.knows_load() && !is_set_aside(&it.name);
    let queues: Vec<_> = wanted.queues.iter().filter(is_one).collect();
    let (first, others) = queues.split_first()?;
    let it = if others.is_empty() { "it" } else { "them" };
    let (held_up, others): Split<'_> =
        queues.iter().partition(|it| it.known == DemandSource::HeldUp);
    let (unserved, others): Split<'_> = others.into_iter().partition(|it| it.is_unserved);
    let (busy, others): Split<'_> =
        others.into_iter().partition(|it| it.known == DemandSource::Busy);
    let (came, idle): Split<'_> = others.into_iter().partition(|it| it.known.knows_rate());
    let names = |of: &[&&QueueDemand]| list(of.iter().map(|queue| queue.name.as_str()));
    let mut ways = Vec::new();
    ways.extend(never_in_progress(&idle));
    if let Some(samples) = busy.iter().map(|queue| queue.samples).max() {
        ways.push(format!(
            "{} threads busy with jobs of {}, but neither how many arrive nor how long each takes (weir \
             plan --window 2m takes ten)",
            wording::number(samples, "sample shows", "samples show"),
            names(&busy)
        ));
    }
    if !unserved.is_empty() {
        ways.push(format!(
            "no process with a recent heartbeat takes jobs of {}, so no sample shows their run time",
            names(&unserved)
        ));
    }
    if !came.is_empty() {
        // A single sample rarely catches jobs that take milliseconds.
        let why = "arrived and none was in progress in a sample; take more samples (weir plan \
                   --window 2m takes ten)";
        ways.push(format!("jobs of {} {why}", names(&came)));
    }
    if !held_up.is_empty() {
        ways.push(format!("jobs of {} are delayed, so their run time is unknown", names(&held_up)));
    }
    let mut why = format!(
        "{}; or give the arrival rate and the run time (weir plan --queue {}=RATE,SECONDS)",
        ways.join("; "),
        first.name
    );
    let now = queues.iter().map(|queue| queue.threads_now).fold(0, u32::saturating_add);
    let is = if now == 1 { "is" } else { "are" };
    if now > 0 {
        let serves = |worker: &&WorkerLayout| queues.iter().any(|it| worker.is_first(&it.name));
        let then = layout.workers.iter().filter(serves).map(WorkerLayout::threads);
        let then = then.fold(0, u32::saturating_add);
        let now = wording::number(now, "thread", "threads");
        let _ = write!(why, "; {now} {is} for {it} now, {then} in this plan");
    }
    Some(why)
}

/// Says that no job of the queues was in progress. Returns `None` without queues.
fn never_in_progress(idle: &[&&QueueDemand]) -> Option<String> {
    let names = list(idle.iter().map(|queue| queue.name.as_str()));
    // Jobs that take milliseconds are rarely seen, however many there are.
    let samples = idle.iter().map(|queue| queue.samples).max()?;
    Some(match samples {
        0 => format!("{} never observed", were(&names, idle.len())),
        _ => format!(
            "no job of {} was seen in progress in {}; a longer --window sees more",
            names.replace(" and ", " or "),
            wording::number(samples, "sample", "samples")
        ),
    })
}

/// Joins names with their verb.
fn were(names: &str, count: usize) -> String {
    format!("{names} {}", if count == 1 { "was" } else { "were" })
}

fn words(seconds: f64) -> String {
    let duration = Duration::try_from_secs_f64(seconds);
    duration.map_or_else(|_| "forever".to_owned(), wording::duration)
}

/// Returns the wait of a queue's jobs in `worker`, where it is not behind others.
fn wait_in(wanted: &PlanInput, worker: &WorkerLayout, queue: &QueueDemand) -> f64 {
    let served = wanted.queues.iter().filter(|queue| worker.serves(&queue.name));
    let threads = f64::from(worker.threads());
    // In random order, each queue gets a share of the threads that become idle.
    let share = match worker.ordering {
        Ordering::Strict | Ordering::Unknown => threads,
        Ordering::Random | Ordering::Weighted => threads / worker.queues.len().max(1) as f64,
    };
    wait(share, need(queue), longest(served))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(rate: f64, service_seconds: f64, target_seconds: Option<f64>) -> QueueDemand {
        let said = QueueDemand::said("push".to_owned(), rate, service_seconds);
        QueueDemand { target_seconds, ..said }
    }

    #[test]
    fn a_target_takes_threads_beyond_the_load() {
        // Ten threads are busy on average. With jobs of half a second, three more become idle often
        // enough for a target of one second.
        assert_eq!(threads(&queue(20.0, 0.5, Some(1.0)), 0.5), Some(12));
        assert_eq!(threads(&queue(20.0, 0.5, Some(30.0)), 0.5), Some(11));
        assert_eq!(threads(&queue(20.0, 0.5, Some(1.0)), 2.0), Some(16));
        assert_eq!(threads(&queue(20.0, 0.5, None), 0.5), None);
    }

    #[test]
    fn who_does_not_keep_up_keeps_no_target() {
        assert!(wait(10.0, 10.0, 0.5).is_infinite());
        assert!((wait(13.0, 10.0, 1.0) - 0.998_577).abs() < 1e-5);
    }
}
