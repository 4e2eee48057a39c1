//! What the nodes of a Redis Cluster say about its slots: `CLUSTER SLOTS`, and redirections.

use redis::{Cmd, RedisResult, Value};

use crate::error_kind::reply_error;

/// Slots, the last one included, and the node that accepts writes to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// The first slot.
    pub first: u16,
    /// The last slot.
    pub last: u16,
    /// The node that accepts writes to them.
    pub node: NodeAddress,
}

/// A host and a port.
pub type NodeAddress = (String, u16);

/// What a server says of a command that it has not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// The slot has another owner.
    Moved(NodeAddress),
    /// The slot is being moved, and its keys are there already.
    Ask(NodeAddress),
    /// Some of the keys have been moved, or the cluster is not complete.
    Wait,
}

/// Returns `HOST:PORT`.
#[must_use]
pub fn name_of((host, port): &NodeAddress) -> String {
    format!("{host}:{port}")
}

/// Returns the command whose reply [`parse_slots`] reads.
#[must_use]
pub fn slots_command() -> Cmd {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    command
}

impl Redirect {
    /// Reads a reply. `host` is that of the server that sent it, which may leave it out.
    #[must_use]
    pub fn of(reply: &RedisResult<Value>, host: &str) -> Option<Self> {
        let (code, text) = reply_error(reply)?;
        match code.as_str() {
            "MOVED" => parse_target(&text, host).map(Self::Moved),
            "ASK" => parse_target(&text, host).map(Self::Ask),
            "TRYAGAIN" | "CLUSTERDOWN" => Some(Self::Wait),
            _ => None,
        }
    }
}

/// Returns whether a reply says that the command was not executed.
#[must_use]
pub fn is_redirect(value: &Value) -> bool {
    let Value::ServerError(error) = value else { return false };
    matches!(error.code(), "MOVED" | "ASK") || is_wait(value)
}

/// Returns whether a reply says that the command was not executed, because its slot can't be used now.
#[must_use]
pub fn is_wait(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if matches!(error.code(), "TRYAGAIN" | "CLUSTERDOWN"))
}

/// Parses `3999 127.0.0.1:6381`.
fn parse_target(text: &str, host: &str) -> Option<NodeAddress> {
    let (_, address) = text.split_once(' ')?;
    let (named, port) = address.trim().rsplit_once(':')?;
    let named = if named.is_empty() || named == "?" { host } else { named };
    Some((named.to_owned(), port.parse().ok()?))
}

/// Parses the reply to `CLUSTER SLOTS`. Entries of another form are left out.
#[must_use]
pub fn parse_slots(reply: &Value, seed_host: &str) -> Vec<SlotRange> {
    let Value::Array(entries) = reply else { return Vec::new() };
    let range = |entry: &Value| {
        let Value::Array(parts) = entry else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(owner), ..] = parts.as_slice()
        else {
            return None;
        };
        let [host, Value::Int(port), ..] = owner.as_slice() else { return None };
        let host = match host {
            Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
            _ => String::new(),
        };
        let host = if host.is_empty() || host == "?" { seed_host.to_owned() } else { host };
        let number = |number: &i64| u16::try_from(*number).ok();
        Some(SlotRange { first: number(first)?, last: number(last)?, node: (host, number(port)?) })
    };
    entries.iter().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> RedisResult<Value> {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
    }

    #[test]
    fn redirections_name_their_target() {
        let of = |line: &str| Redirect::of(&error(line), "seed");
        let node = |host: &str, port| (host.to_owned(), port);
        assert_eq!(of("MOVED 3999 10.0.0.1:6381"), Some(Redirect::Moved(node("10.0.0.1", 6381))));
        assert_eq!(of("MOVED 3999 :6381"), Some(Redirect::Moved(node("seed", 6381))));
        assert_eq!(of("ASK 1 ::1:6381"), Some(Redirect::Ask(node("::1", 6381))));
        assert_eq!(of("TRYAGAIN Multiple keys request"), Some(Redirect::Wait));
        assert_eq!(of("CLUSTERDOWN The cluster is down"), Some(Redirect::Wait));
        for other in ["MOVED", "MOVED 1 x", "ERR x", "WRONGTYPE x"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn slots_are_read_and_odd_entries_left_out() {
        let reply = "*3\r\n*3\r\n:0\r\n:5460\r\n*3\r\n$9\r\n127.0.0.1\r\n:7001\r\n$2\r\nid\r\n\
                     *3\r\n:5461\r\n:16383\r\n*2\r\n$0\r\n\r\n:7002\r\n:5\r\n";
        let slots = redis::parse_redis_value(reply.as_bytes()).unwrap();
        let ranges = parse_slots(&slots, "seed");
        let nodes: Vec<_> = ranges.iter().map(|range| range.node.clone()).collect();
        assert_eq!(nodes, [("127.0.0.1".to_owned(), 7001), ("seed".to_owned(), 7002)]);
        assert_eq!((ranges[1].first, ranges[1].last), (5461, 16383));
        assert_eq!(parse_slots(&Value::Nil, "seed"), []);
    }
}
