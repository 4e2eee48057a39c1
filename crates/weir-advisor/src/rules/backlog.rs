//! A queue has a backlog; reports its growth and its time to drain.

mod causes;

use std::collections::BTreeMap;
use std::time::Duration;

use self::causes::{
    ended_again, not_completed, returned, returning, slow_round_trip, stuck_server,
};
use crate::finding::{Confidence, Finding, Severity};
use crate::flow::Drain;
use crate::forecast::Forecast;
use crate::observation::{
    Fact, JobProcess, Observation, ObservedQueue, RedisServer, SET_ASIDE_SUFFIX, SidekiqObservation,
};
use crate::queue_line::Repaired;
use crate::rules::waiting_jobs::{OLD_MIN, idle, is_long, refused};
use crate::rules::{
    busy_pooler, ghost_process, idle_cores, lock_waits, starving_queue, waiting_jobs,
};
use crate::shell;
use crate::wording::{self, counted_rate};

pub(crate) const NAME: &str = "backlog";

/// Latency from which even a few jobs are a backlog, whether or not some are completed.
const LATE_MIN: Duration = Duration::from_secs(1_800);
/// Latency from which even a single job counts if none is completed.
const STUCK_MIN: Duration = Duration::from_secs(600);

const FAILING: &str = "No time to drain can be given: most jobs fail, and return to their queue as \
                       retries. Repair what makes them fail first.";

/// With fewer idle cores, jobs wait for CPU time.
const CORES_IDLE_MIN: f64 = 0.1;
const CPU_UNSEEN: &str = "All threads are busy; whether their jobs wait or compute was not observed, \
                          because the CPU usage of these processes is not visible from here, as on other \
                          hosts. If they compute, more threads do not help: a Ruby process uses one core at a time.";
const NO_IDLE_CORE: &str = "No core of this machine is idle: more threads would only wait for one as \
                            well.";

/// A process that was started within this time may be restarted again and again.
const RESTARTED: Duration = Duration::from_secs(120);

/// If every thread has had its job for this long, the threads are stuck.
const HANG_MIN: Duration = Duration::from_secs(300);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let is_behind = |queue: &ObservedQueue| is_long(queue) || is_stuck(queue) || is_late(queue);
    // The rule `starving_queue` explains jobs behind other queues better: new jobs would starve in
    // the same way if the old ones were set aside.
    let refused = refused(observation);
    let starves =
        |queue: &ObservedQueue| refused.is_none() && starving_queue::explains(jobs, queue);
    let behind = |queue: &&ObservedQueue| !queue.paused && is_behind(queue) && !starves(queue);
    let served = |queue: &&ObservedQueue| jobs.serving_queue(&queue.name).next().is_some();
    let mut queues: Vec<_> = jobs.queues.iter().filter(behind).filter(served).collect();
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.latency));
    let forecast = if queues.is_empty() { Forecast::default() } else { Forecast::of(jobs) };
    let context = BacklogContext {
        jobs,
        repaired: Repaired::of(observation),
        holders: starving_queue::holders(jobs),
        is_copy: observation.redis.first().and_then(Fact::known).is_some_and(RedisServer::is_copy),
    };
    let commits_wait = lock_waits::commits_wait(observation);
    let is_paused = busy_pooler::is_paused(observation);
    let found = |queue: &ObservedQueue| match refused {
        Some(why) => held_by_redis(jobs, queue, why),
        None => {
            let is_held = lock_waits::may_hold_up(observation, jobs, &queue.name);
            let finding = found(&context, queue, &forecast, is_held);
            match commits_wait {
                true => held_by_standby(finding),
                false if is_paused => held_by_pooler(finding),
                false => with_cpu(finding, observation, jobs, &queue.name),
            }
        }
    };
    let paused = jobs.queues.iter().filter(|it| is_forgotten(it)).map(|it| (it, paused(it)));
    let found = queues.into_iter().map(|queue| (queue, found(queue)));
    let all = found.chain(paused);
    all.map(|(queue, found)| found.since(queue.latency, waiting_jobs::OLDEST_JOB)).collect()
}

/// Reports whether something that was observed explains the backlog of a queue, but for its length.
pub(super) fn has_known_cause(
    observation: &Observation,
    jobs: &SidekiqObservation,
    queue: &ObservedQueue,
) -> bool {
    refused(observation).is_some()
        || queue.expires_in.is_some()
        || lock_waits::commits_wait(observation)
        || busy_pooler::is_paused(observation)
        || lock_waits::may_hold_up(observation, jobs, &queue.name)
        || starving_queue::explains(jobs, queue)
        || idle(jobs, queue).is_some()
        || returning(jobs, queue).is_some()
        || ghost_process::is_crash_loop(jobs, &queue.name)
}

/// What remedies of all queues depend on.
struct BacklogContext<'a> {
    jobs: &'a SidekiqObservation,
    repaired: Repaired<'a>,
    /// The queues whose long jobs hold every thread that serves other queues, with those.
    holders: BTreeMap<&'a str, Vec<&'a str>>,
    /// The Redis is a replica, on which nothing can be renamed.
    is_copy: bool,
}

/// Reports whether the queue may have been paused and forgotten.
fn is_forgotten(queue: &ObservedQueue) -> bool {
    queue.paused && queue.length > 0 && queue.latency >= STUCK_MIN
}

