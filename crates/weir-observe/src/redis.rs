//! What a Redis says of itself, in the advisor's words.

use weir_advisor::observation::{Fact, Missing, Obstacle, Persistence, RedisServer, SlowCommand};
use weir_base::clock::Timestamp;
use weir_sidekiq::{ForeignKeys, Read, Refusal, ServerLook, SidekiqError, Snapshot};

/// Fewer keys than this say nothing of what a Redis is used for.
const SAMPLED_MIN: u64 = 50;

/// One server, from a look at everything.
pub(crate) fn server(name: &str, snapshot: &Snapshot) -> Fact<RedisServer> {
    let Some(read) = &snapshot.server else { return Fact::NotAsked };
    known(read, "what Redis says of itself", |look| RedisServer {
        name: name.to_owned(),
        used_memory_bytes: look.used_memory_bytes,
        system_memory_bytes: look.system_memory_bytes,
        maxmemory_bytes: look.maxmemory_bytes,
        maxmemory_policy: look.maxmemory_policy.clone(),
        evicted_keys: look.evicted_keys,
        persistence: persistence(look),
        latest_fork: look.latest_fork,
        slow_commands: known(&look.slow_commands, "Redis' slow log", |slow| {
            slow.iter().map(|it| slow_command(it, snapshot.at)).collect()
        }),
        cache_like_share: match &snapshot.foreign_keys {
            None => Fact::NotAsked,
            Some(keys) => known(keys, "who else uses this Redis", cache_like_share),
        },
    })
}

fn persistence(look: &ServerLook) -> Persistence {
    Persistence {
        append_only: look.append_only,
        // Without it, what matters is whether the append-only file is on, which INFO tells.
        snapshots: look.snapshots.as_ref().ok().copied(),
        last_snapshot_ok: look.last_snapshot_ok,
        last_append_ok: look.last_append_ok,
        changes_since_snapshot: look.changes_since_snapshot,
    }
}

fn slow_command(slow: &weir_sidekiq::SlowCommand, now: Timestamp) -> SlowCommand {
    SlowCommand { command: slow.command.clone(), took: slow.took, age: now.since(slow.at) }
}

fn cache_like_share(keys: &ForeignKeys) -> f64 {
    if keys.sampled < SAMPLED_MIN { 0.0 } else { keys.expiring as f64 / keys.sampled as f64 }
}

/// A part that was read, or why it was not.
pub(crate) fn known<T, U>(read: &Read<T>, what: &str, map: impl FnOnce(&T) -> U) -> Fact<U> {
    match read {
        Ok(value) => Fact::Known(map(value)),
        Err(refusal) => Fact::Unknown(refused(what, refusal)),
    }
}

fn refused(what: &str, refusal: &Refusal) -> Missing {
    let Refusal { command, reason, grant } = refusal;
    let obstacle = if grant.is_some() { Obstacle::NotAllowed } else { Obstacle::NotSupported };
    let remedy = grant.as_ref().map(|grant| format!("ACL SETUSER the user that asks {grant}"));
    Missing { what: what.to_owned(), obstacle, reason: format!("{command}: {reason}"), remedy }
}

/// A Redis of which nothing is known.
pub(crate) fn unreachable(what: &str, error: &SidekiqError) -> Missing {
    let (what, reason) = (what.to_owned(), error.to_string());
    match error {
        SidekiqError::Refused { grant, .. } => {
            let remedy = Some(format!("ACL SETUSER the user that asks {grant}"));
            Missing { what, obstacle: Obstacle::NotAllowed, reason, remedy }
        }
        _ => Missing { what, obstacle: Obstacle::Unreachable, reason, remedy: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_told_from_few_keys_and_from_keys_that_stay() {
        let share = |sampled, foreign, expiring| {
            cache_like_share(&ForeignKeys { sampled, foreign, expiring })
        };
        assert_eq!(share(100, 90, 60), 0.6);
        assert_eq!(share(100, 90, 0), 0.0);
        assert_eq!(share(49, 49, 49), 0.0);
    }

    #[test]
    fn who_is_not_allowed_is_told_how_to_be() {
        let grant = Some("+zcard".to_owned());
        let refusal = Refusal { command: "ZCARD".to_owned(), reason: "no".to_owned(), grant };
        let missing = refused("the retry set", &refusal);
        assert_eq!(missing.obstacle, Obstacle::NotAllowed);
        assert_eq!(missing.remedy.as_deref(), Some("ACL SETUSER the user that asks +zcard"));
        let missing = refused("the retry set", &Refusal { grant: None, ..refusal });
        assert_eq!((missing.obstacle, missing.remedy), (Obstacle::NotSupported, None));
    }
}
