//! A Redis has nearly as many clients as it accepts.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer};
use crate::redis_settings;
use crate::wording::{count, number, percent};

pub(crate) const NAME: &str = "redis-clients";

/// A deploy starts new processes, each with a pool of connections, before it stops the old ones.
const SHARE_MIN: f64 = 0.8;
/// The default of `maxclients`. More clients than that are most likely connections that nobody closes.
const DEFAULT_MAX: u64 = 10_000;

/// Counts connections by address.
const BY_ADDRESS: &str = "CLIENT LIST | grep -o ' addr=[^:]*' | sort | uniq -c | sort -rn | head";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().filter_map(Fact::known);
    servers.filter_map(|redis| found(observation, redis)).collect()
}

fn found(observation: &Observation, redis: &RedisServer) -> Option<Finding> {
    let (clients, max) = (redis.info.clients, redis.info.clients_max);
    let rejected = redis.lately.known().map_or(0, |lately| lately.rejected_connections);
    let is_nearly_full = max > 0 && clients as f64 >= SHARE_MIN * max as f64;
    if !is_nearly_full && rejected == 0 {
        return None;
    }
    let severity = if rejected > 0 { Severity::Critical } else { Severity::Warning };
    let more = match rejected {
        0 => String::new(),
        _ => format!("; it rejected {}", number(rejected, "connection", "connections")),
    };
    let share = percent(clients as f64 / max.max(1) as f64);
    let evidence = match max {
        0 => format!("{}{more}", number(clients, "client is connected", "clients are connected")),
        _ => format!(
            "{}, {share} of maxclients ({}){more}",
            number(clients, "client is connected", "clients are connected"),
            count(max)
        ),
    };
    let finding = Finding::new(NAME, severity, format!("Redis {}", redis.name), evidence);
    Some(match max < DEFAULT_MAX {
        true => finding
            .leads_to(
                "Beyond it, Redis rejects every new connection: processes that start, and those that \
                 connect again, fail. The command sets Redis' default.",
            )
            .next(observation.redis_command(&redis.name, |cli| {
                redis_settings::set(cli, "maxclients", &DEFAULT_MAX.to_string())
            })),
        false => finding
            .leads_to(
                "Beyond it, Redis rejects every new connection. So many are most likely connections \
                 that a program opens and does not close: the command counts them by address.",
            )
            .next(observation.redis_command(&redis.name, |cli| format!("{cli} {BY_ADDRESS}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn with(clients: u64, max: u64, rejected: u64) -> Option<Finding> {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        (redis.info.clients, redis.info.clients_max) = (clients, max);
        redis.lately.known_mut().rejected_connections = rejected;
        check(&observation).pop()
    }

    #[test]
    fn most_of_the_clients_are_a_warning_and_rejected_ones_critical() {
        assert_eq!(with(79, 100, 0), None);
        assert_eq!(with(9, 0, 0), None, "Redis before 6.2 does not report it");
        let finding = with(80, 100, 0).unwrap();
        assert_eq!(finding.evidence, "80 clients are connected, 80 % of maxclients (100)");
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.next_step().unwrap().contains("CONFIG SET maxclients 10000 && "));
        let finding = with(10_000, 10_000, 3).unwrap();
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.evidence.ends_with("; it rejected 3 connections"));
        assert!(finding.next_step().unwrap().contains("CLIENT LIST | grep"));
    }
}