fn paused(queue: &ObservedQueue) -> Finding {
    let subject = format!("queue {}", queue.name);
    if let Some(name) = quarantine_of(&queue.name) {
        let evidence = format!("{}; they are quarantined (weir jobs quarantine)", waiting(queue));
        return Finding::new(NAME, Severity::Notice, subject, evidence)
            .leads_to("Its jobs wait until they are taken back. If that is on purpose, leave them.")
            .next(format!("weir jobs quarantine take-back {name}"));
    }
    let evidence = format!("{}; it is paused (Sidekiq Pro)", waiting(queue));
    let unpause = format!("Sidekiq::Queue.new(\"{}\").unpause!", ruby(&queue.name));
    Finding::new(NAME, Severity::Notice, subject, evidence)
        .leads_to(
            "Its jobs wait until the queue is unpaused. If it was paused on purpose, leave it.",
        )
        .next(format!("bundle exec rails runner {}", shell::word(&unpause)))
}

/// Returns the name of Weir's quarantine that has this queue, which is called `quarantine.NAME.QUEUE`.
fn quarantine_of(queue: &str) -> Option<&str> {
    let (name, _) = queue.strip_prefix("quarantine.")?.split_once('.')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (!name.is_empty() && name.bytes().all(is_name)).then_some(name)
}

fn is_late(queue: &ObservedQueue) -> bool {
    queue.length > 0 && queue.latency >= LATE_MIN && !queue.is_set_aside()
}

/// Reports whether no process takes the queue's few jobs although one serves it.
fn is_stuck(queue: &ObservedQueue) -> bool {
    let is_late = queue.length > 0 && queue.latency >= STUCK_MIN && !queue.is_set_aside();
    is_late && queue.flow.known().is_some() && queue.stands()
}

/// Escapes text for a double-quoted Ruby string, where `#` may begin interpolation.
fn ruby(text: &str) -> String {
    let escaped = |letter| match letter {
        '"' | '\\' | '#' => vec!['\\', letter],
        _ => vec![letter],
    };
    text.chars().flat_map(escaped).collect()
}

fn found(
    context: &BacklogContext<'_>,
    queue: &ObservedQueue,
    forecast: &Forecast,
    is_held: bool,
) -> Finding {
    let (jobs, drain) = (context.jobs, forecast.queue(&queue.name));
    let is_set_aside = queue.is_set_aside();
    let severity = match drain {
        _ if is_set_aside => Severity::Notice,
        Some(Drain::Grows) => Severity::Critical,
        Some(Drain::After(left)) if is_over_soon(queue, left, forecast) => Severity::Notice,
        _ => Severity::Warning,
    };
    let finding =
        Finding::new(NAME, severity, format!("queue {}", queue.name), evidence(jobs, queue))
            .leads_to(consequence(queue, forecast));
    if let Some(process) = idle(jobs, queue) {
        return not_taken(finding, process);
    }
    if is_set_aside {
        return finding;
    }
    if let Some(per_second) = returning(jobs, queue) {
        return returned(finding, per_second);
    }
    if let Some(process) = hanging(jobs, queue) {
        let since = wording::duration(HANG_MIN);
        let finding = finding.leads_to(format!(
            "No job was completed: every thread that serves it has been running its job for \
             {since} or longer. {}",
            process.where_threads_show()
        ));
        return finding.next_if(process.print_threads_command());
    }
    if !is_long(queue) && is_stuck(queue) {
        // The queue is stuck rather than behind others, so Sidekiq's log shows what its threads do.
        let process = jobs.serving_queue(&queue.name).next();
        return finding.next_if(process.and_then(JobProcess::print_threads_command));
    }
    let finding = match context.holders.get(queue.name.as_str()) {
        Some(waiting) => holding(finding, waiting),
        None => finding,
    };
    match drain {
        // More threads or another order would only fail more jobs.
        None if forecast.is_withheld => finding,
        // The queue is empty before any remedy takes effect.
        Some(Drain::After(left)) if left < OLD_MIN => finding,
        // New jobs would wait for the same lock.
        None | Some(Drain::Grows | Drain::Stands) if is_held => held_by_lock(finding),
        _ if ghost_process::is_crash_loop(jobs, &queue.name) => ended_again(finding),
        _ if !context.holders.contains_key(queue.name.as_str())
            && let Some(process) = stuck_server(jobs, queue) =>
        {
            not_completed(finding, process)
        }
        _ if is_to_be_set_aside(context, queue) => set_aside(context, finding, &queue.name),
        Some(Drain::After(_)) => finding.next("weir plan"),
        _ => of_unknown_cause(finding, jobs, queue).next("weir plan"),
    }
}

/// Says what more threads assume, because nothing shows why the queue has a backlog.
fn of_unknown_cause(finding: Finding, jobs: &SidekiqObservation, queue: &ObservedQueue) -> Finding {
    if let Some(text) = slow_round_trip(jobs, queue) {
        return finding.adding(text);
    }
    let youngest = jobs.serving_queue(&queue.name).filter_map(|process| process.running_for).min();
    let restarts = youngest.filter(|age| *age < RESTARTED && *age < queue.latency).map(|age| {
        format!(
            " A process that serves it was started {} ago: if it is restarted again and again, long \
             jobs never end.",
            wording::duration(age)
        )
    });
    finding.adding(format_args!(
        "Its cause is not known.{} The plan takes the measured arrivals as given: if jobs push \
         further jobs, or begin again before they have ended, more threads do not help.",
        restarts.unwrap_or_default()
    ))
}

/// Reports whether a young backlog will be empty soon, even if the forecast is too short.
fn is_over_soon(queue: &ObservedQueue, left: Duration, forecast: &Forecast) -> bool {
    let longest = match forecast.queue_between(&queue.name) {
        Some(between) => between.longest.unwrap_or(Duration::MAX),
        None => left,
    };
    waiting_jobs::is_over_soon(queue.latency, left, longest)
}

