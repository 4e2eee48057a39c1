//! Trials of permissions: commands that a user needs, used on keys that are deleted afterwards.

use redis::{Cmd, Value};

use crate::error_kind::{self, RedisErrorKind};

/// A script that does nothing, and its hash.
pub const SCRIPT: &str = "return 1";
/// The hash of [`SCRIPT`].
pub const SCRIPT_HASH: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

/// Where a command is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialKey {
    /// It has no key.
    None,
    /// A list.
    List,
    /// A set.
    Set,
    /// A hash.
    Hash,
    /// A sorted set.
    Sorted,
    /// A string.
    Text,
    /// A stream.
    Stream,
    /// All of these.
    All,
}

impl TrialKey {
    const WITH_VALUES: [Self; 6] =
        [Self::List, Self::Set, Self::Hash, Self::Sorted, Self::Text, Self::Stream];

    const fn name(self) -> &'static str {
        match self {
            Self::None | Self::All => "",
            Self::List => "list",
            Self::Set => "set",
            Self::Hash => "hash",
            Self::Sorted => "sorted",
            Self::Text => "text",
            Self::Stream => "stream",
        }
    }
}

/// A command as ACL rules name it (`config|get`), the key that it is tried on, and its other
/// arguments. Nothing is left behind if a `del` of [`TrialKey::All`] follows.
pub type CommandTrial = (&'static str, TrialKey, &'static [&'static str]);

/// Returns a use of a command. Keys begin with `prefix` and are in one slot of a cluster.
#[must_use]
pub fn trial(prefix: &str, (rule, key, arguments): CommandTrial) -> Cmd {
    let mut words = rule.split('|');
    let mut command = redis::cmd(&words.next().unwrap_or_default().to_ascii_uppercase());
    for word in words {
        command.arg(word.to_ascii_uppercase());
    }
    let name = |key: TrialKey| format!("{prefix}:{{acl-check}}:{}", key.name());
    match key {
        TrialKey::None => &mut command,
        TrialKey::All => command.arg(TrialKey::WITH_VALUES.map(name).as_slice()),
        key => command.arg(name(key)),
    };
    command.arg(arguments);
    command
}

/// Returns the word of an `ACL SETUSER` line whose lack a reply reports: the rule of the command, or
/// `pattern` if a key is denied.
#[must_use]
pub fn missing_word(rule: &str, pattern: &str, reply: &Value) -> Option<String> {
    let Value::ServerError(error) = reply else { return None };
    let text = error.details().unwrap_or_default();
    match RedisErrorKind::of_reply(error.code(), text, rule) {
        RedisErrorKind::NoPermission { .. } if error_kind::is_about_keys(text) => {
            Some(pattern.to_owned())
        }
        RedisErrorKind::NoPermission { .. } => Some(format!("+{rule}")),
        // An empty transaction is aborted only if its EXEC is denied.
        _ if error.code() == "EXECABORT" => Some(format!("+{rule}")),
        _ => None,
    }
}

/// Returns whether a server, or a proxy before it, does not know the command.
#[must_use]
pub fn is_unknown(reply: &Value) -> bool {
    let Value::ServerError(error) = reply else { return false };
    let text = error.details().unwrap_or_default();
    RedisErrorKind::of_reply(error.code(), text, "") == RedisErrorKind::UnknownCommand
}

/// Escapes the special characters of Redis' patterns.
#[must_use]
pub fn escaped(text: &str) -> String {
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
    fn the_hash_is_that_of_the_script() {
        assert_eq!(redis::Script::new(SCRIPT).get_hash(), SCRIPT_HASH);
    }

    #[test]
    fn a_trial_uses_a_key_of_its_own() {
        let words = |trial: CommandTrial| {
            let command = self::trial("w", trial);
            String::from_utf8(command.get_packed_command()).unwrap().replace("\r\n", " ")
        };
        assert_eq!(
            words(("set", TrialKey::Text, &["1"])),
            "*3 $3 SET $18 w:{acl-check}:text $1 1 "
        );
        assert_eq!(words(("script|load", TrialKey::None, &["x"])), "*3 $6 SCRIPT $4 LOAD $1 x ");
        assert_eq!(escaped("a*[b]"), "a\\*\\[b\\]");
    }
}
