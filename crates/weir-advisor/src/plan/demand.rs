//! What a queue needs, as it was seen to need.
//!
//! Source: Little's law. Jobs in hand are their rate times the seconds of a thread that each takes.

use serde::Serialize;
use weir_base::hint;

use crate::observation::{Jobs, Queue};

use super::{Known, QueueDemand, kept};

/// Seconds of a job where nobody has seen one end: half of what a delivery over the net takes.
const SERVICE_SECONDS: f64 = 0.2;
/// Below, one job more or less makes the difference.
const SERVED_MIN: f64 = 0.2;
/// A longer job was held up, by a debugger or a database.
const SERVICE_SECONDS_MAX: f64 = 600.0;

/// Of two looks at a queue. One that is always empty shows few of its arrivals, but its jobs in hand;
/// one with a backlog shows all that come.
#[must_use]
pub fn demand(queue: &Queue) -> QueueDemand {
    let flow = queue.flow.known();
    let served = flow.map_or(0.0, |flow| flow.served_per_second());
    let arrivals = flow.map_or(0.0, |flow| flow.arrivals_per_second);
    let in_hand = queue.in_hand as f64;
    let service_seconds = if served >= SERVED_MIN && in_hand > 0.0 {
        (in_hand / served).min(SERVICE_SECONDS_MAX)
    } else {
        SERVICE_SECONDS
    };
    let arrivals_per_second = arrivals.max(in_hand / service_seconds);
    let known = if served >= SERVED_MIN && in_hand > 0.0 {
        Known::All
    } else if arrivals_per_second > arrivals {
        Known::Busy
    } else if arrivals > 0.0 || served >= SERVED_MIN {
        Known::Comes
    } else {
        Known::Nothing
    };
    let said = QueueDemand::said(queue.name.clone(), arrivals_per_second, service_seconds);
    QueueDemand { known, ..said }
}

/// What is to be planned for, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Demands {
    /// Those with most to do first.
    pub queues: Vec<QueueDemand>,
    /// Names that stand somewhere and get no process.
    pub left_out: Vec<LeftOut>,
}

/// A name that is no queue any more, or never was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The name.
    pub name: String,
    /// Why it gets no process.
    pub why: String,
}

/// Of all queues that have jobs, that a live process serves or that the application is known to push to.
///
/// Sidekiq never forgets a name that was pushed to once: one that is empty and that nobody serves is left
/// out, as is one that is only served, and misspelt.
#[must_use]
pub fn demands(jobs: &Jobs, pushes: &[String]) -> Demands {
    let mut demands = Demands::default();
    for queue in &jobs.queues {
        match why_not(jobs, pushes, queue) {
            None => demands.queues.push(demand(queue)),
            Some(why) => demands.left_out.push(LeftOut { name: queue.name.clone(), why }),
        }
    }
    for name in pushes {
        if !demands.queues.iter().any(|queue| queue.name == *name) {
            demands.queues.push(QueueDemand::unseen(name));
        }
    }
    kept::keep(&mut demands.queues, jobs);
    let need = |queue: &QueueDemand| queue.arrivals_per_second * queue.service_seconds;
    demands.queues.sort_by(|one, other| need(other).total_cmp(&need(one)));
    demands
}

impl QueueDemand {
    /// Of a queue that the application pushes to and that nobody has seen yet.
    #[must_use]
    pub fn unseen(name: &str) -> Self {
        Self { known: Known::Nothing, ..Self::said(name.to_owned(), 0.0, SERVICE_SECONDS) }
    }

    /// Of a queue whose figures somebody knows.
    #[must_use]
    pub const fn said(name: String, arrivals_per_second: f64, service_seconds: f64) -> Self {
        Self {
            name,
            arrivals_per_second,
            service_seconds,
            target_seconds: None,
            known: Known::All,
            threads_now: 0,
        }
    }
}

/// None: it is one to plan for.
fn why_not(jobs: &Jobs, pushes: &[String], queue: &Queue) -> Option<String> {
    if has_jobs(queue) || pushes.contains(&queue.name) {
        return None;
    }
    // One that is quiet, for it is about to end, serves again in its next life.
    let is_served = jobs.processes.iter().any(|process| process.serves(&queue.name));
    if is_served {
        return meant(jobs, pushes, queue).map(|meant| {
            format!("it is served and nobody pushes to it: taken for a misspelt {meant:?}")
        });
    }
    // While no process is there to be asked, a name may be that of any of their queues.
    let everybody_was_asked = !jobs.processes.is_empty() && !jobs.has_more_processes;
    everybody_was_asked.then(|| {
        "it is empty and no process serves it; `--pushes` names queues that the application still pushes to"
            .to_owned()
    })
}

fn has_jobs(queue: &Queue) -> bool {
    let came = || queue.flow.known().is_some_and(|flow| flow.arrivals_per_second > 0.0);
    queue.length > 0 || queue.in_hand > 0 || came()
}

