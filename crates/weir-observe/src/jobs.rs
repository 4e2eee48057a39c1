//! Converts two samples of Sidekiq to the advisor's types.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_advisor::flow::{Flow, arrivals_per_second};
use weir_advisor::observation::{
    Capsule, Fact, FailingClass, FarAhead, JobInHand, JobProcess, JobSample, JobSet, MemoryGrowth,
    Missing, ObservedQueue, Ordering, PayloadSize, ProcessPlace, ProcessPresence, SampleShare,
    SidekiqObservation, WeightedQueue,
};
use weir_base::clock::Timestamp;
use weir_sidekiq::{
    CapsuleMode, FAR_AHEAD, JobSummary, ProcessSample, QueueSample, RedisSnapshot,
    RunningJobSample, SetSample,
};

use crate::redis::{known, rejected};

/// Processes send a heartbeat every 10 s (5 s before version 6.5). After twice that time, at least
/// one is missing.
const MISSED_BEAT: Duration = Duration::from_secs(20);
/// A heartbeat takes less time to reach Redis, so larger differences are due to the clocks.
const CLOCKS_DIFFER_MIN_SECONDS: f64 = 5.0;

/// Maximum number of shares per sample, largest first.
const SHARES_MAX: usize = 5;

/// Returns the state of Sidekiq. It is unknown without queues or processes, because most rules need
/// both. Other sets or keys that cannot be read are listed as missing.
///
/// Processes are those of the second sample: in a deployment, the others of the first one have been
/// replaced.
pub(crate) fn jobs(first: &RedisSnapshot, second: &RedisSnapshot) -> Fact<SidekiqObservation> {
    let before = by_identity(first);
    let processes = known(&second.processes, "Sidekiq's processes", |all| {
        let of = |now: &ProcessSample| {
            let mut process = job_process(now, second.at);
            let before = before.get(now.identity.as_str());
            if process.quiet && before.is_some_and(|it| it.quiet) {
                process.quiet_for = second.at.since(first.at);
            }
            let has_beaten = match before {
                Some(before) => now.beat > before.beat,
                None => first.processes.is_ok(),
            };
            process.presence = presence(has_beaten, process.beat_age);
            process.round_trip = round_trip(before, &process);
            process.growth = before.and_then(|it| growth(it, now, second.at.since(first.at)));
            process
        };
        all.iter().map(of).collect::<Vec<_>>()
    });
    let queues = known(&second.queues, "Sidekiq's queues", Clone::clone);
    let earlier = known(&first.queues, "Sidekiq's queues", Clone::clone);
    processes.zip(earlier.zip(queues)).map(|(processes, (earlier, queues))| {
        let mut unread = odd_keys(&[first, second]);
        let mut set = |what: &str, of: fn(&RedisSnapshot) -> &SetSamples| {
            let before = known(of(first), what, Clone::clone);
            let both = before.zip(known(of(second), what, Clone::clone));
            let set = both.map(|(before, after)| job_set(&before, &after, first.at, second.at));
            unread.extend(set.missing().cloned());
            set_or_unknown(set)
        };
        let scheduled = set("the scheduled set", |it| &it.scheduled);
        let retries = set("the retry set", |it| &it.retries);
        let mut dead = set("the dead set", |it| &it.dead);
        // Dead jobs are never due.
        (dead.overdue, dead.overdue_by) = (0, Duration::ZERO);
        (dead.overdue_moves, dead.overdue_fewer_per_second) = (false, 0.0);
        let processed = known(&second.processed, "the count of finished jobs", |count| *count);
        let failed = known(&second.failed, "the count of failed jobs", |count| *count);
        let days = asked(&first.days, "the counts of each day");
        let classes = asked(&first.classes, "the runs of each class");
        unread.extend([&processed, &failed].into_iter().filter_map(Fact::missing).cloned());
        unread.extend(days.missing().into_iter().chain(classes.missing()).cloned());
        let mut queues = merged(&earlier, &queues, first.lengths_at, second.lengths_at);
        count_in_hand(&mut queues, second);
        SidekiqObservation {
            queues,
            processes,
            has_more_processes: second.has_more_processes(),
            ghosts: second.ghosts.clone(),
            running_ghosts: Vec::new(),
            unlisted: Vec::new(),
            scheduled,
            retries,
            dead,
            processed,
            failed,
            processed_per_second: processed_per_second(first, second),
            failed_share: failed_share(first, second),
            days,
            classes,
            past: Vec::new(),
            unread,
        }
    })
}

