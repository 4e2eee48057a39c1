//! Converts the status of a Redis to the advisor's types.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_advisor::durability::PushConfirmation;
use weir_advisor::observation::{
    CommandRate, Fact, Missing, MissingReason, Persistence, RedisInfo, RedisOperations,
    RedisServer, SlowCommand,
};
use weir_base::clock::Timestamp;
use weir_sidekiq::{
    Blocker, CommandSample, ConnectError, ForeignKeys, NetworkErrorKind, Read, RedisErrorKind,
    RedisSnapshot, RejectedCommand, ServerSample, SidekiqError, TlsErrorKind,
};

/// Smaller samples of keys do not show what a Redis is used for.
const SAMPLED_MIN: u64 = 50;
const FILES: &str = "check the paths of --redis-ca, --redis-cert and --redis-key (ca, cert and key \
                     in [[observe.redis]])";

/// Returns the server from a sample with all data.
pub(crate) fn server(name: &str, database: i64, snapshot: &RedisSnapshot) -> Fact<RedisServer> {
    let Some(read) = &snapshot.server else { return Fact::NotAsked };
    known(read, "the status of Redis", |sample| RedisServer {
        name: name.to_owned(),
        database,
        served_elsewhere: Vec::new(),
        info: RedisInfo {
            persistence: Persistence {
                append_fsync: sample.append_fsync,
                // If unknown, the state of the append-only file is decisive, which INFO reports.
                snapshots: sample.snapshots.as_ref().ok().copied(),
                folder_is_gone: sample.folder_is_gone,
                ..sample.info.persistence
            },
            ..sample.info.clone()
        },
        push_confirmation: sample
            .push_confirmation
            .map(|(disk, replicas)| PushConfirmation { disk, replicas }),
        namespaces: match &snapshot.foreign_keys {
            Some(Ok(keys)) => keys.namespaces.iter().cloned().collect(),
            Some(Err(_)) | None => Vec::new(),
        },
        lately: Fact::NotAsked,
        slow_commands: known(&sample.slow_commands, "Redis' slow log", |slow| {
            slow.iter().map(|it| slow_command(it, snapshot.at)).collect()
        }),
        has_more_slow_commands: sample.has_more_slow_commands,
        cache_like_share: match &snapshot.foreign_keys {
            None => Fact::NotAsked,
            Some(keys) => known(keys, "other users of this Redis", cache_like_share),
        },
    })
}

/// Returns the operations between two samples with all data. Unknown after a restart, which resets
/// the counters.
pub(crate) fn recent_operations(
    earlier: &RedisSnapshot,
    later: &RedisSnapshot,
) -> Fact<RedisOperations> {
    let sample = |snapshot: &RedisSnapshot| snapshot.server.clone()?.ok();
    let (Some(before), Some(now)) = (sample(earlier), sample(later)) else { return Fact::NotAsked };
    let window = later.at.since(earlier.at);
    if window.is_zero() || now.info.operations < before.info.operations {
        return Fact::NotAsked;
    }
    let seconds = window.as_secs_f64();
    let more = |of: fn(&RedisInfo) -> u64| of(&now.info).saturating_sub(of(&before.info));
    Fact::Known(RedisOperations {
        window,
        per_second: (now.info.operations - before.info.operations) as f64 / seconds,
        evicted_per_second: now.info.evicted_keys.saturating_sub(before.info.evicted_keys) as f64
            / seconds,
        commands: commands(&before, &now, window),
        cpu_share: cpu_share(&before.info, &now.info, window),
        rejected_connections: more(|it| it.rejected_connections),
        delayed_syncs: more(|it| it.delayed_syncs),
    })
}

/// Returns the share of one core that was used in between.
fn cpu_share(before: &RedisInfo, now: &RedisInfo, window: Duration) -> Option<f64> {
    let used = now.cpu_time.checked_sub(before.cpu_time).filter(|_| !before.cpu_time.is_zero())?;
    Some((used.as_secs_f64() / window.as_secs_f64()).min(1.0))
}

fn commands(before: &ServerSample, now: &ServerSample, window: Duration) -> Vec<CommandRate> {
    let (Ok(before), Ok(now)) = (&before.commands, &now.commands) else { return Vec::new() };
    let before: BTreeMap<&str, _> = before.iter().map(|it| (it.name.as_str(), it)).collect();
    let rate = |now: &CommandSample| {
        // A command missing in the earlier sample was below its limit, so the difference is
        // unknown.
        let before = before.get(now.name.as_str())?;
        let calls = now.calls.checked_sub(before.calls).filter(|calls| *calls > 0)?;
        let took = now.took.saturating_sub(before.took);
        Some(CommandRate {
            command: now.name.to_ascii_uppercase().replace('|', " "),
            per_second: calls as f64 / window.as_secs_f64(),
            mean: took.checked_div(u32::try_from(calls).unwrap_or(u32::MAX)).unwrap_or_default(),
            share: took.as_secs_f64() / window.as_secs_f64(),
        })
    };
    let mut rates: Vec<_> = now.iter().filter_map(rate).collect();
    rates.sort_by(|one, other| other.share.total_cmp(&one.share));
    rates
}

fn slow_command(slow: &weir_sidekiq::SlowCommand, now: Timestamp) -> SlowCommand {
    SlowCommand { command: slow.command.clone(), took: slow.took, age: now.since(slow.at) }
}

fn cache_like_share(keys: &ForeignKeys) -> f64 {
    if keys.sampled < SAMPLED_MIN { 0.0 } else { keys.expiring as f64 / keys.sampled as f64 }
}

