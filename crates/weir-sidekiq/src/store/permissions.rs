//! The permissions that the store needs, as a line for `ACL SETUSER`, and a check that a user has
//! them.
//!
//! The check runs with every connection, before its first job: a script that may delete from one key
//! and not write to the next would lose a job. It uses every command on keys of its own, which it
//! deletes, and tries to remove what does not exist from one key of each pattern.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use weir_redis::acl::{self, CommandTrial, TrialKey, escaped, is_unknown, missing_word};
use weir_redis::{RedisEndpoint, grant};

use super::keys::StoreKeys;
use super::metrics_layout::ClassMetricsLayout;
use super::settings::RedisStoreSettings;

/// All commands of the store and of its scripts, as ACL rules name them, in the order in which they
/// are tried. Nothing is left behind. `MULTI` and `EXEC` are last: where `EXEC` is denied, the
/// connection is of no use afterwards.
const COMMANDS: [CommandTrial; 47] = [
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
    ("lset", TrialKey::List, &["0", "x"]),
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
    ("script|load", TrialKey::None, &[acl::SCRIPT]),
    ("evalsha", TrialKey::None, &[acl::SCRIPT_HASH, "0"]),
    ("multi", TrialKey::None, &[]),
    ("exec", TrialKey::None, &[]),
];

/// The commands of the push memory, if it is on.
const PUSH_MEMORY_COMMANDS: [CommandTrial; 3] = [
    ("pttl", TrialKey::Text, &[]),
    ("pexpire", TrialKey::Text, &["60000"]),
    ("unlink", TrialKey::Text, &[]),
];

/// The commands of what a cluster can't have: resources that jobs use by their type.
const ONE_SERVER_COMMANDS: [CommandTrial; 1] = [("hexists", TrialKey::Hash, &["x"])];

/// What the nodes of a cluster need as well. First of all: `ASKING` concerns the next command.
const CLUSTER_COMMANDS: [CommandTrial; 2] =
    [("asking", TrialKey::None, &[]), ("cluster|slots", TrialKey::None, &[])];

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

/// What the store needs and a server does not give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacking {
    /// Missing words of the line.
    words: Vec<String>,
    /// Commands that the server does not know, as ACL rules name them.
    commands: Vec<&'static str>,
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
    is_cluster: bool,
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
            is_cluster: false,
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

    /// Returns what the nodes of a cluster must allow.
    pub(super) fn for_cluster(&self) -> Self {
        Self { is_cluster: true, ..self.clone() }
    }

    /// Returns the words that a cluster needs in addition: `+asking +cluster|slots`.
    pub(super) fn cluster_words() -> String {
        CLUSTER_COMMANDS.map(|(rule, ..)| format!("+{rule}")).join(" ")
    }

    /// Returns an error if these settings can't be kept where each step uses the keys of one slot.
    pub(super) fn check_split(&self) -> Result<(), String> {
        const WHAT: &str = "it accepts only steps with the keys of one slot (Redis Cluster, or \
                            several servers behind one address)";
        if self.confirming.is_some() {
            return Err(format!(
                "{WHAT}, where pushes can't be confirmed: remove jobs.redis.confirm, or use servers \
                 without cluster mode as shards"
            ));
        }
        if self.namespace.contains(['{', '}']) {
            return Err(format!("{WHAT}: use a jobs.redis.namespace without braces"));
        }
        Ok(())
    }

    /// Returns a use of a script with keys of two slots.
    pub(super) fn two_slots(&self) -> Cmd {
        let key = |tag: &str| format!("{}:{{acl-check{tag}}}:text", self.prefix);
        let mut command = redis::cmd("EVALSHA");
        command.arg(acl::SCRIPT_HASH).arg(2).arg(key("")).arg(key("-2"));
        command
    }

    /// Returns the error of a server that lacks something.
    pub(super) fn error_of(&self, lacking: &Lacking) -> Option<String> {
        let Lacking { words, commands } = lacking;
        if !words.is_empty() {
            return Some(self.error(words));
        }
        let names = commands.iter().map(|rule| rule.replace('|', " ").to_uppercase());
        let names = names.collect::<Vec<_>>().join(", ");
        (!commands.is_empty()).then(|| {
            format!(
                "it does not know commands that jobs need: {names}; use a Redis or Valkey server, or \
                 a proxy that passes them on"
            )
        })
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
        let commands = self.commands().map(|(rule, ..)| *rule);
        let commands = commands.chain(self.confirming.map(|(rule, _)| rule));
        let commands = commands.chain(self.needs_select.then_some(SELECT));
        let words = patterns.chain(own).chain(commands.map(|rule| format!("+{rule}")));
        grant::line(self.user.as_deref(), &words.collect::<Vec<_>>().join(" "))
    }

    /// Tries all that the store does.
    ///
    /// # Errors
    /// Returns an error if there is no reply.
    pub(super) async fn lacking(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Lacking, RedisError> {
        let mut pipeline = Pipeline::new();
        let mut trials: Vec<(&str, String)> = Vec::new();
        for KeyTrial { pattern, rule, command } in self.key_trials() {
            pipeline.add_command(command);
            trials.push((rule, pattern));
        }
        for trial in self.commands() {
            pipeline.add_command(acl::trial(&self.prefix, *trial));
            trials.push((trial.0, self.own_pattern()));
        }
        if let Some((rule, arguments)) = self.confirming {
            pipeline.add_command(acl::trial(&self.prefix, (rule, TrialKey::None, arguments)));
            trials.push((rule, self.own_pattern()));
        }
        pipeline.ignore_errors();
        let replies: Vec<Value> = pipeline.query_async(connection).await?;
        let mut lacking = Lacking::default();
        for ((rule, pattern), reply) in trials.into_iter().zip(replies) {
            // Whether the server can confirm pushes is checked elsewhere.
            let is_confirming = self.confirming.is_some_and(|(confirming, _)| confirming == rule);
            if is_unknown(&reply) && !is_confirming && !lacking.commands.contains(&rule) {
                lacking.commands.push(rule);
            }
            if let Some(word) = missing_word(rule, &pattern, &reply)
                && !lacking.words.contains(&word)
            {
                lacking.words.push(word);
            }
        }
        Ok(lacking)
    }

    /// Returns the commands in the order in which they are tried.
    fn commands(&self) -> impl Iterator<Item = &'static CommandTrial> {
        let mode = match self.is_cluster {
            true => CLUSTER_COMMANDS.as_slice(),
            false => ONE_SERVER_COMMANDS.as_slice(),
        };
        mode.iter().chain(self.push_memory_commands()).chain(&COMMANDS)
    }

    const fn push_memory_commands(&self) -> &'static [CommandTrial] {
        if self.has_push_memory { &PUSH_MEMORY_COMMANDS } else { &[] }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_keys_of_the_deployment() {
        let line = Permissions::new(Some("weir"), 3, "shop", "w*").line();
        let expected = "ACL SETUSER weir ~shop:queues ~shop:queue:* ~shop:schedule ~shop:retry \
                        ~shop:dead ~shop:processes ~shop:*:[0-9]*:????????????* ~shop:stat:* \
                        ~shop:j|* ~shop:*-[0-9][0-9]-[0-9][0-9]:* ~shop:h|* ~w\\*:* +hexists +time ";
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
    }
}