/// Returns what only a sample with all data has.
fn asked<T: Clone>(read: &Option<weir_sidekiq::Read<T>>, what: &str) -> Fact<T> {
    read.as_ref().map_or(Fact::NotAsked, |read| known(read, what, Clone::clone))
}

/// Returns the shorter of two measurements: a single one may have met a pause of the process.
fn round_trip(before: Option<&&ProcessSample>, now: &JobProcess) -> Option<Duration> {
    let before = before.and_then(|it| it.round_trip_us).map(Duration::from_micros);
    before.into_iter().chain(now.round_trip).min()
}

/// Returns the growth of a process' memory between two samples.
fn growth(before: &ProcessSample, now: &ProcessSample, over: Duration) -> Option<MemoryGrowth> {
    let bytes = now.rss_bytes?.saturating_sub(before.rss_bytes?);
    Some(MemoryGrowth { bytes, over })
}

fn by_identity(sample: &RedisSnapshot) -> BTreeMap<&str, &ProcessSample> {
    let processes = sample.processes.as_deref().unwrap_or_default();
    processes.iter().map(|it| (it.identity.as_str(), it)).collect()
}

/// Derives the state of a process from its heartbeats. One between the samples proves that it runs.
fn presence(has_beaten: bool, beat_age: Duration) -> ProcessPresence {
    if has_beaten {
        ProcessPresence::Seen
    } else if beat_age >= MISSED_BEAT {
        ProcessPresence::Silent
    } else {
        ProcessPresence::Presumed
    }
}

type SetSamples = weir_sidekiq::Read<SetSample>;

/// Returns the set without growth, or an empty set if it is unknown, so that no rule reports
/// growth.
fn set_or_unknown(set: Fact<JobSet>) -> JobSet {
    match set {
        Fact::Known(set) => set,
        Fact::Unknown(missing) => JobSet {
            flow: Fact::Unknown(missing.clone()),
            sample: Fact::Unknown(missing),
            ..JobSet::default()
        },
        Fact::NotAsked => JobSet::default(),
    }
}

/// Returns the odd keys of all samples without duplicates.
fn odd_keys(samples: &[&RedisSnapshot]) -> Vec<Missing> {
    let odd: BTreeMap<&str, _> =
        samples.iter().flat_map(|sample| &sample.odd).map(|odd| (odd.what.as_str(), odd)).collect();
    odd.into_iter().map(|(what, odd)| rejected(what, &odd.refusal)).collect()
}

fn processed_per_second(first: &RedisSnapshot, second: &RedisSnapshot) -> Fact<f64> {
    let seconds = second.counted_at.since(first.counted_at).as_secs_f64();
    match (&first.processed, &second.processed) {
        (Ok(before), Ok(now)) if seconds > 0.0 => {
            Fact::Known(now.saturating_sub(*before) as f64 / seconds)
        }
        _ => Fact::NotAsked,
    }
}

fn failed_share(first: &RedisSnapshot, second: &RedisSnapshot) -> Fact<f64> {
    let more = |of: fn(&RedisSnapshot) -> &weir_sidekiq::Read<u64>| {
        let (before, now) = (of(first).as_ref().ok()?, of(second).as_ref().ok()?);
        Some(now.saturating_sub(*before) as f64)
    };
    match (more(|it| &it.processed), more(|it| &it.failed)) {
        (Some(processed), Some(failed)) if processed > 0.0 => {
            Fact::Known((failed / processed).min(1.0))
        }
        _ => Fact::NotAsked,
    }
}

