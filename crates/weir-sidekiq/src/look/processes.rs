//! Processes by their heartbeats, and what they have in hand.

use std::collections::BTreeMap;

use crate::error::SidekiqError;
use crate::heartbeat::{Info, Work};
use crate::keys;
use crate::questions::{Command, Question, Told};
use crate::snapshot::{ProcessLook, Read, WorkLook};
use crate::time;

use super::Looking;

/// Of a heartbeat's hash.
const FIELDS: [&str; 6] = ["info", "busy", "beat", "quiet", "rss", "rtt_us"];

/// Processes, and identities without a heartbeat.
type Processes = (Vec<ProcessLook>, Vec<String>);

impl Looking<'_> {
    pub(super) async fn processes(&mut self) -> Result<Read<Processes>, SidekiqError> {
        let max = self.limits.processes_max;
        let identities = match self.members(keys::PROCESSES, max, "processes_max").await? {
            Ok(identities) => identities,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let questions: Vec<_> = identities.iter().map(|identity| heartbeat(identity)).collect();
        let answers = self.ask(&questions).await?;
        let (mut processes, mut ghosts) = (Vec::new(), Vec::new());
        for (identity, answer) in identities.into_iter().zip(answers) {
            match answer.and_then(Told::read::<Vec<Option<Vec<u8>>>>) {
                Ok(fields) => match process(&identity, &fields) {
                    Some(process) => processes.push(process),
                    None => ghosts.push(identity),
                },
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let work = self.work(&mut processes).await?;
        Ok(work.map(|()| (processes, ghosts)))
    }

    /// Jobs in hand, under either name, of processes with no more threads than `threads_max`.
    async fn work(&mut self, processes: &mut [ProcessLook]) -> Result<Read<()>, SidekiqError> {
        let keys: Vec<[String; 2]> = processes.iter().map(|it| keys::work(&it.identity)).collect();
        let keys: Vec<&String> = keys.iter().flatten().collect();
        let length = |key: &&String| Question::new(Command::HashLength, &[key]);
        let lengths = self.ask(&keys.iter().map(length).collect::<Vec<_>>()).await?;
        let lengths: Read<Vec<usize>> =
            lengths.into_iter().map(|answer| answer.and_then(Told::read)).collect();
        let lengths = match lengths {
            Ok(lengths) => lengths,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let max = self.limits.threads_max;
        if lengths.iter().any(|length| *length > max) {
            self.cut.insert(format!("threads_max ({max})"));
        }
        let small = |(_, length): &(usize, &usize)| (1..=max).contains(*length);
        // Two keys for each process: the place of a key tells whose it is.
        let places: Vec<usize> =
            lengths.iter().enumerate().filter(small).map(|(at, _)| at).collect();
        let hash = |place: &usize| Question::new(Command::Hash, &[keys[*place]]);
        let answers = self.ask(&places.iter().map(hash).collect::<Vec<_>>()).await?;
        for (place, answer) in places.into_iter().zip(answers) {
            let threads: BTreeMap<String, Vec<u8>> = match answer.and_then(Told::read) {
                Ok(threads) => threads,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let work = threads.values().filter_map(|json| Work::parse(json)).map(in_hand);
            processes[place / 2].work.extend(work);
        }
        Ok(Ok(()))
    }
}

fn heartbeat(identity: &str) -> Question {
    let arguments: Vec<_> = [identity].into_iter().chain(FIELDS).collect();
    Question::new(Command::HashFields, &arguments)
}

/// None if there is no heartbeat under that identity.
fn process(identity: &str, fields: &[Option<Vec<u8>>]) -> Option<ProcessLook> {
    let field = |index: usize| fields.get(index)?.as_deref();
    let text = |index: usize| std::str::from_utf8(field(index)?).ok();
    let number = |index: usize| text(index)?.parse::<u64>().ok();
    // A heartbeat that can't be read is one: the process lives, what it serves is not known.
    let info = Info::parse(field(0)?).unwrap_or_default();
    Some(ProcessLook {
        identity: identity.to_owned(),
        capsules: info.capsules(),
        hostname: info.hostname,
        pid: info.pid,
        tag: info.tag.filter(|tag| !tag.is_empty()),
        version: info.version,
        started_at: info.started_at,
        busy: number(1).unwrap_or(0),
        beat: text(2).and_then(time::from_text),
        quiet: text(3) == Some("true"),
        rss_bytes: number(4).map(|kilobytes| kilobytes.saturating_mul(1024)),
        round_trip_us: number(5),
        work: Vec::new(),
    })
}

fn in_hand(work: Work) -> WorkLook {
    WorkLook { job: work.job(), run_at: work.run_at, queue: work.queue }
}