/// Reports that jobs wait for a Redis that rejects writes.
fn held_by_redis(jobs: &SidekiqObservation, queue: &ObservedQueue, why: &str) -> Finding {
    let subject = format!("queue {}", queue.name);
    let finding = Finding::new(NAME, Severity::Warning, subject, evidence(jobs, queue));
    finding.leads_to(format!(
        "Redis rejects writes: {why}. Repair Redis first: until then set nothing aside and restart \
         no Sidekiq process, which may lose the jobs that it has in progress."
    ))
}

/// Reports that the queue's long jobs hold the threads of others, which its new jobs would as well.
fn holding(finding: Finding, waiting: &[&str]) -> Finding {
    finding.adding(format_args!(
        "Its jobs hold all threads that serve {}: threads of their own come first \
         (starving-queue).",
        wording::list(waiting.iter().copied())
    ))
}

/// Says whether CPU time limits a queue. More threads do not help then. The heartbeat of a process that
/// has too little of it shows few busy threads, because the others have not reported their job yet.
fn with_cpu(
    finding: Finding,
    observation: &Observation,
    jobs: &SidekiqObservation,
    queue: &str,
) -> Finding {
    if finding.severity < Severity::Warning {
        return finding;
    }
    let serving: Vec<&JobProcess> = jobs.serving_queue(queue).collect();
    let are_busy = || serving.iter().all(|process| idle_cores::has_all_threads_busy(process));
    let used = serving.iter().filter_map(|it| Some((*it.cores_used.known()?, *it)));
    let text = match used.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
        None if are_busy() => CPU_UNSEEN.to_owned(),
        Some((used, process)) if used >= idle_cores::CORE_SHARE => format!(
            "Process {} uses {used:.2} of the one core that a Ruby process can use: more threads do \
             not help, but another process on a free core does.",
            process.identity
        ),
        Some((_, process)) if process.computes() && has_no_idle_core(observation) => {
            NO_IDLE_CORE.to_owned()
        }
        _ => return finding,
    };
    finding.adding(text)
}

fn has_no_idle_core(observation: &Observation) -> bool {
    observation.machine.known().is_some_and(|machine| machine.cores_idle < CORES_IDLE_MIN)
}

/// Reports that jobs cannot commit. Their threads hang, and more threads would as well.
fn held_by_standby(finding: Finding) -> Finding {
    finding.without_actions().leads_to(
        "Commits of Postgres wait for a synchronous standby (lock-waits): end that wait first, then \
         see whether the queue still grows.",
    )
}

/// Reports that jobs wait for a connection of a paused pooler. Their threads hang, and more threads would
/// as well.
fn held_by_pooler(finding: Finding) -> Finding {
    finding.without_actions().leads_to(
        "Clients wait for a pooler that is paused (busy-pooler): resume it first, then see whether the \
         queue still grows.",
    )
}

fn held_by_lock(finding: Finding) -> Finding {
    finding.adding(
        "Sessions wait for a lock of Postgres: end that wait first, then see whether the queue \
         still grows.",
    )
}

/// Reports that jobs wait although threads are free. Neither other jobs nor more threads explain
/// that, so that nothing else is suggested.
fn not_taken(finding: Finding, process: &JobProcess) -> Finding {
    let evidence = format!(
        "{}; {}, which serves it, sends heartbeats, has no job in progress and took none",
        finding.evidence, process.identity
    );
    let finding = Finding { evidence, severity: Severity::Critical, ..finding };
    finding.with_confidence(Confidence::Likely).leads_to(format!(
        "Its fetches appear to fail: a Redis user without BRPOP, for example, or a fetcher that \
         holds jobs back. Sidekiq's log on {} shows it.",
        process.hostname
    ))
}

/// Suggests to set the backlog aside. This takes two steps unless a process serves the backlog's
/// queue already; without one, the command would report an error.
fn set_aside(context: &BacklogContext<'_>, finding: Finding, queue: &str) -> Finding {
    let BacklogContext { jobs, repaired, .. } = context;
    let backlog = backlog_of(queue);
    let command = set_aside_command(queue);
    if jobs.serving_queue(&backlog).next().is_some() {
        return finding.next(command);
    }
    let first = match repaired.is_changed(queue) {
        true => "once the other change to its queues is made, ",
        false => "",
    };
    let consequence = format!(
        "{} Running new jobs first takes two steps: {first}a process must serve {backlog} as the \
         last of its queues; once it runs, the command sets the backlog aside.",
        finding.consequence
    );
    let finding = finding.leads_to(consequence);
    if !first.is_empty() {
        return finding;
    }
    // A single line for all of them, because a second line would remove the first one's backlog.
    let others = jobs.queues.iter().filter(|it| is_to_be_set_aside(context, it));
    let backlogs: Vec<String> = others.map(|it| backlog_of(&it.name)).collect();
    repaired.with_last(finding, queue, &backlogs).next(command)
}

fn is_to_be_set_aside(context: &BacklogContext<'_>, queue: &ObservedQueue) -> bool {
    let BacklogContext { jobs, holders, is_copy, .. } = context;
    let is_late = !is_copy && !queue.paused && is_long(queue) && queue.latency >= OLD_MIN;
    let would_help = !starving_queue::explains(jobs, queue)
        && idle(jobs, queue).is_none()
        && returning(jobs, queue).is_none()
        && stuck_server(jobs, queue).is_none()
        && !ghost_process::is_crash_loop(jobs, &queue.name)
        && !holders.contains_key(queue.name.as_str());
    is_late && would_help && !queue.is_set_aside() && !has_been_set_aside(jobs, queue)
}

fn backlog_of(queue: &str) -> String {
    format!("{queue}{SET_ASIDE_SUFFIX}")
}

/// Reports whether its backlog queue already has jobs. The command does not overwrite those.
fn has_been_set_aside(jobs: &SidekiqObservation, queue: &ObservedQueue) -> bool {
    jobs.queue(&backlog_of(&queue.name)).is_some_and(|it| it.length > 0)
}