/// Combines two facts. Returns the first reason if one is unknown.
trait Zip<T> {
    fn zip<U>(self, other: Fact<U>) -> Fact<(T, U)>;
}

impl<T> Zip<T> for Fact<T> {
    fn zip<U>(self, other: Fact<U>) -> Fact<(T, U)> {
        match (self, other) {
            (Self::Known(one), Fact::Known(other)) => Fact::Known((one, other)),
            (Self::Unknown(missing), _) | (_, Fact::Unknown(missing)) => Fact::Unknown(missing),
            (Self::NotAsked, _) | (_, Fact::NotAsked) => Fact::NotAsked,
        }
    }
}

/// Merges the queues of both samples. Queues that only a process names are in the first one only.
fn merged(
    earlier: &[QueueSample],
    later: &[QueueSample],
    from: Timestamp,
    to: Timestamp,
) -> Vec<ObservedQueue> {
    let mut queues: BTreeMap<&str, (Option<&QueueSample>, Option<&QueueSample>)> = BTreeMap::new();
    for queue in earlier {
        queues.entry(&queue.name).or_default().0 = Some(queue);
    }
    for queue in later {
        queues.entry(&queue.name).or_default().1 = Some(queue);
    }
    queues.values().map(|(before, after)| queue(*before, *after, from, to)).collect()
}

/// Counts the jobs in progress as of the last heartbeats.
fn count_in_hand(queues: &mut [ObservedQueue], sample: &RedisSnapshot) {
    let processes = sample.processes.as_deref().unwrap_or_default();
    for work in processes.iter().flat_map(|process| &process.work) {
        if let Some(queue) = queues.iter_mut().find(|queue| queue.name == work.queue) {
            queue.in_hand = queue.in_hand.saturating_add(1);
        }
    }
}

fn queue(
    before: Option<&QueueSample>,
    after: Option<&QueueSample>,
    from: Timestamp,
    to: Timestamp,
) -> ObservedQueue {
    let newest = after.or(before).cloned().unwrap_or_default();
    let flow = Flow {
        window: to.since(from),
        before: before.map_or(0, |queue| queue.length),
        after: newest.length,
        arrivals_per_second: arrivals(&newest, from, to),
        deviation: None,
    };
    let samples = [after, before].into_iter().flatten().map(|queue| &queue.sample);
    let sample = samples.into_iter().find(|sample| !sample.is_empty());
    ObservedQueue {
        pushed: newest.pushed || before.is_some_and(|queue| queue.pushed),
        unlisted: newest.unlisted,
        expires_in: newest.expires_in,
        paused: newest.paused,
        length: newest.length,
        in_hand: 0,
        lately: None,
        latency: newest.oldest.map_or(Duration::ZERO, |oldest| to.since(oldest)),
        flow: Fact::Known(flow),
        flow_is_least: is_least(&newest, from),
        sample: sample.map_or(Fact::NotAsked, |sample| Fact::Known(sample_of(sample))),
        name: newest.name,
    }
}

/// Returns the arrival rate: the counted arrivals between the samples, or else an estimate from the
/// spacing of the newest jobs, which overestimates after a burst.
fn arrivals(queue: &QueueSample, from: Timestamp, to: Timestamp) -> f64 {
    // On a slow connection, jobs that arrive between the length and this count are seen as well.
    let seconds = queue.came_until.unwrap_or(to).since(from).as_secs_f64();
    let newest = &queue.newest;
    let reaches_back = || newest.iter().position(|at| *at <= from).map(|came| came as u64);
    match queue.came.or_else(reaches_back) {
        Some(came) if seconds > 0.0 => came as f64 / seconds,
        _ => arrivals_per_second(newest, to),
    }
}

