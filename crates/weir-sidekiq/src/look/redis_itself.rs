//! Reads the server's status and detects other programs' keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::Value;
use weir_advisor::observation::{AppendFsync, RedisInfo};
use weir_base::clock::Timestamp;

use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::keys;
use crate::questions::{Question, ReadCommand, RedisReply};
use crate::server::{CommandSample, ServerSample, SlowCommand};
use crate::snapshot::{ForeignKeys, Read};

use super::SnapshotReader;

/// Maximum number of scans for the sample. Sparse hash tables return few keys per scan.
const SCANS_MAX: usize = 10;
const SCAN_WINDOW: &str = "50";
/// Maximum number of scans when searching for a namespace. Each takes Redis some tenths of a
/// millisecond.
const SEARCHES_MAX: usize = 20;
pub(super) const SEARCH_WINDOW: &str = "1000";

/// Longer lists of clients are not read. Each has a line of about 300 bytes.
const CLIENTS_MAX: u64 = 1_000;
/// Writes of Sidekiq and its clients that never wait by themselves, as `BRPOP` does.
const WRITES: [&str; 16] = [
    "del", "eval", "evalsha", "exec", "expire", "hincrby", "hmset", "hset", "incrby", "lpush",
    "lrem", "rpush", "sadd", "set", "srem", "zadd",
];

impl RedisConnection {
    /// Returns the values of `INFO` with the settings that decide what survives a power cut.
    ///
    /// # Errors
    /// Returns an error if the connection fails or `INFO` is rejected.
    pub async fn server_info(&mut self) -> Result<RedisInfo, SidekiqError> {
        let questions = [
            Question::new(ReadCommand::Info, &[]),
            Question::new(ReadCommand::ConfigGet, &["appendfsync"]),
            Question::new(ReadCommand::ConfigGet, &["save"]),
        ];
        let mut replies = self.query(&questions).await?.into_iter();
        let mut next = || replies.next().expect("a connection answers each question or fails");
        let (info, fsync, save) = (next(), next(), next());
        let info = info.and_then(RedisReply::read::<String>);
        let mut info = RedisInfo::parse(&info.map_err(|rejected| self.rejected(rejected))?);
        let settings = fsync.and_then(RedisReply::read).ok();
        info.persistence.append_fsync = settings.as_ref().and_then(append_fsync);
        let settings: Option<BTreeMap<String, String>> = save.and_then(RedisReply::read).ok();
        let rules = settings.as_ref().and_then(|settings| settings.get("save"));
        info.persistence.snapshots = rules.map(|rules| !rules.trim().is_empty());
        Ok(info)
    }
}

/// Reports whether Redis cannot name its working folder: it replies with the path of the folder that
/// it is in, and with none if that was removed.
fn is_gone(settings: &BTreeMap<String, String>) -> bool {
    settings.get("dir").is_some_and(String::is_empty)
}

fn append_fsync(settings: &BTreeMap<String, String>) -> Option<AppendFsync> {
    AppendFsync::parse(settings.get("appendfsync")?)
}

