//! The permissions that the store needs, as a line for `ACL SETUSER`, and a check that a user has
//! them.
//!
//! The check runs with every connection, before its first job: a script that may delete from one key
//! and not write to the next would lose a job. It uses every command on keys of its own, which it
//! deletes, and tries to remove what does not exist from one key of each pattern.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};

use super::keys::StoreKeys;
use super::metrics_layout::ClassMetricsLayout;
use super::settings::RedisStoreSettings;
use crate::endpoint::RedisEndpoint;
use crate::error_kind::{self, RedisErrorKind};
use crate::grant;

/// Where a command is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrialKey {
    None,
    List,
    Set,
    Hash,
    Sorted,
    Text,
    All,
}

impl TrialKey {
    const WITH_VALUES: [Self; 5] = [Self::List, Self::Set, Self::Hash, Self::Sorted, Self::Text];

    const fn name(self) -> &'static str {
        match self {
            Self::None | Self::All => "",
            Self::List => "list",
            Self::Set => "set",
            Self::Hash => "hash",
            Self::Sorted => "sorted",
            Self::Text => "text",
        }
    }
}

/// A script that does nothing, and its hash.
const SCRIPT: &str = "return 1";
const SCRIPT_HASH: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

/// All commands of the store and of its scripts, as ACL rules name them, in the order in which they
/// are tried. Nothing is left behind. `MULTI` and `EXEC` are last: where `EXEC` is denied, the
/// connection is of no use afterwards.
const COMMANDS: [(&str, TrialKey, &[&str]); 46] = [
    ("time", TrialKey::None, &[]),
    ("info", TrialKey::None, &["memory"]),
    ("set", TrialKey::Text, &["1"]),
    ("get", TrialKey::Text, &[]),
    ("incrby", TrialKey::Text, &["1"]),
    ("bitfield", TrialKey::Text, &["GET", "u16", "#0"]),
    ("exists", TrialKey::Text, &[]),
    ("type", TrialKey::Text, &[]),
    ("expire", TrialKey::Text, &["60"]),
    ("lpush", TrialKey::List, &["x"]),
    ("rpush", TrialKey::List, &["x"]),
    ("llen", TrialKey::List, &[]),
    ("lindex", TrialKey::List, &["0"]),
    ("lrange", TrialKey::List, &["0", "0"]),
    ("lrem", TrialKey::List, &["0", "x"]),
    ("lpop", TrialKey::List, &[]),
    ("rpop", TrialKey::List, &[]),
    ("sadd", TrialKey::Set, &["x"]),
    ("scard", TrialKey::Set, &[]),
    ("sismember", TrialKey::Set, &["x"]),
    ("smismember", TrialKey::Set, &["x"]),
    ("srandmember", TrialKey::Set, &["1"]),
    ("sscan", TrialKey::Set, &["0"]),
    ("srem", TrialKey::Set, &["x"]),
    ("hset", TrialKey::Hash, &["x", "1"]),
    ("hincrby", TrialKey::Hash, &["x", "1"]),
    ("hget", TrialKey::Hash, &["x"]),
    ("hmget", TrialKey::Hash, &["x"]),
    ("hgetall", TrialKey::Hash, &[]),
    ("hscan", TrialKey::Hash, &["0"]),
    ("hlen", TrialKey::Hash, &[]),
    ("hdel", TrialKey::Hash, &["x"]),
    ("zadd", TrialKey::Sorted, &["1", "x"]),
    ("zcard", TrialKey::Sorted, &[]),
    ("zscore", TrialKey::Sorted, &["x"]),
    ("zrange", TrialKey::Sorted, &["0", "0"]),
    ("zrangebyscore", TrialKey::Sorted, &["0", "0"]),
    ("zrevrangebyscore", TrialKey::Sorted, &["0", "0"]),
    ("zremrangebyscore", TrialKey::Sorted, &["0", "0"]),
    ("zremrangebyrank", TrialKey::Sorted, &["1", "1"]),
    ("zrem", TrialKey::Sorted, &["x"]),
    ("del", TrialKey::All, &[]),
    ("script|load", TrialKey::None, &[SCRIPT]),
    ("evalsha", TrialKey::None, &[SCRIPT_HASH, "0"]),
    ("multi", TrialKey::None, &[]),
    ("exec", TrialKey::None, &[]),
];

/// The commands of the push memory, if it is on.
const PUSH_MEMORY_COMMANDS: [(&str, TrialKey, &[&str]); 3] = [
    ("pttl", TrialKey::Text, &[]),
    ("pexpire", TrialKey::Text, &["60000"]),
    ("unlink", TrialKey::Text, &[]),
];

