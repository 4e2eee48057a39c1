//! Status of a Redis server: `INFO`, `CONFIG GET save`, `SLOWLOG GET`.

use std::time::Duration;

use weir_advisor::observation::{AppendFsync, RedisInfo, redis_field};
use weir_base::clock::Timestamp;

use crate::snapshot::Read;

/// Status of a Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSample {
    /// `redis_version`.
    pub version: String,
    /// Other values from `INFO`.
    pub info: RedisInfo,
    /// `INFO commandstats`, highest total time first, limited by `operations_max`.
    pub commands: Read<Vec<CommandSample>>,
    /// Whether `save` contains a rule.
    pub snapshots: Read<bool>,
    /// `appendfsync`, if `CONFIG GET` is allowed.
    pub append_fsync: Option<AppendFsync>,
    /// What Weir's nodes wait for before they acknowledge a push to this Redis, as they have written
    /// it: the disk, and a number of replicas.
    pub push_confirmation: Option<(bool, u64)>,
    /// The newest entries of the slow log.
    pub slow_commands: Read<Vec<SlowCommand>>,
    /// The slow log may have older entries, because as many were read as were requested.
    pub has_more_slow_commands: bool,
    /// Redis does not know its working folder (`dir`), because that was removed.
    pub folder_is_gone: bool,
}

/// Statistics of one command since the last reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSample {
    /// `lrange`, `config|get`.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Total duration.
    pub took: Duration,
}

impl CommandSample {
    /// Parses at most `max` lines of `INFO commandstats`: `cmdstat_get:calls=7,usec=30,..`.
    pub(crate) fn parse(info: &str, max: usize) -> Vec<Self> {
        let line = |line: &str| {
            let (name, fields) = line.trim().strip_prefix("cmdstat_")?.split_once(':')?;
            let number = |wanted: &str| {
                let field = fields.split(',').find_map(|field| field.strip_prefix(wanted))?;
                field.parse::<u64>().ok()
            };
            let (calls, micros) = (number("calls=")?, number("usec=")?);
            Some(Self { name: name.to_owned(), calls, took: Duration::from_micros(micros) })
        };
        let mut commands: Vec<_> = info.lines().filter_map(line).collect();
        commands.sort_by_key(|command| std::cmp::Reverse(command.took));
        commands.truncate(max);
        commands
    }
}

/// An entry of the slow log, without the command's arguments, which contain jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCommand {
    /// `LRANGE`.
    pub command: String,
    /// Duration.
    pub took: Duration,
    /// When the command was executed.
    pub at: Timestamp,
}

impl Default for ServerSample {
    fn default() -> Self {
        Self::parse("")
    }
}

impl ServerSample {
    /// Parses the output of `INFO`.
    pub(crate) fn parse(info: &str) -> Self {
        Self {
            version: redis_field(info, "redis_version").unwrap_or_default().to_owned(),
            info: RedisInfo::parse(info),
            commands: Ok(Vec::new()),
            snapshots: Ok(false),
            append_fsync: None,
            push_confirmation: None,
            slow_commands: Ok(Vec::new()),
            has_more_slow_commands: false,
            folder_is_gone: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_by_their_time_and_what_is_no_count_is_left_out() {
        let info = "# Commandstats\r\ncmdstat_get:calls=7,usec=30,usec_per_call=4.29\r\n\
                    cmdstat_config|get:calls=1,usec=90,usec_per_call=90.00,rejected_calls=0\r\n\
                    cmdstat_odd:calls=x,usec=1\r\ncmdstat_llen:calls=2,usec=1\r\n";
        let commands = CommandSample::parse(info, 2);
        let names: Vec<&str> = commands.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["config|get", "get"]);
        assert_eq!((commands[1].calls, commands[1].took), (7, Duration::from_micros(30)));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = CommandSample::parse(&format!("cmdstat_{text}"), 10);
        }
    }
}