impl SnapshotReader<'_> {
    pub(super) async fn server(&mut self) -> Result<Read<ServerSample>, SidekiqError> {
        let entries = self.limits.slow_commands.to_string();
        let questions = [
            Question::new(ReadCommand::Info, &[]),
            Question::new(ReadCommand::ConfigGet, &["save"]),
            Question::new(ReadCommand::SlowlogGet, &[&entries]),
            Question::new(ReadCommand::Info, &["commandstats"]),
            Question::new(ReadCommand::ConfigGet, &["appendfsync"]),
            Question::new(ReadCommand::Get, &[keys::PUSH_CONFIRMATION]),
            Question::new(ReadCommand::ConfigGet, &["dir"]),
        ];
        let mut answers = self.query(&questions).await?.into_iter();
        let mut next = || answers.next().expect("a connection answers each question or fails");
        let (info, save, slow) = (next(), next(), next());
        let (commands, fsync, confirmation) = (next(), next(), next());
        let folder = next().and_then(RedisReply::read).ok();
        let operations_max = self.limits.operations_max;
        let slow_commands: Read<Vec<Value>> = slow.and_then(RedisReply::read);
        let entries_max = self.limits.slow_commands;
        Ok(info.and_then(RedisReply::read::<String>).map(|info| ServerSample {
            snapshots: save.and_then(RedisReply::read).map(|settings: BTreeMap<String, String>| {
                settings.get("save").is_some_and(|rules| !rules.trim().is_empty())
            }),
            push_confirmation: confirmation
                .and_then(RedisReply::read::<Option<String>>)
                .ok()
                .flatten()
                .and_then(|text| keys::parse_push_confirmation(&text)),
            append_fsync: fsync.and_then(RedisReply::read).ok().as_ref().and_then(append_fsync),
            has_more_slow_commands: slow_commands.as_ref().is_ok_and(|it| it.len() >= entries_max),
            slow_commands: slow_commands
                .map(|entries| entries.into_iter().filter_map(slow_command).collect()),
            folder_is_gone: folder.as_ref().is_some_and(is_gone),
            commands: commands
                .and_then(RedisReply::read::<String>)
                .map(|commands| CommandSample::parse(&commands, operations_max)),
            ..ServerSample::parse(&info)
        }))
    }

    /// Returns only the counters of the server, to compare them with those of an earlier sample.
    pub(super) async fn counters_of_server(&mut self) -> Result<Read<ServerSample>, SidekiqError> {
        let questions = [
            Question::new(ReadCommand::Info, &[]),
            Question::new(ReadCommand::Info, &["commandstats"]),
        ];
        let mut answers = self.query(&questions).await?.into_iter();
        let mut next = || answers.next().expect("a connection answers each question or fails");
        let (info, commands) = (next(), next());
        let operations_max = self.limits.operations_max;
        Ok(info.and_then(RedisReply::read::<String>).map(|info| ServerSample {
            commands: commands
                .and_then(RedisReply::read::<String>)
                .map(|commands| CommandSample::parse(&commands, operations_max)),
            ..ServerSample::parse(&info)
        }))
    }

    /// Reports whether commands that write wait in Redis (`CLIENT PAUSE`), as far as known: `INFO`
    /// says so in Valkey 8 only. Writes of other clients are the only sign of it before.
    pub(super) async fn delays_writes(&mut self, clients: u64) -> Result<bool, SidekiqError> {
        if clients > CLIENTS_MAX {
            return Ok(false);
        }
        let answer = self.query_one(Question::new(ReadCommand::ClientList, &[])).await?;
        // Without the permission, it is unknown.
        let list = answer.and_then(RedisReply::read::<String>);
        Ok(list.is_ok_and(|list| list.lines().any(is_delayed_write)))
    }

    /// Samples keys and counts those that look like a cache's. With `is_elsewhere`, also searches
    /// for namespaces with Sidekiq keys.
    pub(super) async fn foreign_keys(
        &mut self,
        is_elsewhere: bool,
    ) -> Result<Read<ForeignKeys>, SidekiqError> {
        let mut sampled = Vec::new();
        let mut cursor = "0".to_owned();
        for _ in 0..SCANS_MAX {
            let question = Question::new(ReadCommand::Scan, &[&cursor, "COUNT", SCAN_WINDOW]);
            let answer = self.query_one(question).await?;
            let (next, window): (String, Vec<Vec<u8>>) = match answer.and_then(RedisReply::read) {
                Ok(window) => window,
                Err(refusal) => return Ok(Err(refusal)),
            };
            sampled
                .extend(window.into_iter().map(|key| String::from_utf8_lossy(&key).into_owned()));
            cursor = next;
            if cursor == "0" || sampled.len() >= self.limits.keys_sample {
                break;
            }
        }
        sampled.truncate(self.limits.keys_sample);
        let foreign: Vec<_> = sampled.iter().filter(|key| !keys::is_own(key)).collect();
        let time_to_live = |key: &&String| Question::new(ReadCommand::TimeToLive, &[key]);
        let questions: Vec<_> = foreign.iter().map(time_to_live).collect();
        let answers = self.query(&questions).await?;
        let lives: Read<Vec<i64>> =
            answers.into_iter().map(|answer| answer.and_then(RedisReply::read)).collect();
        let lives = match lives {
            Ok(lives) => lives,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut namespaces = namespaces(&sampled);
        if is_elsewhere && namespaces.is_empty() {
            namespaces = self.search_namespaces().await?;
        }
        Ok(Ok(ForeignKeys {
            sampled: sampled.len() as u64,
            foreign: foreign.len() as u64,
            // -1 means no time to live; -2 means that the key is gone.
            expiring: lives.iter().filter(|milliseconds| **milliseconds >= 0).count() as u64,
            namespaces,
        }))
    }

    /// Searches for namespaces. Redis filters the keys, so only matching ones are transferred.
    async fn search_namespaces(&mut self) -> Result<BTreeSet<String>, SidekiqError> {
        let pattern = format!("*:{}", keys::QUEUES);
        let mut cursor = "0".to_owned();
        for _ in 0..SEARCHES_MAX {
            let words = [&cursor, "MATCH", &pattern, "COUNT", SEARCH_WINDOW];
            let answer = self.query_one(Question::new(ReadCommand::Scan, &words)).await?;
            // The namespaces are only a hint, so errors are ignored.
            let read = answer.and_then(RedisReply::read::<(String, Vec<Vec<u8>>)>);
            let Ok((next, window)) = read else { break };
            let window: Vec<_> =
                window.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
            let found = namespaces(&window);
            if !found.is_empty() || next == "0" {
                return Ok(found);
            }
            cursor = next;
        }
        Ok(BTreeSet::new())
    }
}

