//! The reply in place of that of a cluster's node that can't be used.

use redis::{RedisError, RedisResult, Value};

/// The code of the error.
pub(crate) const AWAY: &str = "WEIRNODEAWAY";

/// Returns the reply of a node that is away.
pub(crate) fn away(text: &str) -> Value {
    let line = format!("-{AWAY} {}\r\n", text.replace(['\r', '\n'], " "));
    redis::parse_redis_value(line.as_bytes()).unwrap_or(Value::Nil)
}

pub(crate) fn away_of(error: &RedisError) -> Value {
    away(&error.to_string())
}

/// Returns whether nothing was sent to the node.
pub(crate) fn is_away(reply: &RedisResult<Value>) -> bool {
    matches!(reply, Ok(Value::ServerError(error)) if error.code() == AWAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_away_is_an_error_of_one_line() {
        let Value::ServerError(error) = away("a\r\nb") else { panic!("no error") };
        assert_eq!((error.code(), error.details()), (AWAY, Some("a  b")));
    }
}