fn set_aside_command(queue: &str) -> String {
    let end_of_options = if queue.starts_with('-') { "-- " } else { "" };
    format!("weir sidekiq set-aside {end_of_options}{}", shell::word(queue))
}

fn evidence(jobs: &SidekiqObservation, queue: &ObservedQueue) -> String {
    let flow = match &queue.flow {
        Fact::Known(flow) => format!(
            "; arrival rate {}, completion rate {}",
            counted_rate(flow.arrivals_per_second, flow.window),
            counted_rate(jobs.completed_per_second(flow), flow.window)
        ),
        _ => String::new(),
    };
    format!("{}{flow}", waiting(queue))
}

fn waiting(queue: &ObservedQueue) -> String {
    wording::jobs_wait_since(queue.length, queue.latency)
}

fn consequence(queue: &ObservedQueue, forecast: &Forecast) -> String {
    if queue.expires_in.is_some() {
        return "Its key expires (expiring-queue): no time to drain can be given.".to_owned();
    }
    let between = forecast.queue_between(&queue.name);
    match forecast.queue(&queue.name) {
        Some(Drain::Grows) => "It is growing: at these rates it will never drain.".to_owned(),
        Some(Drain::After(left)) => {
            format!("It will be empty in {}.", wording::about(left, between))
        }
        _ if is_stuck(queue) => {
            let window = queue.flow.known().map_or(Duration::ZERO, |flow| flow.window);
            format!(
                "No job was completed in the window of {}: jobs may take longer than that, or hang.",
                wording::duration(window)
            )
        }
        Some(Drain::Stands) => stands(queue),
        None if forecast.is_withheld => FAILING.to_owned(),
        Some(Drain::Empty) | None => "New jobs wait equally long.".to_owned(),
    }
}

fn stands(queue: &ObservedQueue) -> String {
    match &queue.flow {
        Fact::Known(flow) if !flow.is_steady() => format!(
            "{} are too short to tell whether it is growing or shrinking: use a longer --window.",
            wording::duration(flow.window)
        ),
        _ => "Its depth is constant: new jobs wait equally long.".to_owned(),
    }
}

