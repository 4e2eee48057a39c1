//! Which of Redis' commands read keys, write them or run scripts. Others (`INFO`, `PING`, `EXEC`,
//! ..) are neither.

use weir_jobs::metrics::CommandKind;

/// Separated by spaces.
const READS: &str = "\
    bitcount bitfield_ro bitpos dbsize dump exists expiretime get getbit getrange hexists \
    hget hgetall hkeys hlen hmget hrandfield hscan hstrlen hvals keys lindex llen lpos \
    lrange mget pfcount pttl randomkey scan scard sdiff sinter sintercard sismember smembers \
    smismember srandmember sscan strlen sunion ttl type xlen xrange xread xrevrange zcard \
    zcount zmscore zrange zrangebyscore zrank zrevrange zrevrangebyscore zrevrank zscan \
    zscore";

/// Separated by spaces.
const WRITES: &str = "\
    append bitfield bitop blmove blpop brpop brpoplpush bzpopmax bzpopmin copy decr decrby \
    del expire expireat flushall flushdb getdel getex getset hdel hincrby hincrbyfloat hmset \
    hset hsetnx incr incrby incrbyfloat linsert lmove lmpop lpop lpush lpushx lrem lset \
    ltrim mset msetnx persist pexpire pexpireat pfadd psetex rename renamenx restore rpop \
    rpoplpush rpush rpushx sadd sdiffstore set setbit setex setnx setrange sinterstore smove \
    sort spop srem sunionstore unlink xack xadd xdel xgroup|create xtrim zadd zincrby \
    zinterstore zmpop zpopmax zpopmin zrangestore zrem zremrangebylex zremrangebyrank \
    zremrangebyscore zunionstore";

const SCRIPTS: &str = "eval eval_ro evalsha evalsha_ro fcall fcall_ro";

/// Returns the kind of a command by its name in `INFO commandstats`.
pub(super) fn kind_of(name: &str) -> CommandKind {
    let is_in = |names: &str| names.split(' ').any(|it| it == name);
    if is_in(READS) {
        CommandKind::Read
    } else if is_in(WRITES) {
        CommandKind::Write
    } else if is_in(SCRIPTS) {
        CommandKind::Script
    } else {
        CommandKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_the_store_have_their_kind() {
        for (name, kind) in [
            ("rpop", CommandKind::Write),
            ("zremrangebyrank", CommandKind::Write),
            ("hget", CommandKind::Read),
            ("smembers", CommandKind::Read),
            ("evalsha", CommandKind::Script),
            ("config|get", CommandKind::Other),
            ("", CommandKind::Other),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }
}
