//! Commands that Redis rejects for now, without executing them, on a connection that works: their slot is
//! being moved, or Redis accepts no writes. Their user tries again later.

use std::time::Duration;

use redis::{FromRedisValue, RedisError, RedisResult, Value};
use weir_redis::RedisErrorKind;

/// Time until the next attempt. A missing event is still delivered within two seconds.
pub(crate) const RETRY: Duration = Duration::from_millis(250);

/// Returns whether the command may succeed later on the same connection.
pub(crate) fn is_rejected(error: &RedisError) -> bool {
    use RedisErrorKind::{Misconf, NoReplicas, OutOfMemory, SlotUnavailable};
    let kind = RedisErrorKind::of(error, "");
    matches!(kind, SlotUnavailable | OutOfMemory | Misconf | NoReplicas)
}

/// Returns the result of a command. `None`: it is rejected for now.
pub(crate) fn unless_rejected<T>(result: RedisResult<T>) -> RedisResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_rejected(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads one reply of a pipeline that ignores errors. `None`: the command is rejected for now.
pub(crate) fn accepted<T: FromRedisValue>(reply: Value) -> RedisResult<Option<T>> {
    let value = unless_rejected(reply.extract_error())?;
    Ok(value.map(redis::from_redis_value).transpose()?)
}
