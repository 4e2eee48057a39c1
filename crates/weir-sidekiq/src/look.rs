//! Samples one Redis in a few round trips of limited size.

mod arrivals;
mod history;
mod processes;
mod queues;
mod redis_itself;
mod sets;
mod window;

use std::collections::BTreeSet;
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::keys;
use crate::limits::SampleLimits;
use crate::questions::{Question, ReadCommand, RedisReply, ReplyResult};
use crate::snapshot::{OddKey, ProcessSample, Read, RedisSnapshot, RejectedCommand};

/// What a sample includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleScope {
    /// All data.
    Everything,
    /// Lengths, arrival rates and processes, for the second of two samples. Leaves out job samples
    /// and the server's status.
    Changes,
}

impl RedisConnection {
    /// Takes a sample.
    ///
    /// # Errors
    /// Returns an error if the connection fails or a limit of time or commands is exceeded. A
    /// rejected command is not an error; the snapshot contains it in place of the value.
    pub async fn sample(
        &mut self,
        scope: SampleScope,
        limits: &SampleLimits,
    ) -> Result<RedisSnapshot, SidekiqError> {
        self.sample_since(scope, None, limits).await
    }

    /// Takes a sample and counts the jobs of each queue that arrived since an earlier one.
    ///
    /// # Errors
    /// As for [`RedisConnection::sample`].
    pub async fn sample_since(
        &mut self,
        scope: SampleScope,
        since: Option<Timestamp>,
        limits: &SampleLimits,
    ) -> Result<RedisSnapshot, SidekiqError> {
        let name = self.name().to_owned();
        let looking = SnapshotReader::new(self, limits).sample(scope, since);
        within(limits.deadline, name, looking).await
    }

    /// Reads only the processes with their jobs in progress.
    ///
    /// # Errors
    /// As for [`RedisConnection::sample`].
    pub async fn processes(
        &mut self,
        limits: &SampleLimits,
    ) -> Result<Read<Vec<ProcessSample>>, SidekiqError> {
        let name = self.name().to_owned();
        let mut looking = SnapshotReader::new(self, limits);
        let seen = within(limits.deadline, name, looking.processes()).await?;
        Ok(seen.map(|(processes, _)| processes))
    }
}

async fn within<T>(
    deadline: Duration,
    name: String,
    looking: impl Future<Output = Result<T, SidekiqError>>,
) -> Result<T, SidekiqError> {
    match tokio::time::timeout(deadline, Box::pin(looking)).await {
        Ok(looked) => looked,
        Err(_) => Err(SidekiqError::Deadline { name, after: deadline }),
    }
}

/// A sample in progress.
struct SnapshotReader<'a> {
    connection: &'a mut RedisConnection,
    limits: &'a SampleLimits,
    cut: BTreeSet<String>,
    odd: Vec<OddKey>,
    commands: usize,
    /// Bytes of jobs read so far.
    job_bytes: usize,
}

impl<'a> SnapshotReader<'a> {
    fn new(connection: &'a mut RedisConnection, limits: &'a SampleLimits) -> Self {
        let (cut, odd) = (BTreeSet::new(), Vec::new());
        Self { connection, limits, cut, odd, commands: 0, job_bytes: 0 }
    }

    async fn sample(
        mut self,
        scope: SampleScope,
        since: Option<Timestamp>,
    ) -> Result<RedisSnapshot, SidekiqError> {
        let at = self.time().await?;
        let (processes, ghosts) = match self.processes().await? {
            Ok((processes, ghosts)) => (Ok(processes), ghosts),
            Err(refusal) => (Err(refusal), Vec::new()),
        };
        let served = served(&processes);
        let (lengths_at, mut queues) = match self.queues(scope, &served).await? {
            Ok((lengths_at, queues)) => (lengths_at, Ok(queues)),
            Err(refusal) => (at, Err(refusal)),
        };
        if let (Ok(queues), Some(since)) = (&mut queues, since) {
            self.count_arrivals(queues, since).await?;
        }
        let [scheduled, retries, dead] = self.sets(scope, at).await?;
        let (counted_at, [processed, failed]) = self.counters().await?;
        let mut snapshot = RedisSnapshot {
            at,
            lengths_at,
            counted_at,
            queues,
            processes,
            ghosts,
            scheduled,
            retries,
            dead,
            processed,
            failed,
            days: None,
            classes: None,
            server: None,
            foreign_keys: None,
            odd: self.odd.clone(),
            cut: Vec::new(),
            commands: 0,
        };
        if scope == SampleScope::Changes {
            snapshot.server = Some(self.counters_of_server().await?);
        }
        if scope == SampleScope::Everything {
            snapshot.days = Some(self.days(at).await?);
            snapshot.classes = self.classes(at, &snapshot.processes).await?;
            let mut server = self.server().await?;
            if let Ok(server) = &mut server
                && snapshot.has_no_recent_heartbeat()
            {
                server.info.delays_writes |= self.delays_writes(server.info.clients).await?;
            }
            snapshot.server = Some(server);
            let is_elsewhere = snapshot.is_without_sidekiq();
            snapshot.foreign_keys = Some(self.foreign_keys(is_elsewhere).await?);
        }
        (snapshot.cut, snapshot.commands) = (self.cut.into_iter().collect(), self.commands);
        Ok(snapshot)
    }

