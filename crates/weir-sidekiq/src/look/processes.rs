//! Reads processes by their heartbeats, and their jobs in progress.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::FromRedisValue;

use crate::error::SidekiqError;
use crate::heartbeat::{HeartbeatInfo, RunningJob};
use crate::keys;
use crate::questions::{Question, ReadCommand, RedisReply};
use crate::snapshot::{IDENTITIES_MAX, PROCESSES_MAX, ProcessSample, Read, RunningJobSample};
use crate::time;

use super::SnapshotReader;

/// Fields of the hash of a heartbeat.
const FIELDS: [&str; 6] = ["info", "busy", "beat", "quiet", "rss", "rtt_us"];

/// Each heartbeat sets this time to live on its hash.
const HEARTBEAT_TTL: Duration = Duration::from_secs(60);

/// Processes, and identities without a heartbeat.
type Processes = (Vec<ProcessSample>, Vec<String>);

impl SnapshotReader<'_> {
    pub(super) async fn processes(&mut self) -> Result<Read<Processes>, SidekiqError> {
        let (max, most) = (self.limits.processes_max, self.limits.identities_max);
        let most = most.max(max);
        let identities = match self.members(keys::PROCESSES, most, IDENTITIES_MAX).await? {
            Ok(identities) => identities,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let questions: Vec<_> = identities.iter().map(|identity| heartbeat(identity)).collect();
        let answers = self.query(&questions).await?;
        let (mut processes, mut ghosts) = (Vec::new(), Vec::new());
        for (identity, answer) in identities.into_iter().zip(answers) {
            let read = answer.and_then(RedisReply::read::<Vec<Option<Vec<u8>>>>);
            // The key has another type, so a process could not write its heartbeat there.
            match self.unless_odd(|| format!("process {identity}"), read) {
                Ok(Some(fields)) => match process(&identity, &fields) {
                    Some(process) => processes.push(process),
                    None => ghosts.push(identity),
                },
                Ok(None) => {}
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        // Truncated only here, so ghosts do not count towards the limit.
        if processes.len() > max {
            self.cut.insert(format!("{PROCESSES_MAX} ({max})"));
            processes.truncate(max);
        }
        if let Err(refusal) = self.beat_ages(&mut processes).await? {
            return Ok(Err(refusal));
        }
        let work = self.work(&mut processes).await?;
        Ok(work.map(|()| (processes, ghosts)))
    }

    /// Derives the ages from the remaining time to live, which does not depend on the hosts'
    /// clocks.
    async fn beat_ages(
        &mut self,
        processes: &mut [ProcessSample],
    ) -> Result<Read<()>, SidekiqError> {
        let question = |it: &ProcessSample| Question::new(ReadCommand::TimeToLive, &[&it.identity]);
        let questions: Vec<_> = processes.iter().map(question).collect();
        let answers = self.query(&questions).await?;
        for (process, answer) in processes.iter_mut().zip(answers) {
            match answer.and_then(RedisReply::read::<i64>) {
                Ok(millis) => process.beat_age = beat_age(millis),
                Err(refusal) if refusal.grant.is_some() => return Ok(Err(refusal)),
                Err(_) => {}
            }
        }
        Ok(Ok(()))
    }

    /// Reads the jobs in progress, from either key, of processes with at most `threads_max`
    /// threads.
    async fn work(&mut self, processes: &mut [ProcessSample]) -> Result<Read<()>, SidekiqError> {
        let key = |(at, process): (usize, &ProcessSample)| {
            keys::work(&process.identity).map(|key| WorkKey { process: at, key })
        };
        let keys: Vec<_> = processes.iter().enumerate().flat_map(key).collect();
        let length = |key: &str| Question::new(ReadCommand::HashLength, &[key]);
        let lengths = match self.each::<usize>(keys, length).await? {
            Ok(lengths) => lengths,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let max = self.limits.threads_max;
        if lengths.iter().any(|(_, length)| *length > max) {
            self.cut.insert(format!("threads_max ({max})"));
        }
        let small = lengths.into_iter().filter(|(_, length)| (1..=max).contains(length));
        let keys: Vec<_> = small.map(|(key, _)| key).collect();
        // `SAMPLES 0` measures all jobs, because their sizes may vary.
        let usage = |key: &str| Question::new(ReadCommand::MemoryUsage, &[key, "SAMPLES", "0"]);
        let usages = match self.each::<Option<usize>>(keys, usage).await? {
            Ok(usages) => usages,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut keys = Vec::new();
        for (key, bytes) in usages {
            let bytes = bytes.unwrap_or(0);
            if self.may_read(bytes) {
                self.job_bytes = self.job_bytes.saturating_add(bytes);
                keys.push(key);
            }
        }
        let hash = |key: &str| Question::new(ReadCommand::Hash, &[key]);
        let hashes = self.each::<BTreeMap<String, Vec<u8>>>(keys, hash).await?;
        Ok(hashes.map(|hashes| {
            for (key, threads) in hashes {
                let work = threads.values().filter_map(|json| RunningJob::parse(json)).map(in_hand);
                processes[key.process].work.extend(work);
            }
        }))
    }

    /// Runs a query for each key, and drops keys of unexpected type.
    async fn each<T: FromRedisValue>(
        &mut self,
        keys: Vec<WorkKey>,
        question: impl Fn(&str) -> Question,
    ) -> Result<Read<Vec<(WorkKey, T)>>, SidekiqError> {
        let questions: Vec<_> = keys.iter().map(|key| question(&key.key)).collect();
        let answers = self.query(&questions).await?;
        let mut told = Vec::with_capacity(keys.len());
        for (key, answer) in keys.into_iter().zip(answers) {
            match self
                .unless_odd(|| format!("jobs in {}", key.key), answer.and_then(RedisReply::read))
            {
                Ok(Some(value)) => told.push((key, value)),
                Ok(None) => {}
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(Ok(told))
    }
}

/// The key with the jobs in progress of a process.
struct WorkKey {
    /// Index of the process.
    process: usize,
    key: String,
}

fn heartbeat(identity: &str) -> Question {
    let arguments: Vec<_> = [identity].into_iter().chain(FIELDS).collect();
    Question::new(ReadCommand::HashFields, &arguments)
}

/// Parses a heartbeat. Returns `None` if there is none under that identity.
fn process(identity: &str, fields: &[Option<Vec<u8>>]) -> Option<ProcessSample> {
    let field = |index: usize| fields.get(index)?.as_deref();
    let text = |index: usize| std::str::from_utf8(field(index)?).ok();
    let number = |index: usize| text(index)?.parse::<u64>().ok();
    // An unreadable heartbeat still shows that the process runs; its queues are unknown.
    let info = HeartbeatInfo::parse(field(0)?).unwrap_or_default();
    Some(ProcessSample {
        identity: identity.to_owned(),
        capsules: info.capsules(),
        hostname: info.hostname,
        pid: info.pid,
        tag: info.tag.filter(|tag| !tag.is_empty()),
        version: info.version,
        started_at: info.started_at,
        busy: number(1).unwrap_or(0),
        beat: text(2).and_then(time::from_text),
        beat_age: None,
        quiet: text(3) == Some("true"),
        rss_bytes: number(4).map(|kilobytes| kilobytes.saturating_mul(1024)),
        round_trip_us: number(5),
        work: Vec::new(),
    })
}

/// Returns `None` if the key does not expire, or later than Sidekiq's keys.
fn beat_age(left_millis: i64) -> Option<Duration> {
    let left = Duration::from_millis(u64::try_from(left_millis).ok()?);
    HEARTBEAT_TTL.checked_sub(left)
}

fn in_hand(work: RunningJob) -> RunningJobSample {
    RunningJobSample { job: work.job(), run_at: work.run_at, queue: work.queue }
}
