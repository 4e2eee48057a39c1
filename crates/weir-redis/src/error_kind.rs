//! Classifies errors of Redis and of its client library. No other file reads their text.

use redis::{ErrorKind, RedisError, RedisResult, Value};

use crate::network_error::NetworkErrorKind;
use crate::node_away::AWAY;

/// Why a Redis cannot be used, or why it rejected a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisErrorKind {
    /// It could not be reached, or the connection broke.
    Network(NetworkErrorKind),
    /// It requires a password (`NOAUTH`).
    AuthRequired,
    /// It rejected the user or the password (`WRONGPASS`).
    WrongPassword,
    /// The user lacks a permission (`NOPERM`, or the error of a script).
    NoPermission {
        /// The command: `CONFIG GET`.
        command: String,
    },
    /// All connections are in use (`maxclients`).
    ClientsExhausted,
    /// It is loading its data from disk (`LOADING`).
    Loading,
    /// A script or a function is running (`BUSY`).
    Busy(Blocker),
    /// It is a replica that has lost its master (`MASTERDOWN`).
    MasterDown,
    /// It is a replica, which rejects writes (`READONLY`).
    ReadOnly,
    /// It rejects writes because it cannot save its data (`MISCONF`).
    Misconf,
    /// It rejects writes because `maxmemory` is reached (`OOM`).
    OutOfMemory,
    /// It rejects writes because too few replicas are connected (`NOREPLICAS`).
    NoReplicas,
    /// The key is on another node of a cluster (`MOVED`, `ASK`).
    ClusterRedirect,
    /// The slot of the keys can't be used now: it is being moved, or no node has it (`TRYAGAIN`,
    /// `CLUSTERDOWN`).
    SlotUnavailable,
    /// The node of a cluster that has the keys can't be used. Nothing was sent to it.
    NodeAway,
    /// The keys of a command are in several slots (`CROSSSLOT`).
    CrossSlot,
    /// The key has a value of another type (`WRONGTYPE`).
    WrongType,
    /// It does not know the command (`ERR`): an earlier version, or a proxy.
    UnknownCommand,
    /// Another error.
    Other,
}

/// What blocks a Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// A script, which `SCRIPT KILL` ends.
    Script,
    /// A function, which `FUNCTION KILL` ends.
    Function,
}

/// Texts of Redis for errors whose code is not sufficient. They are the same in 6.2, 7.0, 7.2 and
/// 8.0 where no version is given.
mod text {
    /// `ERR`: networking.c.
    pub(super) const CLIENTS_EXHAUSTED: &str = "max number of clients";
    /// `ERR`: server.c (6.2; 7.0 and later).
    pub(super) const UNKNOWN_COMMAND: [&str; 2] = ["unknown command `", "unknown command '"];
    /// `BUSY`: `slowevalerr` in server.c.
    pub(super) const FUNCTION_KILL: &str = "FUNCTION KILL";
    /// `NOPERM`: server.c (6.2, 7.0: "no permissions to access one of the keys used as arguments")
    /// and acl.c (7.2, 8.0: "No permissions to access a key").
    pub(super) const ACCESS: &str = "ermissions to access ";
    /// `ERR`: scripting.c of 6.2, which wraps the error of a command in a script. Later versions
    /// keep its code.
    pub(super) const READ_ONLY_IN_SCRIPT: &str = "-READONLY ";
    /// `ERR`: script_lua.c and script.c, for a command in a script: 6.2 and 7.0; 7.2 and 8.0.
    pub(super) const DENIED_IN_SCRIPT: [&str; 2] =
        ["The user executing the script can't ", "ACL failure in script"];
}

impl RedisErrorKind {
    /// Classifies a reply to `command`. The first word of an error is its code; `text` is the rest.
    #[must_use]
    pub fn of_reply(code: &str, text: &str, command: &str) -> Self {
        match code {
            "NOAUTH" => Self::AuthRequired,
            "WRONGPASS" => Self::WrongPassword,
            "NOPERM" => Self::NoPermission { command: command.to_owned() },
            "LOADING" => Self::Loading,
            "BUSY" if text.contains(text::FUNCTION_KILL) => Self::Busy(Blocker::Function),
            "BUSY" => Self::Busy(Blocker::Script),
            "MASTERDOWN" => Self::MasterDown,
            "READONLY" => Self::ReadOnly,
            "MISCONF" => Self::Misconf,
            "OOM" => Self::OutOfMemory,
            "NOREPLICAS" => Self::NoReplicas,
            "MOVED" | "ASK" => Self::ClusterRedirect,
            "TRYAGAIN" | "CLUSTERDOWN" => Self::SlotUnavailable,
            AWAY => Self::NodeAway,
            "CROSSSLOT" => Self::CrossSlot,
            "WRONGTYPE" => Self::WrongType,
            "ERR" if text.contains(text::READ_ONLY_IN_SCRIPT) => Self::ReadOnly,
            "ERR" if text.starts_with(text::CLIENTS_EXHAUSTED) => Self::ClientsExhausted,
            "ERR" if text::DENIED_IN_SCRIPT.iter().any(|denied| text.starts_with(denied)) => {
                Self::NoPermission { command: command.to_owned() }
            }
            "ERR" if text::UNKNOWN_COMMAND.iter().any(|unknown| text.starts_with(unknown)) => {
                Self::UnknownCommand
            }
            _ => Self::Other,
        }
    }