    /// Returns the time by Redis' clock, which determines latencies and due jobs.
    async fn time(&mut self) -> Result<Timestamp, SidekiqError> {
        let answer = self.query_one(Question::new(ReadCommand::Time, &[])).await?;
        Ok(answer.and_then(time_of).map_err(|refusal| self.connection.rejected(refusal))?)
    }

    /// Returns the counts of finished and failed jobs, with the time at which they were read.
    async fn counters(&mut self) -> Result<(Timestamp, [Read<u64>; 2]), SidekiqError> {
        let count = |key| Question::new(ReadCommand::Get, &[key]);
        let questions = [count(keys::PROCESSED), count(keys::FAILED)];
        let (at, answers) = self.query_timed(questions.to_vec()).await?;
        let mut answers = answers.into_iter();
        let mut next = || -> Read<u64> {
            let told = answers.next().transpose()?;
            Ok(told.map(|told| told.read::<Option<u64>>()).transpose()?.flatten().unwrap_or(0))
        };
        Ok((at, [next(), next()]))
    }

    /// Sends the queries with one for Redis' time before them, in the same round trip as the first.
    async fn query_timed(
        &mut self,
        questions: Vec<Question>,
    ) -> Result<(Timestamp, Vec<ReplyResult>), SidekiqError> {
        let time = std::iter::once(Question::new(ReadCommand::Time, &[]));
        let questions: Vec<_> = time.chain(questions).collect();
        let mut answers = self.query(&questions).await?;
        let time = answers.remove(0).and_then(time_of);
        Ok((time.map_err(|refusal| self.connection.rejected(refusal))?, answers))
    }

    /// Sends the queries in as many round trips as `commands_per_round` requires.
    async fn query(&mut self, questions: &[Question]) -> Result<Vec<ReplyResult>, SidekiqError> {
        self.commands = self.commands.saturating_add(questions.len());
        if self.commands > self.limits.commands_max {
            let (name, commands_max) =
                (self.connection.name().to_owned(), self.limits.commands_max);
            return Err(SidekiqError::TooManyCommands { name, commands_max });
        }
        let mut answers = Vec::with_capacity(questions.len());
        for round in questions.chunks(self.limits.commands_per_round.max(1)) {
            answers.extend(self.connection.query(round).await?);
        }
        Ok(answers)
    }

    async fn query_one(&mut self, question: Question) -> Result<ReplyResult, SidekiqError> {
        let mut answers = self.query(&[question]).await?;
        Ok(answers.pop().expect("a connection answers each question or fails"))
    }

    /// Records a key of unexpected type and returns `None` for it, since it does not affect other
    /// keys. Missing permissions remain an error, because they do affect the others.
    fn unless_odd<T>(&mut self, what: impl Fn() -> String, read: Read<T>) -> Read<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(refusal) if refusal.grant.is_none() => {
                self.odd.push(OddKey { what: what(), refusal });
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Returns the members of a set, read in windows, up to `max`; `limit` is the limit's name.
    /// Members that are not UTF-8 are recorded as odd and left out, since Sidekiq writes only
    /// UTF-8.
    async fn members(
        &mut self,
        key: &str,
        max: usize,
        limit: &str,
    ) -> Result<Read<BTreeSet<String>>, SidekiqError> {
        const WINDOW: &str = "500";
        let (mut members, mut odd) = (BTreeSet::new(), BTreeSet::new());
        let mut cursor = "0".to_owned();
        loop {
            let question = Question::new(ReadCommand::SetScan, &[key, &cursor, "COUNT", WINDOW]);
            let answer = self.query_one(question).await?;
            let (next, window): (String, Vec<Vec<u8>>) = match answer.and_then(|told| told.read()) {
                Ok(window) => window,
                Err(refusal) => return Ok(Err(refusal)),
            };
            for member in window {
                match String::from_utf8(member) {
                    Ok(member) => members.insert(member),
                    Err(error) => odd.insert(error.into_bytes()),
                };
            }
            let is_cut = members.len() + odd.len() > max;
            if is_cut {
                self.cut.insert(format!("{limit} ({max})"));
            }
            if is_cut || next == "0" {
                self.odd.extend(odd_members(key, &odd));
                return Ok(Ok(members.into_iter().take(max).collect()));
            }
            cursor = next;
        }
    }
}

/// Summarizes the members of a set that are not UTF-8.
fn odd_members(key: &str, odd: &BTreeSet<Vec<u8>>) -> Option<OddKey> {
    let first = odd.first()?.escape_ascii();
    let what = match odd.len() {
        1 => format!("the member {first} of {key}"),
        count => format!("{count} members of {key} ({first} is one)"),
    };
    let reason = "it is not UTF-8, and none of Sidekiq's".to_owned();
    let refusal = RejectedCommand { command: "SSCAN".to_owned(), reason, grant: None };
    Some(OddKey { what, refusal })
}

/// Parses the reply to `TIME`.
pub(crate) fn time_of(told: RedisReply) -> Read<Timestamp> {
    let (seconds, micros): (u64, u64) = told.read()?;
    Ok(Timestamp::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros)))
}

fn served(processes: &Read<Vec<ProcessSample>>) -> BTreeSet<String> {
    let processes = processes.as_deref().unwrap_or_default();
    processes.iter().flat_map(ProcessSample::served).map(str::to_owned).collect()
}