fn namespaces(keys: &[String]) -> BTreeSet<String> {
    keys.iter().filter_map(|key| keys::namespace(key)).map(str::to_owned).collect()
}

/// Reports whether a line of `CLIENT LIST` is of a client that is blocked (flag `b`) in a command
/// that writes.
fn is_delayed_write(client: &str) -> bool {
    let field = |name: &str| client.split(' ').find_map(|it| it.strip_prefix(name));
    field("flags=").is_some_and(|flags| flags.contains('b'))
        && field("cmd=").is_some_and(|command| WRITES.contains(&command))
}

/// Parses `[id, seconds, microseconds, [command, argument..], ..]`. Only the command's name is
/// used.
fn slow_command(entry: Value) -> Option<SlowCommand> {
    let entry: Vec<Value> = redis::from_redis_value(entry).ok()?;
    let mut entry = entry.into_iter().skip(1);
    let seconds: u64 = redis::from_redis_value(entry.next()?).ok()?;
    let micros: u64 = redis::from_redis_value(entry.next()?).ok()?;
    let words: Vec<Vec<u8>> = redis::from_redis_value(entry.next()?).ok()?;
    let command = String::from_utf8_lossy(words.first()?).to_ascii_uppercase();
    let at = Timestamp::from_millis(seconds.saturating_mul(1_000));
    Some(SlowCommand { command, took: Duration::from_micros(micros), at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_waits_shows_that_writes_are_paused() {
        let client = |flags: &str, command: &str| {
            format!("id=8 addr=127.0.0.1:1 name= flags={flags} db=0 cmd={command} user=default")
        };
        for (flags, command, expected) in [
            ("b", "hset", true),
            ("xb", "sadd", true),
            ("b", "brpop", false),
            ("N", "hset", false),
            ("b", "wait", false),
        ] {
            assert_eq!(is_delayed_write(&client(flags, command)), expected, "{flags} {command}");
        }
        assert!(!is_delayed_write(""));
    }

    #[test]
    fn a_folder_without_a_path_is_gone() {
        let replied = |dir: Option<&str>| {
            is_gone(&dir.map(|dir| ("dir".to_owned(), dir.to_owned())).into_iter().collect())
        };
        assert_eq!([Some(""), Some("/data"), None].map(replied), [true, false, false]);
    }

    #[test]
    fn a_slow_command_tells_its_name_only() {
        let word = |word: &str| Value::BulkString(word.as_bytes().to_vec());
        let words = Value::Array(vec![word("lpush"), word("queue:push"), word("{\"secret\":1}")]);
        let entry = Value::Array(vec![
            Value::Int(4),
            Value::Int(1_763_792_000),
            Value::Int(120_000),
            words,
            word("127.0.0.1:50000"),
        ]);
        let slow = slow_command(entry).unwrap();
        assert_eq!((slow.command.as_str(), slow.took), ("LPUSH", Duration::from_millis(120)));
        assert!(!format!("{slow:?}").contains("secret"));
        assert_eq!(slow_command(Value::Nil), None);
    }
}