/// Returns the first process that serves the queue, if none of its jobs is completed and all
/// threads that serve it have had their jobs for long. More jobs of this queue would hang as well.
fn hanging<'a>(jobs: &'a SidekiqObservation, queue: &'a ObservedQueue) -> Option<&'a JobProcess> {
    let mut serving = jobs.serving_queue(&queue.name);
    let hangs = |process: &JobProcess| process.all_have_had_their_job_for(HANG_MIN);
    let first = serving.next().filter(|it| queue.stands() && hangs(it))?;
    serving.all(hangs).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;
    use crate::healthy;
    use crate::observation::{
        ConnectionPool, JobInHand, LockWait, Master, Ordering, PgBouncer, PooledDatabase,
        SynchronousCommit, WeightedQueue,
    };

    fn behind(name: &str, before: u64, after: u64, seconds: u64) -> Observation {
        let mut observation = healthy::observation();
        let queue = observation.jobs.known_mut().queue_mut(name);
        (queue.length, queue.latency) = (after, Duration::from_secs(seconds));
        let window = Duration::from_secs(10);
        queue.flow =
            Fact::Known(Flow { window, before, after, arrivals_per_second: 10.0, deviation: None });
        observation
    }

    #[test]
    fn a_queue_that_drains_says_when_it_is_empty() {
        let finding = check(&behind("push", 40_200, 40_000, 120)).remove(0);
        assert_eq!(finding.severity, Severity::Warning);
        let expected = "40,000 jobs wait, the oldest for 2 min; arrival rate 10.0/s, completion \
                        rate 30.0/s";
        assert_eq!(finding.evidence, expected);
        assert_eq!(finding.consequence, "It will be empty in 33 min 20 s (28 min to 41 min).");
        assert_eq!(finding.next_step(), Some("weir plan"));
    }

    #[test]
    fn a_backlog_beside_a_process_that_has_just_started_may_be_due_to_restarts() {
        let mut observation = behind("push", 40_000, 40_100, 1_200);
        for process in &mut observation.jobs.known_mut().processes {
            process.running_for = Some(Duration::from_secs(40));
        }
        let jobs = observation.jobs.known().unwrap();
        let finding = Finding::new(NAME, Severity::Warning, "queue push", "");
        let queue = jobs.queue("push").unwrap();
        let consequence = of_unknown_cause(finding, jobs, queue).consequence;
        assert!(consequence.contains("was started 40 s ago"), "{consequence}");
    }

    /// Returns a backlog whose only process sends heartbeats and takes nothing.
    fn idle_beside(name: &str) -> Observation {
        let mut observation = behind(name, 39_000, 39_100, 1_200);
        let jobs = observation.jobs.known_mut();
        jobs.processed_per_second = Fact::Known(0.0);
        for process in &mut jobs.processes {
            (process.busy, process.in_hand) = (0, Vec::new());
        }
        observation
    }

    #[test]
    fn a_redis_that_rejects_writes_is_to_be_repaired_first() {
        let mut observation = behind("push", 40_000, 40_100, 1_200);
        assert!(check(&observation).remove(0).line_change().is_some());
        observation.redis[0].known_mut().info.persistence.last_append_ok = false;
        let finding = check(&observation).remove(0);
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
        assert!(finding.consequence.contains("Repair Redis first"), "{}", finding.consequence);
    }

    #[test]
    fn a_replica_that_doctor_reads_does_not_hold_up_the_jobs_of_its_master() {
        let mut observation = behind("push", 40_000, 40_100, 1_200);
        let (address, is_linked) = ("10.0.0.5:6380".to_owned(), true);
        let master = Master { address, is_linked, is_read_only: true, ..Master::default() };
        observation.redis[0].known_mut().info.replica_of = Some(master);
        let finding = check(&observation).remove(0);
        assert_eq!(finding.next_step(), Some("weir plan"), "a replica renames no queue");
        assert!(finding.consequence.contains(" Its cause is not known. The plan"), "{finding:?}");
        assert!(!finding.consequence.contains("rejects writes"), "{}", finding.consequence);
        observation.jobs.known_mut().processes.clear();
        let redis = observation.redis[0].known_mut().clone();
        assert!(redis.refuses_writes_of(observation.jobs.known_mut()).is_some());
    }

    #[test]
    fn jobs_that_free_threads_do_not_take_are_not_to_be_set_aside() {
        let observation = idle_beside("push");
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!((finding.next_step(), finding.line_change()), (None, None));
        let expected = "shop:1:0123456789ab, which serves it, sends heartbeats, has no job in \
                        progress and took none";
        assert!(finding.evidence.ends_with(expected), "{finding:?}");
        assert!(finding.consequence.starts_with("Its fetches appear to fail"), "{finding:?}");
        assert!(finding.consequence.ends_with("Sidekiq's log on shop shows it."), "{finding:?}");
        let is_said = |change: &dyn Fn(&mut SidekiqObservation)| {
            let mut observation = observation.clone();
            change(observation.jobs.known_mut());
            check(&observation)[0].consequence.starts_with("Its fetches appear to fail")
        };
        assert!(is_said(&|_| {}));
        assert!(!is_said(&|jobs| jobs.processes[0].busy = 1), "it may run jobs of other queues");
        assert!(!is_said(&|jobs| jobs.processed_per_second = Fact::Known(0.1)));
        let young = Some(Duration::from_secs(20));
        assert!(!is_said(&|jobs| jobs.processes[0].running_for = young), "it has just started");
        assert!(!is_said(&|jobs| jobs.queue_mut("push").flow.known_mut().before = 0));
    }

    #[test]
    fn a_backlog_that_was_set_aside_and_is_not_taken_is_no_notice() {
        let mut observation = idle_beside("pull");
        observation.jobs.known_mut().queue_mut("pull").name = "pull_backlog".to_owned();
        observation.jobs.known_mut().processes[0].capsules[0].queues[4].name =
            "pull_backlog".to_owned();
        assert_eq!(check(&observation)[0].severity, Severity::Critical);
    }

    #[test]
    fn a_queue_that_starves_is_not_to_be_set_aside() {
        let mut observation = behind("pull", 39_000, 39_100, 1_200);
        let jobs = observation.jobs.known_mut();
        jobs.queue_mut("pull").flow.known_mut().arrivals_per_second = 10.0;
        let ahead = jobs.queue_mut("default");
        (ahead.length, ahead.flow.known_mut().before) = (500, 500);
        jobs.processes.truncate(1);
        (jobs.processes[0].busy, jobs.processes[0].capsules[0].ordering) = (25, Ordering::Unknown);
        let findings = crate::advise(&observation).findings;
        let of_pull: Vec<_> = findings.iter().filter(|it| it.subject == "queue pull").collect();
        assert_eq!(of_pull[0].rule, "starving-queue", "{of_pull:?}");
        assert_eq!(of_pull[0].severity, Severity::Warning);
        assert!(!of_pull.iter().any(|it| it.rule == NAME), "{of_pull:?}");
    }

    #[test]
    fn a_queue_whose_long_jobs_hold_all_threads_is_not_to_be_set_aside() {
        let mut observation = behind("push", 9_000, 9_000, 900);
        observation.pushed_queues = Fact::NotAsked;
        let jobs = observation.jobs.known_mut();
        jobs.processes.truncate(1);
        jobs.queues.retain(|queue| queue.name != "scheduler");
        let age = Duration::from_secs(30);
        let import = JobInHand { class: "Import".to_owned(), queue: "push".to_owned(), age };
        jobs.processes[0].in_hand = vec![import; 25];
        let waiting = jobs.queue_mut("default");
        (waiting.length, waiting.latency) = (30, Duration::from_secs(90));
        waiting.flow.known_mut().after = 30;
        waiting.flow.known_mut().arrivals_per_second = 2.8;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.subject, "queue push");
        assert_eq!((finding.next_step(), finding.line_change()), (Some("weir plan"), None));
        let expected =
            "Its jobs hold all threads that serve default: threads of their own come first";
        assert!(finding.consequence.contains(expected), "{finding:?}");
        observation.jobs.known_mut().processes[0].in_hand.pop();
        assert!(check(&observation)[0].line_change().is_some(), "a thread is free for default");
    }

    #[test]
    fn jobs_that_fail_are_not_completed_and_their_queue_gets_no_forecast() {
        let mut observation = behind("push", 43_400, 40_000, 120);
        let jobs = observation.jobs.known_mut();
        jobs.retries.flow = jobs.queue_mut("push").flow.clone();
        (jobs.processed_per_second, jobs.failed_share) = (Fact::Known(350.0), Fact::Known(0.96));
        let finding = check(&observation).remove(0);
        let expected = "; arrival rate 10.0/s, completion rate 14.0/s";
        assert!(finding.evidence.ends_with(expected), "{}", finding.evidence);
        let expected = "No time to drain can be given: most jobs fail";
        assert!(finding.consequence.starts_with(expected), "{}", finding.consequence);
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
        let verdict = crate::advise(&observation).verdict;
        assert_eq!((verdict.drain, verdict.until_all_is_empty()), (None, None));
        // A smaller part that fails leaves the forecast.
        observation.jobs.known_mut().failed_share = Fact::Known(0.2);
        let finding = check(&observation).remove(0);
        assert!(finding.evidence.ends_with("completion rate 280/s"), "{}", finding.evidence);
        assert!(finding.consequence.starts_with("It will be empty"), "{}", finding.consequence);
    }

    #[test]
    fn what_was_not_counted_once_is_no_zero() {
        let mut observation = behind("push", 40_000, 40_000, 120);
        let queue = observation.jobs.known_mut().queue_mut("push");
        queue.flow.known_mut().arrivals_per_second = 0.0;
        let finding = check(&observation).remove(0);
        let expected = "; arrival rate < 1 in 10 s, completion rate < 1 in 10 s";
        assert!(finding.evidence.ends_with(expected), "{}", finding.evidence);
    }

    #[test]
    fn one_that_grows_is_critical_and_new_jobs_can_go_first() {
        let mut observation = behind("push", 39_000, 40_000, 1_200);
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.next_step(), Some("weir sidekiq set-aside push"));
        // The first step is to serve the backlog, because the command reports an error otherwise.
        let line = finding.line_change().unwrap().line.clone();
        assert!(
            line.starts_with("-q default,16 -q push,12 ") && line.ends_with(" -q push_backlog,1"),
            "{line}"
        );
        // Two backlogs are in one line.
        let pull = observation.jobs.known_mut().queue_mut("pull");
        (pull.length, pull.latency) = (9_000, Duration::from_secs(1_200));
        for finding in check(&observation) {
            let line = finding.line_change().unwrap().line.clone();
            assert!(line.ends_with(" -q push_backlog,1 -q pull_backlog,1"), "{line}");
        }
        // Changes to the same queues from other findings come first.
        observation.jobs.known_mut().queue_mut("fasp").name = "new".to_owned();
        let finding = check(&observation).remove(0);
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
        assert!(finding.consequence.contains("once the other change to its queues is made"));
        let mut served = behind("push", 39_000, 40_000, 1_200);
        let queue = WeightedQueue { name: "push_backlog".to_owned(), weight: 1 };
        served.jobs.known_mut().processes[0].capsules[0].queues.push(queue);
        let finding = check(&served).remove(0);
        assert_eq!((finding.line_change(), finding.next_step().is_some()), (None, true));
    }

    #[test]
    fn a_queue_whose_process_has_no_more_cpu_time_is_said_to_need_no_threads() {
        let consequence = |cores_used, cores_idle: f64, busy| {
            let mut observation = behind("push", 39_000, 40_000, 120);
            observation.machine.known_mut().cores_idle = cores_idle;
            let process = &mut observation.jobs.known_mut().processes[0];
            (process.cores_used, process.busy) = (cores_used, busy);
            check(&observation).remove(0).consequence
        };
        let one = consequence(Fact::Known(0.95), 0.5, 6);
        assert!(one.contains("uses 0.95 of the one core"), "{one}");
        assert!(one.contains("more threads do not help"), "{one}");
        let machine = consequence(Fact::Known(0.3), 0.05, 6);
        assert!(machine.contains("No core of this machine is idle"), "{machine}");
        let elsewhere = consequence(Fact::NotAsked, 2.0, 25);
        assert!(elsewhere.contains("was not observed"), "{elsewhere}");
        for waiting in [consequence(Fact::Known(0.3), 2.0, 25), consequence(Fact::NotAsked, 2.0, 3)]
        {
            assert!(waiting.contains("it will never drain. Its cause is not known."), "{waiting}");
        }
    }

    #[test]
    fn a_queue_whose_pooler_is_paused_is_not_to_be_set_aside() {
        let mut observation = behind("push", 39_000, 40_000, 1_200);
        let database =
            PooledDatabase { name: "app".to_owned(), is_paused: true, ..PooledDatabase::default() };
        let pool = ConnectionPool {
            database: "app".to_owned(),
            clients_waiting: 6,
            longest_wait: Duration::from_secs(65),
            ..ConnectionPool::default()
        };
        let mut pgbouncer =
            PgBouncer { pools: vec![pool], databases: vec![database], ..PgBouncer::default() };
        observation.pgbouncer = Fact::Known(pgbouncer.clone());
        let finding = check(&observation).remove(0);
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
        assert!(finding.consequence.starts_with("Clients wait for a pooler that is paused"));
        let findings = crate::advise(&observation).findings;
        let place = |rule: &str| findings.iter().position(|it| it.rule == rule).unwrap();
        assert!(place("busy-pooler") < place(NAME), "the cause comes first: {findings:?}");
        pgbouncer.databases[0].is_paused = false;
        observation.pgbouncer = Fact::Known(pgbouncer);
        assert!(check(&observation)[0].next_step().is_some());
    }

    #[test]
    fn a_queue_whose_jobs_return_to_it_is_not_said_to_hang() {
        let returning = |before| {
            let mut observation = behind("push", before, 455, 900);
            let jobs = observation.jobs.known_mut();
            jobs.queue_mut("push").flow.known_mut().arrivals_per_second = 0.0;
            jobs.processed_per_second = Fact::Known(60.0);
            let age = Duration::from_millis(100);
            let job = JobInHand { queue: "push".to_owned(), age, ..JobInHand::default() };
            jobs.processes[0].in_hand = vec![job; 5];
            observation
        };
        let mut observation = returning(455);
        let finding = check(&observation).remove(0);
        let expected = "Sidekiq counts 60.0/s as processed, but the queue keeps its length";
        assert!(finding.consequence.starts_with(expected), "{}", finding.consequence);
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
        // Jobs of another queue may be what ends, or all of this one have been running for long.
        for job in &mut observation.jobs.known_mut().processes[0].in_hand[..3] {
            "default".clone_into(&mut job.queue);
        }
        assert!(!check(&observation)[0].consequence.contains("as processed"));
        let mut observation = returning(455);
        for job in &mut observation.jobs.known_mut().processes[0].in_hand {
            job.age = Duration::from_secs(11);
        }
        assert!(!check(&observation)[0].consequence.contains("as processed"));
        assert!(!check(&returning(500))[0].consequence.contains("as processed"), "it shrinks");
    }

    #[test]
    fn where_no_job_ends_and_all_threads_are_busy_new_jobs_do_not_go_first() {
        let mut observation = behind("push", 39_000, 40_000, 1_200);
        let jobs = observation.jobs.known_mut();
        jobs.processed_per_second = Fact::Known(0.0);
        jobs.processes[0].busy = 25;
        let finding = check(&observation).remove(0);
        assert_eq!((finding.line_change(), finding.next_step()), (None, Some("kill -TTIN 1")));
        assert!(finding.consequence.contains("completed no job in the window"), "{finding:?}");
        observation.jobs.known_mut().processes[0].busy = 24;
        assert!(check(&observation)[0].line_change().is_some(), "a thread is free");
        observation.jobs.known_mut().processes[0].busy = 25;
        let window = Duration::from_secs(9);
        observation.jobs.known_mut().queue_mut("push").flow.known_mut().window = window;
        assert!(check(&observation)[0].line_change().is_some(), "a heartbeat may be missing");
        let window = Duration::from_secs(10);
        observation.jobs.known_mut().queue_mut("push").flow.known_mut().window = window;
        let jobs = observation.jobs.known_mut();
        (jobs.processes[0].busy, jobs.processed_per_second) = (25, Fact::Known(0.1));
        assert!(check(&observation)[0].line_change().is_some(), "one job ended");
    }

    #[test]
    fn slow_round_trips_to_redis_are_the_cause_of_a_backlog() {
        let mut observation = behind("push", 39_000, 40_000, 120);
        let mut consequence = |millis| {
            let process = &mut observation.jobs.known_mut().processes[0];
            process.round_trip = Some(Duration::from_millis(millis));
            check(&observation).remove(0).consequence
        };
        let slow = consequence(150);
        let expected = "A round trip to Redis takes 150 ms from shop";
        assert!(slow.contains(expected) && !slow.contains("Its cause is not known"), "{slow}");
        assert!(consequence(99).contains("Its cause is not known"));
    }

    #[test]
    fn a_queue_whose_processes_end_again_and_again_is_not_to_be_set_aside() {
        let mut observation = behind("push", 39_000, 40_000, 1_200);
        for pid in 3..6 {
            let mut process = healthy::process(pid, 5, Ordering::Strict, &[("push", 0)]);
            let age = u64::from(70 - 10 * pid);
            process.presence = crate::observation::ProcessPresence::Gone;
            process.running_for = Some(Duration::from_secs(age + 5));
            process.beat_age = Duration::from_secs(age);
            observation.jobs.known_mut().processes.push(process);
        }
        let finding = check(&observation).remove(0);
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
        assert!(finding.consequence.contains("again and again (ghost-process)"), "{finding:?}");
    }

    #[test]
    fn a_queue_whose_jobs_cannot_commit_is_not_a_matter_of_capacity() {
        let mut observation = behind("push", 39_000, 40_000, 1_200);
        *observation.postgres.known_mut().synchronous.known_mut() = SynchronousCommit {
            standby_names: "standby1".to_owned(),
            waiting: 10,
            longest: Duration::from_secs(30),
            ..SynchronousCommit::default()
        };
        let finding = check(&observation).remove(0);
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
        assert!(finding.consequence.starts_with("Commits of Postgres wait"));
    }

    #[test]
    fn a_queue_that_a_lock_may_hold_up_is_not_to_be_set_aside() {
        let mut observation = behind("push", 39_000, 40_000, 1_200);
        let waited = Duration::from_secs(30);
        *observation.postgres.known_mut().lock_waits.known_mut() =
            vec![LockWait { waited, ..LockWait::default() }];
        let finding = check(&observation).remove(0);
        assert_eq!(
            (finding.severity, finding.line_change(), finding.next_step()),
            (Severity::Critical, None, None)
        );
        assert!(finding.consequence.contains("end that wait first"), "{}", finding.consequence);
        let waits = observation.postgres.known_mut().lock_waits.known_mut();
        "web".clone_into(&mut waits[0].waiting_service);
        let finding = check(&observation).remove(0);
        assert_eq!(finding.next_step(), Some("weir sidekiq set-aside push"), "web runs no jobs");
        let waits = observation.postgres.known_mut().lock_waits.known_mut();
        "sidekiq scheduler".clone_into(&mut waits[0].waiting_service);
        assert!(check(&observation)[0].next_step().is_some(), "it does not serve push");
    }

    #[test]
    fn a_second_backlog_is_not_to_be_set_aside_before_the_first_is_done() {
        let mut observation = behind("push", 39_000, 40_000, 1_200);
        let jobs = observation.jobs.known_mut();
        let name = "push_backlog".to_owned();
        jobs.queues.push(ObservedQueue { name, length: 1, ..ObservedQueue::default() });
        let next = |it: &Observation| check(it).remove(0).next_step().map(str::to_owned);
        assert_eq!(next(&observation).as_deref(), Some("weir plan"));
        observation.jobs.known_mut().queue_mut("push_backlog").length = 0;
        assert_eq!(next(&observation).as_deref(), Some("weir sidekiq set-aside push"));
    }

    #[test]
    fn a_queue_that_is_called_like_a_command_or_an_option_is_neither() {
        for (name, expected) in [
            ("-rf", "weir sidekiq set-aside -- -rf"),
            ("x; rm -rf ~", "weir sidekiq set-aside 'x; rm -rf ~'"),
        ] {
            assert_eq!(set_aside_command(name), expected);
        }
    }

    #[test]
    fn a_few_jobs_that_have_waited_for_half_an_hour_are_a_backlog() {
        assert_eq!(check(&behind("push", 38, 36, 1_799)), []);
        let finding = check(&behind("push", 38, 36, 1_800)).remove(0);
        assert_eq!(finding.severity, Severity::Warning);
    }

    #[test]
    fn short_young_and_unserved_queues_are_no_backlog() {
        assert_eq!(check(&behind("push", 99, 99, 599)), []);
        assert_eq!(check(&behind("push", 100, 100, 599)).len(), 1);
        let mut paused = behind("push", 9_000, 9_000, 1_200);
        paused.jobs.known_mut().queue_mut("push").paused = true;
        let notice = check(&paused).remove(0);
        assert_eq!(notice.severity, Severity::Notice, "on purpose");
        let expected = "9,000 jobs wait, the oldest for 20 min; it is paused (Sidekiq Pro)";
        assert_eq!(notice.evidence, expected);
        let expected = r#"bundle exec rails runner 'Sidekiq::Queue.new("push").unpause!'"#;
        assert_eq!(notice.next_step(), Some(expected));
        let mut apart = paused.clone();
        apart.jobs.known_mut().queue_mut("push").name = "quarantine.poison.push".to_owned();
        let notice = check(&apart).remove(0);
        let expected =
            "9,000 jobs wait, the oldest for 20 min; they are quarantined (weir jobs quarantine)";
        assert_eq!(notice.evidence, expected);
        assert_eq!(notice.next_step(), Some("weir jobs quarantine take-back poison"));
        assert_eq!(ruby(r#"a"b\#{c}"#), r#"a\"b\\\#{c}"#);
        paused.jobs.known_mut().queue_mut("push").latency = Duration::from_secs(599);
        assert_eq!(check(&paused), []);
        assert_eq!(check(&behind("push", 9_000, 9_000, 59)), []);
        let mut observation = behind("push", 9_000, 9_000, 1_200);
        observation.jobs.known_mut().processes.clear();
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn a_single_job_that_nobody_takes_is_late_after_ten_minutes() {
        let mut observation = behind("push", 1, 1, 600);
        let queue = observation.jobs.known_mut().queue_mut("push");
        queue.flow.known_mut().arrivals_per_second = 0.0;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.next_step(), Some("kill -TTIN 1"));
        assert!(finding.consequence.starts_with("No job was completed"), "{}", finding.consequence);
        let queue = observation.jobs.known_mut().queue_mut("push");
        queue.flow.known_mut().before = 3;
        assert_eq!(check(&observation), [], "two were");
        let queue = observation.jobs.known_mut().queue_mut("push");
        (queue.flow.known_mut().before, queue.latency) = (1, Duration::from_secs(599));
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn what_is_over_soon_takes_nothing() {
        let finding = check(&behind("push", 3_000, 2_000, 900)).remove(0);
        assert!(finding.consequence.starts_with("It will be empty in 20 s"), "{finding:?}");
        assert_eq!((finding.line_change(), finding.next_step()), (None, None));
    }

    #[test]
    fn a_young_backlog_that_is_over_soon_is_a_notice() {
        let severity = |before, after, seconds| {
            check(&behind("push", before, after, seconds)).remove(0).severity
        };
        assert_eq!(severity(3_000, 2_000, 599), Severity::Notice);
        assert_eq!(severity(3_000, 2_000, 600), Severity::Warning, "its jobs are late already");
        assert_eq!(severity(41_000, 40_000, 120), Severity::Notice, "400 s, at most 440 s");
        assert_eq!(severity(11_200, 11_000, 120), Severity::Warning, "550 s, but up to 650 s");
        assert_eq!(severity(2_000, 2_000, 120), Severity::Warning, "it does not shrink");
    }

    #[test]
    fn what_hangs_is_looked_into_and_not_set_aside() {
        let mut observation = behind("push", 40_000, 40_000, 900);
        let jobs = observation.jobs.known_mut();
        jobs.queue_mut("push").flow.known_mut().arrivals_per_second = 0.0;
        let job = JobInHand {
            class: "Deliver".to_owned(),
            age: Duration::from_secs(900),
            ..JobInHand::default()
        };
        jobs.processes[0].in_hand = vec![job; 25];
        let finding = check(&observation).remove(0);
        assert_eq!(finding.next_step(), Some("kill -TTIN 1"));
        assert!(
            finding.consequence.starts_with("No job was completed: every thread"),
            "{finding:?}"
        );
        // One thread is making progress.
        observation.jobs.known_mut().processes[0].in_hand[7].age = Duration::from_secs(2);
        assert_ne!(check(&observation)[0].next_step(), Some("kill -TTIN 1"));
    }

    #[test]
    fn what_does_not_show_yet_is_not_said_to_stand() {
        let finding = check(&behind("push", 40_010, 40_000, 120)).remove(0);
        let expected =
            "10 s are too short to tell whether it is growing or shrinking: use a longer --window.";
        assert!(finding.consequence.starts_with(expected), "{}", finding.consequence);
        let mut long = behind("push", 40_010, 40_000, 120);
        long.jobs.known_mut().queue_mut("push").flow.known_mut().window =
            Duration::from_secs(3_600);
        assert!(check(&long)[0].consequence.starts_with("Its depth is constant"));
    }

    #[test]
    fn what_was_set_aside_is_meant_to_wait() {
        let mut observation = behind("pull", 39_000, 40_000, 1_200);
        observation.jobs.known_mut().queue_mut("pull").name = "pull_backlog".to_owned();
        observation.jobs.known_mut().processes[0].capsules[0].queues[4].name =
            "pull_backlog".to_owned();
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.next_step()), (Severity::Notice, None));
    }
}