/// A database other than 0 needs it as well. A connection that lacks it fails before it is checked.
const SELECT: &str = "select";

/// A name that no queue, process or counter has.
const ABSENT: &str = "weir-acl-check";

/// A pattern of keys, and a command that writes to such a key without an effect.
struct KeyTrial {
    pattern: String,
    rule: &'static str,
    command: Cmd,
}

/// What a user needs for one deployment of Weir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Permissions {
    user: Option<String>,
    keys: StoreKeys,
    prefix: String,
    namespace: String,
    needs_select: bool,
    class_metrics: ClassMetricsLayout,
    has_push_memory: bool,
    /// The rule and the arguments of the command that confirms pushes, if they are confirmed.
    confirming: Option<(&'static str, &'static [&'static str])>,
}

impl Permissions {
    pub(super) fn new(user: Option<&str>, database: i64, namespace: &str, prefix: &str) -> Self {
        Self {
            user: user.map(str::to_owned),
            keys: StoreKeys::new(namespace, prefix),
            prefix: prefix.to_owned(),
            namespace: namespace.to_owned(),
            needs_select: database != 0,
            class_metrics: ClassMetricsLayout::Auto,
            has_push_memory: false,
            confirming: None,
        }
    }

    /// Returns what the store needs with these settings.
    pub(super) fn of_store(endpoint: &RedisEndpoint, settings: &RedisStoreSettings) -> Self {
        let (user, database) = (endpoint.username.as_deref(), endpoint.database);
        let confirm = &settings.confirm;
        let confirming = match confirm.disk {
            true => Some(("waitaof", ["0", "0", "1"].as_slice())),
            false => confirm.is_on().then_some(("wait", ["0", "1"].as_slice())),
        };
        let class_metrics = settings.class_metrics;
        let has_push_memory = settings.push_memory.map_or(confirm.is_on(), |it| !it.is_zero());
        let any = Self::new(user, database, &settings.namespace, &settings.prefix);
        Self { class_metrics, has_push_memory, confirming, ..any }
    }

    /// Returns the error of a user that lacks these words.
    pub(super) fn error(&self, missing: &[String]) -> String {
        let user = self.user.as_deref().unwrap_or("default");
        let (words, line) = (missing.join(" "), self.line());
        format!("its user {user} lacks permissions: {words}; to grant all that jobs need: {line}")
    }

    /// Returns the command that grants everything: `ACL SETUSER weir ~queues .. +time ..`.
    pub(super) fn line(&self) -> String {
        let patterns = self.key_trials().into_iter().map(|trial| trial.pattern);
        let own = std::iter::once(self.own_pattern());
        let commands = self.push_memory_commands().iter().chain(&COMMANDS);
        let commands = commands.map(|(rule, ..)| *rule);
        let commands = commands.chain(self.confirming.map(|(rule, _)| rule));
        let commands = commands.chain(self.needs_select.then_some(SELECT));
        let words = patterns.chain(own).chain(commands.map(|rule| format!("+{rule}")));
        grant::line(self.user.as_deref(), &words.collect::<Vec<_>>().join(" "))
    }

    /// Returns the missing words of the line. Empty: the user has all permissions.
    ///
    /// # Errors
    /// Returns an error if there is no reply.
    pub(super) async fn missing(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Vec<String>, RedisError> {
        let mut pipeline = Pipeline::new();
        let mut trials: Vec<(&str, String)> = Vec::new();
        for KeyTrial { pattern, rule, command } in self.key_trials() {
            pipeline.add_command(command);
            trials.push((rule, pattern));
        }
        for (rule, key, arguments) in self.push_memory_commands().iter().chain(&COMMANDS) {
            pipeline.add_command(self.trial(rule, *key, arguments));
            trials.push((*rule, self.own_pattern()));
        }
        if let Some((rule, arguments)) = self.confirming {
            pipeline.add_command(self.trial(rule, TrialKey::None, arguments));
            trials.push((rule, self.own_pattern()));
        }
        pipeline.ignore_errors();
        let replies: Vec<Value> = pipeline.query_async(connection).await?;
        let mut missing = Vec::new();
        for ((rule, pattern), reply) in trials.into_iter().zip(replies) {
            if let Some(word) = missing_word(rule, pattern, &reply)
                && !missing.contains(&word)
            {
                missing.push(word);
            }
        }
        Ok(missing)
    }

    const fn push_memory_commands(
        &self,
    ) -> &'static [(&'static str, TrialKey, &'static [&'static str])] {
        if self.has_push_memory { &PUSH_MEMORY_COMMANDS } else { &[] }
    }

    /// Returns a use of a command that leaves nothing behind.
    fn trial(&self, rule: &str, key: TrialKey, arguments: &[&str]) -> Cmd {
        let mut words = rule.split('|');
        let mut command = redis::cmd(&words.next().unwrap_or_default().to_ascii_uppercase());
        for word in words {
            command.arg(word.to_ascii_uppercase());
        }
        // One hash tag: the keys are in one slot of a cluster.
        let name = |key: TrialKey| format!("{}:{{acl-check}}:{}", self.prefix, key.name());
        match key {
            TrialKey::None => &mut command,
            TrialKey::All => command.arg(TrialKey::WITH_VALUES.map(name).as_slice()),
            key => command.arg(name(key)),
        };
        command.arg(arguments);
        command
    }

    /// Returns a trial for each pattern of Sidekiq's keys.
    fn key_trials(&self) -> Vec<KeyTrial> {
        let patterns = StoreKeys::new(&escaped(&self.namespace), &escaped(&self.prefix));
        let keys = &self.keys;
        let trial = |pattern: String, rule: &'static str, key: String, arguments: &[&str]| {
            let mut command = redis::cmd(&rule.to_ascii_uppercase());
            command.arg(key).arg(arguments);
            KeyTrial { pattern: format!("~{pattern}"), rule, command }
        };
        let processes = patterns.process("*:[0-9]*:????????????*");
        let process = keys.process(&format!("{ABSENT}:0:000000000000"));
        let mut trials = vec![
            trial(patterns.queues(), "srem", keys.queues(), &[ABSENT]),
            trial(patterns.list("*"), "lrem", keys.list(ABSENT), &["0", ABSENT]),
            trial(patterns.scheduled(), "zrem", keys.scheduled(), &[ABSENT]),
            trial(patterns.retries(), "zrem", keys.retries(), &[ABSENT]),
            trial(patterns.dead(), "zrem", keys.dead(), &[ABSENT]),
            trial(patterns.processes(), "srem", keys.processes(), &[ABSENT]),
            trial(processes, "hdel", process, &[ABSENT]),
            trial(patterns.statistic("*", None), "del", keys.statistic(ABSENT, None), &[]),
        ];
        for (pattern, absent) in self.class_metrics.key_patterns() {
            let (pattern, key) = (patterns.class_metrics(pattern), keys.class_metrics(absent));
            trials.push(trial(pattern, "del", key, &[]));
        }
        trials
    }

    /// Returns the pattern of Weir's own keys.
    fn own_pattern(&self) -> String {
        format!("~{}:*", escaped(&self.prefix))
    }
}