/// The queue to plan for that nobody serves and whose name is nearly that of `served`, which nobody has
/// pushed to.
fn meant<'a>(jobs: &'a Jobs, pushes: &'a [String], served: &Queue) -> Option<&'a str> {
    if served.pushed {
        return None;
    }
    let of_jobs = jobs.queues.iter().filter(|it| has_jobs(it)).map(|it| it.name.as_str());
    let names = of_jobs.chain(pushes.iter().map(String::as_str));
    let is_free = |name: &&str| !jobs.processes.iter().any(|process| process.serves(name));
    hint::closest(&served.name, names.filter(is_free))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::Flow;
    use crate::healthy;
    use crate::observation::{Fact, Ordering};

    fn need(before: u64, after: u64, arrivals_per_second: f64, in_hand: u64) -> (f64, f64) {
        let window = Duration::from_secs(10);
        let flow =
            Fact::Known(Flow { window, before, after, arrivals_per_second, deviation: None });
        let demand = demand(&Queue { length: after, in_hand, flow, ..Queue::default() });
        (demand.arrivals_per_second, demand.service_seconds)
    }

    #[test]
    fn a_backlog_shows_what_comes_and_how_long_each_takes() {
        // 10 come, 5 are worked off by 10 threads: 2 s each, so 20 threads keep up.
        assert_eq!(need(1_000, 1_050, 10.0, 10), (10.0, 2.0));
        // It drains at 20 a second, which must stay so.
        assert_eq!(need(1_000, 900, 10.0, 10), (20.0, 0.5));
    }

    #[test]
    fn an_empty_queue_shows_its_jobs_in_hand() {
        let (rate, seconds) = need(0, 0, 0.0, 3);
        assert!((rate * seconds - 3.0).abs() < 1e-9);
        assert_eq!(need(0, 0, 0.0, 0), (0.0, SERVICE_SECONDS));
    }

    #[test]
    fn what_was_not_seen_is_assumed() {
        let known = |before, after, arrivals_per_second, in_hand| {
            let window = Duration::from_secs(10);
            let flow =
                Fact::Known(Flow { window, before, after, arrivals_per_second, deviation: None });
            demand(&Queue { length: after, in_hand, flow, ..Queue::default() }).known
        };
        assert_eq!(known(1_000, 1_050, 10.0, 10), Known::All);
        assert_eq!(known(0, 0, 0.0, 3), Known::Busy);
        assert_eq!(known(0, 100, 10.0, 0), Known::Comes);
        assert_eq!(known(0, 0, 0.0, 0), Known::Nothing);
        assert_eq!(known(7, 7, 0.0, 0), Known::Nothing, "they only wait");
        assert_eq!(demand(&Queue::default()).known, Known::Nothing, "it was looked at once");
        assert_eq!(demand(&Queue::default()).threads_now, 0);
    }

    #[test]
    fn an_idle_queue_keeps_the_threads_that_serve_it() {
        let demands = demands(&jobs(), &["mailers".to_owned()]);
        let now: Vec<_> =
            demands.queues.iter().map(|it| (it.name.as_str(), it.threads_now)).collect();
        assert_eq!(now, [("default", 4), ("mailers", 0), ("pull", 0), ("scheduler", 1)]);
    }

    fn named(name: &str, pushed: bool, length: u64) -> Queue {
        Queue { name: name.to_owned(), pushed, length, ..Queue::default() }
    }

    /// One process serves default, mailer and scheduler; of all queues only pull has jobs.
    fn jobs() -> Jobs {
        let served = [("default", 0), ("mailer", 0), ("scheduler", 0)];
        Jobs {
            queues: vec![
                named("default", true, 0),
                named("mailer", false, 0),
                named("mailers", true, 0),
                named("pull", true, 40),
                named("scheduler", false, 0),
                named("trends", true, 0),
            ],
            processes: vec![healthy::process(1, 5, Ordering::Strict, &served)],
            ..Jobs::default()
        }
    }

    fn names(demands: &Demands) -> (Vec<&str>, Vec<&str>) {
        (
            demands.queues.iter().map(|it| it.name.as_str()).collect(),
            demands.left_out.iter().map(|it| it.name.as_str()).collect(),
        )
    }

    #[test]
    fn what_is_served_waits_or_is_pushed_is_planned_and_old_names_are_not() {
        let pushes = ["mailers", "fasp"].map(str::to_owned);
        let demands = demands(&jobs(), &pushes);
        let planned = vec!["default", "mailers", "pull", "scheduler", "fasp"];
        assert_eq!(names(&demands), (planned, vec!["mailer", "trends"]));
        assert!(demands.left_out[0].why.ends_with("misspelt \"mailers\""), "{demands:?}");
        assert!(demands.left_out[1].why.starts_with("it is empty and no process serves it"));
    }

    #[test]
    fn a_queue_whose_only_process_is_quiet_is_one_all_the_same() {
        let mut jobs = jobs();
        jobs.processes[0].quiet = true;
        assert!(names(&demands(&jobs, &[])).0.contains(&"scheduler"));
    }

    #[test]
    fn while_nobody_is_there_to_be_asked_no_name_is_old() {
        let mut jobs = jobs();
        jobs.has_more_processes = true;
        assert_eq!(names(&demands(&jobs, &[])).1, [""; 0]);
        jobs.has_more_processes = false;
        jobs.processes.clear();
        assert_eq!(names(&demands(&jobs, &[])).1, [""; 0]);
    }
}
