//! The commands that are sent, none of which writes, and parsing of their replies.

use redis::{Cmd, FromRedisValue, Value};
use weir_redis::error_kind::{RedisErrorKind, missing_rule};

use crate::keys;
use crate::snapshot::{Read, RejectedCommand};

/// The ACL rules that suffice for reading, without write access to keys: `ACL SETUSER weir on
/// >PASSWORD ~* RULES`. Databases other than 0 also require `+select`, and Sentinel requires
/// `+role`.
pub const READ_ONLY_ACL: &str = "+ping +info +config|get +llen +lindex +lrange +smembers +sscan \
    +scard +sismember +hgetall +hmget +hget +hlen +zcard +zrange +zcount +zrangebyscore +get +mget \
    +type +ttl +pttl +exists +scan +memory|usage +slowlog|get +slowlog|len +latency|latest \
    +latency|history +client|list +time +dbsize";

/// Every command that the crate sends for reading. None of them writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadCommand {
    Time,
    Info,
    ConfigGet,
    SlowlogGet,
    ClientList,
    SetScan,
    Scan,
    TimeToLive,
    Get,
    Values,
    ListLength,
    ListRange,
    HashFields,
    HashLength,
    Hash,
    MemoryUsage,
    SortedSize,
    SortedCount,
    SortedRange,
}

impl ReadCommand {
    /// Returns the name of the command in ACL rules.
    const fn rule(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Info => "info",
            Self::ConfigGet => "config|get",
            Self::SlowlogGet => "slowlog|get",
            Self::ClientList => "client|list",
            Self::SetScan => "sscan",
            Self::Scan => "scan",
            Self::TimeToLive => "pttl",
            Self::Get => "get",
            Self::Values => "mget",
            Self::ListLength => "llen",
            Self::ListRange => "lrange",
            Self::HashFields => "hmget",
            Self::HashLength => "hlen",
            Self::Hash => "hgetall",
            Self::MemoryUsage => "memory|usage",
            Self::SortedSize => "zcard",
            Self::SortedCount => "zcount",
            Self::SortedRange => "zrange",
        }
    }
}

impl ReadCommand {
    /// All commands.
    pub(crate) const ALL: [Self; 19] = [
        Self::Time,
        Self::Info,
        Self::ConfigGet,
        Self::SlowlogGet,
        Self::ClientList,
        Self::SetScan,
        Self::Scan,
        Self::TimeToLive,
        Self::Get,
        Self::Values,
        Self::ListLength,
        Self::ListRange,
        Self::HashFields,
        Self::HashLength,
        Self::Hash,
        Self::MemoryUsage,
        Self::SortedSize,
        Self::SortedCount,
        Self::SortedRange,
    ];

    /// Returns the cheapest query with this command, on a key that every Sidekiq has.
    pub(crate) fn least(self) -> Question {
        let key = keys::QUEUES;
        let arguments: &[&str] = match self {
            Self::Time => &[],
            Self::Info => &["server"],
            Self::ConfigGet => &["save"],
            Self::SlowlogGet => &["1"],
            Self::ClientList => &["TYPE", "pubsub"],
            Self::Scan => &["0", "COUNT", "1"],
            Self::SetScan => &[key, "0", "COUNT", "1"],
            Self::ListRange | Self::SortedRange | Self::SortedCount => &[key, "0", "0"],
            Self::HashFields => &[key, "info"],
            Self::TimeToLive
            | Self::Get
            | Self::Values
            | Self::ListLength
            | Self::HashLength
            | Self::Hash
            | Self::MemoryUsage
            | Self::SortedSize => &[key],
        };
        Question::new(self, arguments)
    }
}

/// A command with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    command: ReadCommand,
    arguments: Vec<String>,
}

/// Sidekiq's keys have no hash tags, and its scripts use several of them.
const CLUSTER: &str = "the key is on another node of a Redis Cluster, which Sidekiq cannot use. \
                       `weir status` and `weir doctor --weir URL` report Weir's own jobs there";

impl Question {
    pub(crate) fn new(command: ReadCommand, arguments: &[&str]) -> Self {
        Self { command, arguments: arguments.iter().map(ToString::to_string).collect() }
    }

    /// Returns the query for a range of ranks of a list or sorted set.
    pub(crate) fn range(command: ReadCommand, key: &str, from: i64, to: i64) -> Self {
        Self::new(command, &[key, &from.to_string(), &to.to_string()])
    }

    pub(crate) fn to_command(&self) -> Cmd {
        let mut words = self.command.rule().split('|');
        let mut command = redis::cmd(&words.next().unwrap_or_default().to_ascii_uppercase());
        for word in words {
            command.arg(word.to_ascii_uppercase());
        }
        for argument in &self.arguments {
            command.arg(argument);
        }
        command
    }

    /// Returns the command as Redis' documentation writes it: `CONFIG GET`.
    fn command(&self) -> String {
        self.command.rule().replace('|', " ").to_ascii_uppercase()
    }

    /// Converts Redis' value to a reply or an error.
    pub(crate) fn answer(&self, value: Value) -> ReplyResult {
        let Value::ServerError(error) = value else {
            return Ok(RedisReply { value, question: self.clone() });
        };
        let (command, text) = (self.command(), error.details().unwrap_or_default());
        let mut reason = error.details().unwrap_or_else(|| error.code()).to_owned();
        let grant = match RedisErrorKind::of_reply(error.code(), text, &command) {
            RedisErrorKind::NoPermission { command } => Some(missing_rule(text, &command)),
            RedisErrorKind::ClusterRedirect => {
                reason = CLUSTER.to_owned();
                None
            }
            _ => None,
        };
        Err(RejectedCommand { command, reason, grant })
    }
}

/// The reply to a query, or the error.
pub(crate) type ReplyResult = Read<RedisReply>;

/// A reply from Redis, with its query.
#[derive(Debug)]
pub(crate) struct RedisReply {
    value: Value,
    question: Question,
}

impl RedisReply {
    /// Converts the reply to a type. An unexpected type is an error.
    pub(crate) fn read<T: FromRedisValue>(self) -> Read<T> {
        redis::from_redis_value(self.value).map_err(|_| {
            let key = self.question.arguments.first().map_or("", String::as_str);
            let reason = format!("the answer for {key:?} is not in Sidekiq's layout");
            RejectedCommand { command: self.question.command(), reason, grant: None }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_acl_allows_every_command_that_is_sent() {
        let rules: Vec<_> = READ_ONLY_ACL.split_whitespace().collect();
        for command in ReadCommand::ALL {
            let rule = format!("+{}", command.rule());
            assert!(rules.contains(&rule.as_str()), "{rule}");
        }
    }

    #[test]
    fn a_command_of_two_words_is_sent_as_two() {
        let packed =
            Question::new(ReadCommand::ConfigGet, &["save"]).to_command().get_packed_command();
        assert_eq!(packed, b"*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$4\r\nsave\r\n");
    }

    #[test]
    fn another_kind_of_answer_is_a_refusal() {
        let answer =
            Question::new(ReadCommand::ListLength, &["queue:a"]).answer(Value::Array(vec![]));
        let refusal = answer.unwrap().read::<u64>().unwrap_err();
        assert!(refusal.reason.contains("queue:a"), "{refusal:?}");
        assert_eq!(refusal.grant, None);
    }
}