/// Reports whether jobs that arrived after `from` may already have been taken. Jobs are taken
/// oldest first, so if one from before `from` is left, none were.
fn is_least(queue: &QueueSample, from: Timestamp) -> bool {
    let all_are_told = queue.newest.len() as u64 >= queue.length;
    let all_came = queue.came.is_some_and(|came| came >= queue.length);
    all_came || all_are_told && queue.newest.iter().chain(&queue.oldest).all(|at| *at > from)
}

fn job_set(before: &SetSample, after: &SetSample, from: Timestamp, to: Timestamp) -> JobSet {
    let window = to.since(from);
    let mut flow = Flow { window, before: before.size, after: after.size, ..Flow::default() };
    // Arrivals and departures are unknown. The net change is a lower limit.
    flow.arrivals_per_second = flow.net_per_second().max(0.0);
    let overdue_by = after.first.map_or(Duration::ZERO, |first| to.since(first));
    let fewer = before.due.saturating_sub(after.due);
    let seconds = window.as_secs_f64();
    let sample = [&after.sample, &before.sample].into_iter().find(|sample| !sample.is_empty());
    JobSet {
        size: after.size,
        overdue: after.due,
        overdue_by,
        // Jobs are taken lowest time first. A changed first job shows movement even if as many have
        // become due.
        overdue_moves: fewer > 0 || before.due > 0 && after.first > before.first,
        overdue_fewer_per_second: if seconds > 0.0 { fewer as f64 / seconds } else { 0.0 },
        died_lately: after.lately,
        far_ahead: far_ahead(after, to),
        flow: Fact::Known(flow),
        sample: sample.map_or(Fact::NotAsked, |sample| Fact::Known(failed_sample_of(sample, to))),
    }
}

fn far_ahead(set: &SetSample, now: Timestamp) -> FarAhead {
    FarAhead {
        jobs: set.far,
        as_millis: set.far_as_millis,
        after_unix_seconds: now.as_millis() / 1_000 + FAR_AHEAD.as_secs(),
    }
}

/// Returns the sample of a set, with the messages of its errors.
fn failed_sample_of(jobs: &[JobSummary], now: Timestamp) -> JobSample {
    let sample = sample_of(jobs);
    let message = |class: &SampleShare| {
        let of_class = jobs.iter().filter(|job| job.error.as_deref() == Some(&class.name));
        let messages = shares(of_class.map(|job| job.error_message.as_deref()));
        Some((class.name.clone(), messages.into_iter().next()?.name))
    };
    JobSample {
        error_messages: sample.errors.iter().filter_map(message).collect(),
        failing: failing(jobs, now),
        ..sample
    }
}

/// Groups failed jobs by class and error.
fn failing(jobs: &[JobSummary], now: Timestamp) -> Vec<FailingClass> {
    let mut groups: BTreeMap<(&str, &str), FailingClass> = BTreeMap::new();
    for job in jobs {
        let (Some(error), Some(first)) = (&job.error, job.failed_at) else { continue };
        let (first_before, last_before) =
            (now.since(first), now.since(job.retried_at.unwrap_or(first)));
        let group = groups.entry((&job.class, error)).or_insert_with(|| FailingClass {
            class: job.class.clone(),
            error: error.clone(),
            count: 0,
            first_before,
            last_before,
        });
        group.count += 1;
        group.first_before = group.first_before.max(first_before);
        group.last_before = group.last_before.min(last_before);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups.truncate(SHARES_MAX);
    groups
}

/// Groups the sizes of jobs by class, largest total first.
fn payloads(jobs: &[JobSummary]) -> Vec<PayloadSize> {
    let mut sizes: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for job in jobs {
        let (count, bytes, largest) = sizes.entry(&job.class).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(job.bytes);
        *largest = (*largest).max(job.bytes);
    }
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    sizes.sort_by_key(|(_, (_, bytes, _))| std::cmp::Reverse(*bytes));
    sizes.truncate(SHARES_MAX);
    let size = |(class, (count, bytes, largest_bytes)): (&str, (u64, u64, u64))| PayloadSize {
        class: class.to_owned(),
        count,
        mean_bytes: bytes / count.max(1),
        largest_bytes,
    };
    sizes.into_iter().map(size).collect()
}

fn sample_of(jobs: &[JobSummary]) -> JobSample {
    JobSample {
        size: jobs.len() as u64,
        classes: shares(jobs.iter().map(|job| Some(job.class.as_str()))),
        hosts: shares(jobs.iter().map(|job| job.host.as_deref())),
        errors: shares(jobs.iter().map(|job| job.error.as_deref())),
        payloads: payloads(jobs),
        ..JobSample::default()
    }
}

fn shares<'a>(words: impl Iterator<Item = Option<&'a str>>) -> Vec<SampleShare> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for word in words.flatten() {
        *counts.entry(word).or_default() += 1;
    }
    let share = |(name, count): (&str, u64)| SampleShare { name: name.to_owned(), count };
    let mut shares: Vec<_> = counts.into_iter().map(share).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.count));
    shares.truncate(SHARES_MAX);
    shares
}