    /// Classifies an error of the client library, which may contain a reply to `command`.
    #[must_use]
    pub fn of(error: &RedisError, command: &str) -> Self {
        if let Some((code, text)) = server_error(error) {
            return Self::of_reply(&code, &text, command);
        }
        if error.kind() == ErrorKind::AuthenticationFailed {
            return Self::WrongPassword;
        }
        let network = NetworkErrorKind::of(error);
        let closed = error.is_io_error().then_some(NetworkErrorKind::Closed);
        network.or(closed).map_or(Self::Other, Self::Network)
    }
}

/// Returns the code and the text of a reply that is an error. For several commands, those of the first
/// one that failed; the `EXECABORT` of a transaction says nothing.
#[must_use]
pub fn server_error(error: &RedisError) -> Option<(String, String)> {
    let errors = error.clone().into_server_errors();
    if let Some((_, first)) = errors.as_deref().and_then(<[_]>::first) {
        let text = first.details().unwrap_or_default();
        return Some((first.code().to_owned(), text.to_owned()));
    }
    let code = error.code()?;
    Some((code.to_owned(), error.detail().unwrap_or_default().to_owned()))
}

/// Returns the code and the text of a reply that is an error, whether it is a value or not.
#[must_use]
pub fn reply_error(reply: &RedisResult<Value>) -> Option<(String, String)> {
    match reply {
        Ok(Value::ServerError(error)) => {
            Some((error.code().to_owned(), error.details().unwrap_or_default().to_owned()))
        }
        Ok(_) => None,
        Err(error) => server_error(error),
    }
}

/// Returns the ACL rule that `command` lacks, from the text of `NOPERM`: `+config|get`, or `~*`.
#[must_use]
pub fn missing_rule(text: &str, command: &str) -> String {
    match is_about_keys(text) {
        true => "~*".to_owned(),
        false => format!("+{}", command.to_ascii_lowercase().replace(' ', "|")),
    }
}

/// Returns whether the text of `NOPERM` denies a key, not a command.
#[must_use]
pub fn is_about_keys(text: &str) -> bool {
    text.contains(text::ACCESS)
}

/// Returns Redis' message with its code, or the client library's.
#[must_use]
pub fn message(error: &RedisError) -> String {
    match server_error(error) {
        Some((code, text)) if code == AWAY => text,
        Some((code, text)) => format!("{code} {text}"),
        // The client library does not return the message.
        _ if error.kind() == ErrorKind::AuthenticationFailed => "WRONGPASS".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(reply: &str) -> RedisErrorKind {
        let (code, text) = reply.split_once(' ').unwrap();
        RedisErrorKind::of_reply(code, text, "MEMORY USAGE")
    }

    #[test]
    fn the_code_decides() {
        for (reply, expected) in [
            ("LOADING Redis is loading the dataset in memory", RedisErrorKind::Loading),
            ("NOAUTH Authentication required.", RedisErrorKind::AuthRequired),
            ("MASTERDOWN Link with MASTER is down", RedisErrorKind::MasterDown),
            ("READONLY You can't write against a read only replica.", RedisErrorKind::ReadOnly),
            ("MOVED 3999 127.0.0.1:6381", RedisErrorKind::ClusterRedirect),
            ("CLUSTERDOWN Hash slot not served", RedisErrorKind::SlotUnavailable),
            ("WEIRNODEAWAY Redis a:1: nothing listens there", RedisErrorKind::NodeAway),
            ("WRONGTYPE Operation against a key holding the wrong kind", RedisErrorKind::WrongType),
            ("ERR unknown command: BUSY ", RedisErrorKind::Other),
            ("ERR unknown command 'WAITAOF', with args", RedisErrorKind::UnknownCommand),
            ("ERR unknown command `WAITAOF`, with args", RedisErrorKind::UnknownCommand),
        ] {
            assert_eq!(kind(reply), expected, "{reply}");
        }
    }

    #[test]
    fn the_text_decides_where_the_code_is_not_sufficient() {
        assert_eq!(kind("ERR max number of clients reached"), RedisErrorKind::ClientsExhausted);
        let script = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
                      SHUTDOWN NOSAVE.";
        assert_eq!(kind(script), RedisErrorKind::Busy(Blocker::Script));
        let function = script.replace("SCRIPT", "FUNCTION");
        assert_eq!(kind(&function), RedisErrorKind::Busy(Blocker::Function));
        for denied in [
            "NOPERM this user has no permissions to run the 'memory|usage' command",
            "ERR The user executing the script can't run this command or subcommand",
            "ERR ACL failure in script: User weir has no permissions to run the 'x' command",
        ] {
            let expected = RedisErrorKind::NoPermission { command: "MEMORY USAGE".to_owned() };
            assert_eq!(kind(denied), expected, "{denied}");
            assert_eq!(missing_rule(denied, "MEMORY USAGE"), "+memory|usage");
        }
        for denied in [
            "this user has no permissions to access one of the keys used as arguments",
            "No permissions to access a key",
        ] {
            assert_eq!(missing_rule(denied, "MEMORY USAGE"), "~*", "{denied}");
        }
    }
}