/// Converts a part of a sample, or the reason why it is missing.
pub(crate) fn known<T, U>(read: &Read<T>, what: &str, map: impl FnOnce(&T) -> U) -> Fact<U> {
    match read {
        Ok(value) => Fact::Known(map(value)),
        Err(refusal) => Fact::Unknown(rejected(what, refusal)),
    }
}

pub(crate) fn rejected(what: &str, refusal: &RejectedCommand) -> Missing {
    let RejectedCommand { command, reason, grant } = refusal;
    let obstacle =
        if grant.is_some() { MissingReason::NotAllowed } else { MissingReason::NotSupported };
    let remedy = grant.clone();
    Missing { what: what.to_owned(), obstacle, reason: format!("{command}: {reason}"), remedy }
}

/// Returns why nothing is known of a Redis.
pub(crate) fn unreachable(what: &str, error: &SidekiqError) -> Missing {
    let (obstacle, reason, remedy) = match error {
        SidekiqError::Redis(error) => {
            (obstacle(&error.kind), error.description(), error.remedy().map(str::to_owned))
        }
        // A local error: the Redis was not contacted.
        SidekiqError::Connect(ConnectError::Certificate { .. }) => {
            (MissingReason::Login, error.to_string(), Some(FILES.to_owned()))
        }
        SidekiqError::Deadline { .. } => (MissingReason::Slow, error.to_string(), None),
        _ => (MissingReason::Unreachable, error.to_string(), None),
    };
    Missing { what: what.to_owned(), obstacle, reason, remedy }
}

const fn obstacle(kind: &RedisErrorKind) -> MissingReason {
    match kind {
        RedisErrorKind::ClientsExhausted => MissingReason::ClientsExhausted,
        RedisErrorKind::Busy(Blocker::Script) => MissingReason::Script,
        RedisErrorKind::Busy(Blocker::Function) => MissingReason::Function,
        RedisErrorKind::Loading => MissingReason::Loading,
        RedisErrorKind::MasterDown => MissingReason::MasterLost,
        RedisErrorKind::NoPermission { .. } => MissingReason::NotAllowed,
        RedisErrorKind::Network(NetworkErrorKind::Tls(TlsErrorKind::Other)) => {
            MissingReason::Unreachable
        }
        RedisErrorKind::AuthRequired
        | RedisErrorKind::WrongPassword
        | RedisErrorKind::Network(NetworkErrorKind::Tls(_)) => MissingReason::Login,
        _ => MissingReason::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_told_from_few_keys_and_from_keys_that_stay() {
        let share = |sampled, foreign, expiring| {
            cache_like_share(&ForeignKeys { sampled, foreign, expiring, ..ForeignKeys::default() })
        };
        assert_eq!(share(100, 90, 60), 0.6);
        assert_eq!(share(100, 90, 0), 0.0);
        assert_eq!(share(49, 49, 49), 0.0);
    }

    #[test]
    fn commands_of_two_samples_give_rates_and_shares_of_redis_time() {
        let command = |name: &str, calls, micros| CommandSample {
            name: name.to_owned(),
            calls,
            took: Duration::from_micros(micros),
        };
        let server = |commands| ServerSample { commands: Ok(commands), ..ServerSample::default() };
        let before = server(vec![
            command("get", 100, 1_000),
            command("brpop", 7, 70),
            command("idle", 5, 5),
        ]);
        let now = server(vec![
            command("config|get", 2, 90),
            command("get", 300, 11_000),
            command("brpop", 9, 10_070),
            command("idle", 5, 5),
        ]);
        let rates = commands(&before, &now, Duration::from_secs(10));
        let shown: Vec<_> = rates.iter().map(|it| (it.command.as_str(), it.per_second)).collect();
        assert_eq!(shown, [("GET", 20.0), ("BRPOP", 0.2)]);
        assert_eq!(rates[0].mean, Duration::from_micros(50));
        assert!((rates[0].share - 0.001).abs() < 1e-12);
    }

    #[test]
    fn who_is_not_allowed_is_told_how_to_be() {
        let grant = Some("ACL SETUSER weir +zcard".to_owned());
        let refusal =
            RejectedCommand { command: "ZCARD".to_owned(), reason: "no".to_owned(), grant };
        let missing = rejected("the retry set", &refusal);
        assert_eq!(missing.obstacle, MissingReason::NotAllowed);
        assert_eq!(missing.remedy.as_deref(), Some("ACL SETUSER weir +zcard"));
        let missing = rejected("the retry set", &RejectedCommand { grant: None, ..refusal });
        assert_eq!((missing.obstacle, missing.remedy), (MissingReason::NotSupported, None));
    }

    #[test]
    fn each_kind_of_error_has_its_reason() {
        for (kind, expected) in [
            (RedisErrorKind::Loading, MissingReason::Loading),
            (RedisErrorKind::Busy(Blocker::Function), MissingReason::Function),
            (RedisErrorKind::WrongPassword, MissingReason::Login),
            (RedisErrorKind::Network(NetworkErrorKind::Refused), MissingReason::Unreachable),
            (
                RedisErrorKind::Network(NetworkErrorKind::Tls(TlsErrorKind::WrongName)),
                MissingReason::Login,
            ),
            (RedisErrorKind::NoPermission { command: "SELECT".into() }, MissingReason::NotAllowed),
        ] {
            assert_eq!(obstacle(&kind), expected, "{kind:?}");
        }
    }

    #[test]
    fn a_missing_file_is_no_outage() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        let path = "/ca.pem".to_owned();
        let no_file = SidekiqError::Connect(ConnectError::Certificate { path, source });
        let missing = unreachable("Redis a:6379", &no_file);
        assert_eq!(missing.obstacle, MissingReason::Login);
        assert!(missing.remedy.unwrap().contains("--redis-ca"));
    }
}
