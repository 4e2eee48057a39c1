//! The Redis is a replica, but Sidekiq needs a master: a replica rejects writes (READONLY), or keeps them to itself.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Master, Observation, RedisServer, SidekiqObservation};

pub(crate) const NAME: &str = "redis-replica";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().zip(observation.each_jobs());
    let of = |(server, (_, jobs)): (&Fact<RedisServer>, (_, &Fact<SidekiqObservation>))| {
        found(observation, server.known()?, jobs.known())
    };
    servers.filter_map(of).collect()
}

fn found(
    observation: &Observation,
    redis: &RedisServer,
    jobs: Option<&SidekiqObservation>,
) -> Option<Finding> {
    let master = redis.info.replica_of.as_ref()?;
    let Master { address, is_linked, is_read_only, .. } = master;
    if !is_read_only {
        return Some(writable(&redis.name, address));
    }
    // Heartbeats on a replica come from its master's clients. Processes connected to the replica
    // cannot write any.
    let is_alive = jobs.is_some_and(|jobs| !jobs.processes.is_empty());
    let (severity, link) = match (is_alive, is_linked) {
        (true, true) => (Severity::Notice, ""),
        (true, false) => (Severity::Warning, ", which it cannot reach"),
        (false, _) => (Severity::Critical, " and no Sidekiq process has a heartbeat in it"),
    };
    let evidence = format!("it is a replica of {address}{link}");
    let finding = Finding::new(NAME, severity, format!("Redis {}", redis.name), evidence)
        .since(master.link_down_for.unwrap_or_default(), "master_link_down_since_seconds in INFO")
        .leads_to(
            "A replica rejects every write (READONLY): a Sidekiq that uses it can neither push nor \
             fetch. The data shown here is what the master had.",
        );
    let database = match redis.database {
        0 => String::new(),
        number => format!("/{number}"),
    };
    // Processes with heartbeats use the master.
    let place = match is_alive {
        true => "the address of Redis for doctor, and in Sidekiq (REDIS_URL) if it uses this one",
        false => "the address of Redis in Sidekiq (REDIS_URL) and for doctor",
    };
    Some(finding.change_and_restart(
        place,
        format!("{}{address}{database}", observation.redis_scheme(&redis.name)),
    ))
}

/// Reports a replica with `replica-read-only no`. Suggests no move to the master, which still has the
/// jobs that ran here.
fn writable(name: &str, address: &str) -> Finding {
    let evidence =
        format!("it is a replica of {address} that accepts writes (replica-read-only no)");
    Finding::new(NAME, Severity::Critical, format!("Redis {name}"), evidence).leads_to(
        "What Sidekiq changes here does not reach the master, and a resynchronization undoes it. \
         Jobs that ran here may still wait on the master: a Sidekiq that is moved there runs them \
         again.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::RedisAccess;

    #[test]
    fn a_replica_is_as_bad_as_what_does_not_get_there() {
        for (is_alive, is_linked, expected) in [
            (true, true, Severity::Notice),
            (true, false, Severity::Warning),
            (false, true, Severity::Critical),
        ] {
            let mut observation = healthy::observation();
            let address = "10.0.0.5:6380".to_owned();
            let redis = observation.redis[0].known_mut();
            (redis.info.replica_of, redis.database) =
                (Some(Master { address, is_linked, is_read_only: true, ..Master::default() }), 2);
            if !is_alive {
                observation.jobs.known_mut().processes.clear();
            }
            let finding = check(&observation).remove(0);
            assert_eq!(finding.severity, expected);
            assert_eq!(finding.line_change().unwrap().line, "redis://10.0.0.5:6380/2");
        }
        assert_eq!(check(&healthy::observation()), []);
    }

    #[test]
    fn the_jobs_of_a_writable_replica_are_not_moved_to_its_master() {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        let address = "10.0.0.5:6380".to_owned();
        redis.info.replica_of =
            Some(Master { address, is_linked: true, is_read_only: false, ..Master::default() });
        assert_eq!(redis.refuses_writes(), None);
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.line_change()), (Severity::Critical, None));
    }

    #[test]
    fn behind_tls_the_master_is_named_with_tls() {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        let address = "10.0.0.5:6380".to_owned();
        redis.info.replica_of =
            Some(Master { address, is_linked: true, is_read_only: true, ..Master::default() });
        let (name, user) = (redis.name.clone(), Some("weir".to_owned()));
        observation.redis_access =
            vec![RedisAccess { name, tls: true, user, ..RedisAccess::default() }];
        let finding = check(&observation).remove(0);
        assert_eq!(finding.line_change().unwrap().line, "rediss://weir@10.0.0.5:6380");
    }
}
