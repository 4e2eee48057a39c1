//! Names of Sidekiq's keys.

pub(crate) const QUEUES: &str = "queues";
pub(crate) const PROCESSES: &str = "processes";
/// Only used by Sidekiq Pro.
pub(crate) const PAUSED: &str = "paused";
pub(crate) const SCHEDULED: &str = "schedule";
pub(crate) const RETRIES: &str = "retry";
pub(crate) const DEAD: &str = "dead";
pub(crate) const PROCESSED: &str = "stat:processed";
pub(crate) const FAILED: &str = "stat:failed";

/// The count of one day in UTC (`2026-11-30`), of [`PROCESSED`] or [`FAILED`].
pub(crate) fn of_day(count: &str, date: &str) -> String {
    format!("{count}:{date}")
}

/// Written by Weir's nodes with the usual prefix: what they wait for before they acknowledge a push.
pub(crate) const PUSH_CONFIRMATION: &str = "weir:confirm";

/// Formats the value of [`PUSH_CONFIRMATION`].
pub(crate) fn push_confirmation(disk: bool, replicas: u64) -> String {
    format!("{} {replicas}", if disk { "disk" } else { "memory" })
}

/// Parses it: whether pushes wait for the disk, and for how many replicas.
pub(crate) fn parse_push_confirmation(text: &str) -> Option<(bool, u64)> {
    let (place, replicas) = text.split_once(' ')?;
    Some((place == "disk", replicas.parse().ok()?))
}

pub(crate) fn queue(name: &str) -> String {
    format!("queue:{name}")
}

/// Returns the queue whose list is `key`.
pub(crate) fn queue_name(key: &str) -> Option<&str> {
    key.strip_prefix("queue:").filter(|name| !name.is_empty())
}

/// Keys of the jobs in progress: Sidekiq 7 and later, and earlier versions.
pub(crate) fn work(identity: &str) -> [String; 2] {
    [format!("{identity}:work"), format!("{identity}:workers")]
}

/// Reports whether `key` belongs to Sidekiq or one of its gems.
pub(crate) fn is_own(key: &str) -> bool {
    const NAMES: [&str; 7] = [QUEUES, PROCESSES, PAUSED, SCHEDULED, RETRIES, DEAD, "dear-leader"];
    const PREFIXES: [&str; 8] =
        ["queue:", "stat:", "j|", "h|", "b-", "uniquejobs", "sidekiq", "cron_job"];
    const SUFFIXES: [&str; 3] = [":work", ":workers", "-signals"];
    NAMES.contains(&key)
        || PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| key.ends_with(suffix))
        || is_identity(key)
}

/// Returns the prefix of `redis-namespace` before one of the keys that every Sidekiq has.
pub(crate) fn namespace(key: &str) -> Option<&str> {
    // Resque uses the same key names under its own prefix.
    const OTHERS: [&str; 1] = ["resque"];
    let prefix = [QUEUES, PROCESSES, PROCESSED]
        .into_iter()
        .find_map(|name| key.strip_suffix(name)?.strip_suffix(':'))?;
    Some(prefix).filter(|prefix| !prefix.is_empty() && !OTHERS.contains(prefix))
}

/// Reports whether `key` is an identity: `host:pid:<12 hex>`.
fn is_identity(key: &str) -> bool {
    let mut parts = key.rsplitn(3, ':');
    let (nonce, pid, host) = (parts.next(), parts.next(), parts.next());
    let hex = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    nonce.is_some_and(hex) && pid.is_some_and(|pid| pid.parse::<u32>().is_ok()) && host.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pushes_wait_for_is_read_as_it_was_written() {
        for (disk, replicas) in [(false, 0), (true, 0), (true, 2)] {
            let text = push_confirmation(disk, replicas);
            assert_eq!(parse_push_confirmation(&text), Some((disk, replicas)));
        }
        assert_eq!(parse_push_confirmation("x"), None);
    }

    #[test]
    fn sidekiqs_keys_are_told_from_others() {
        for own in [
            "queue:pull",
            "stat:failed:2026-11-22",
            "retry",
            "web-1:4711:0123456789ab",
            "web-1:4711:0123456789ab:work",
            "web-1:4711:0123456789ab-signals",
            "j|20261122|7:45",
        ] {
            assert!(is_own(own), "{own}");
        }
        for (key, expected) in [
            ("shop:queues", Some("shop")),
            ("shop:live:processes", Some("shop:live")),
            ("shop:stat:processed", Some("shop")),
            ("resque:queues", None),
            (":queues", None),
            ("queues", None),
            ("shop:queue:default", None),
        ] {
            assert_eq!(namespace(key), expected, "{key}");
        }
        for other in ["feed:home:1", "cache:views/1", "a:b:c", "web:x:0123456789ab", "queued"] {
            assert!(!is_own(other), "{other}");
        }
    }
}