/// Returns the word of the line whose lack a reply reports.
fn missing_word(rule: &str, pattern: String, reply: &Value) -> Option<String> {
    let Value::ServerError(error) = reply else { return None };
    let text = error.details().unwrap_or_default();
    match RedisErrorKind::of_reply(error.code(), text, rule) {
        RedisErrorKind::NoPermission { .. } if error_kind::is_about_keys(text) => Some(pattern),
        RedisErrorKind::NoPermission { .. } => Some(format!("+{rule}")),
        // An empty transaction is aborted only if its EXEC is denied.
        _ if error.code() == "EXECABORT" => Some(format!("+{rule}")),
        _ => None,
    }
}

/// Escapes the special characters of Redis' patterns.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if "*?[]\\".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_keys_of_the_deployment() {
        let line = Permissions::new(Some("weir"), 3, "shop", "w*").line();
        let expected = "ACL SETUSER weir ~shop:queues ~shop:queue:* ~shop:schedule ~shop:retry \
                        ~shop:dead ~shop:processes ~shop:*:[0-9]*:????????????* ~shop:stat:* \
                        ~shop:j|* ~shop:*-[0-9][0-9]-[0-9][0-9]:* ~shop:h|* ~w\\*:* +time ";
        assert!(line.starts_with(expected), "{line}");
        assert!(line.ends_with(" +multi +exec +select"), "{line}");
        let line = Permissions::new(None, 0, "", "weir").line();
        assert!(line.starts_with("ACL SETUSER default ~queues ~queue:* "), "{line}");
        assert!(line.ends_with(" ~weir:* +time") || !line.contains("+select"), "{line}");
    }

    #[test]
    fn each_command_is_listed_once() {
        let mut rules = COMMANDS.map(|(rule, ..)| rule).to_vec();
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(rules.len(), COMMANDS.len());
        assert_eq!(redis::Script::new(SCRIPT).get_hash(), SCRIPT_HASH);
    }
}