fn job_process(sample: &ProcessSample, redis: Timestamp) -> JobProcess {
    let clock_ahead_seconds = clock_ahead_seconds(sample, redis);
    // The host has written the times by its own clock.
    let now = ahead(redis, clock_ahead_seconds);
    JobProcess {
        identity: sample.identity.clone(),
        hostname: sample.hostname.clone(),
        pid: sample.pid,
        tag: sample.tag.clone().filter(|tag| !tag.is_empty()),
        busy: sample.busy,
        in_hand: sample.work.iter().filter_map(|work| in_hand(work, now)).collect(),
        quiet: sample.quiet,
        quiet_for: Duration::ZERO,
        running_for: sample.started_at.map(|started| now.since(started)),
        beat_age: sample
            .beat_age
            .unwrap_or_else(|| sample.beat.map_or(Duration::ZERO, |beat| redis.since(beat))),
        presence: ProcessPresence::Presumed,
        place: ProcessPlace::Elsewhere,
        clock_ahead_seconds,
        capsules: sample.capsules.iter().map(capsule).collect(),
        cores_used: Fact::NotAsked,
        round_trip: sample.round_trip_us.map(Duration::from_micros),
        rss_bytes: sample.rss_bytes,
        growth: None,
    }
}

/// Returns how far the host's clock is ahead of Redis' clock, from the last heartbeat; 0 if they
/// agree.
fn clock_ahead_seconds(sample: &ProcessSample, redis: Timestamp) -> f64 {
    let (Some(beat), Some(age)) = (sample.beat, sample.beat_age) else { return 0.0 };
    let ahead = beat.as_secs_f64() - (redis.as_secs_f64() - age.as_secs_f64());
    if ahead.abs() < CLOCKS_DIFFER_MIN_SECONDS { 0.0 } else { ahead }
}

fn ahead(at: Timestamp, seconds: f64) -> Timestamp {
    let shifted = Duration::try_from_secs_f64((at.as_secs_f64() + seconds).max(0.0));
    let micros = shifted.unwrap_or(Duration::MAX).as_micros();
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

fn in_hand(work: &RunningJobSample, now: Timestamp) -> Option<JobInHand> {
    let class = work.job.as_ref().map(|job| job.class.clone()).unwrap_or_default();
    Some(JobInHand { class, queue: work.queue.clone(), age: now.since(work.run_at?) })
}

fn capsule(sample: &weir_sidekiq::Capsule) -> Capsule {
    let queue = |it: &weir_sidekiq::WeightedQueue| WeightedQueue {
        name: it.name.clone(),
        weight: it.weight,
    };
    Capsule {
        name: sample.name.clone(),
        concurrency: sample.concurrency,
        ordering: match sample.mode {
            CapsuleMode::Strict => Ordering::Strict,
            CapsuleMode::Random => Ordering::Random,
            CapsuleMode::Weighted => Ordering::Weighted,
            CapsuleMode::Unknown => Ordering::Unknown,
        },
        queues: sample.queues.iter().map(queue).collect(),
    }
}

#[cfg(test)]
mod tests;
