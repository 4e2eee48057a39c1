//! Who may open connections to the database.

use std::collections::BTreeMap;

use weir_advisor::observation::{Fact, JobProcess, Jobs, Service};

/// Sidekiq's processes as their heartbeats tell them, and `given`; what is given wins. Unknown as long
/// as nobody is known: a sum without everybody is still the least.
pub(crate) fn services(given: &[Service], jobs: Option<&Jobs>) -> Fact<Vec<Service>> {
    let mut services = given.to_vec();
    let seen = jobs.map(sidekiq).unwrap_or_default();
    let is_given = |service: &Service| given.iter().any(|it| it.name == service.name);
    services.extend(seen.into_iter().filter(|service| !is_given(service)));
    if services.is_empty() { Fact::NotAsked } else { Fact::Known(services) }
}

/// Names of the processes of this machine, by their numbers.
pub(crate) fn names(jobs: Option<&Jobs>, local: &BTreeMap<String, u32>) -> BTreeMap<u32, String> {
    let Some(jobs) = jobs else { return BTreeMap::new() };
    let of = |process: &JobProcess| Some((*local.get(&process.identity)?, name(process)));
    jobs.processes.iter().filter_map(of).collect()
}

/// A pool is as large as there are threads, unless `DB_POOL` says otherwise.
fn sidekiq(jobs: &Jobs) -> Vec<Service> {
    let mut services: Vec<Service> = Vec::new();
    for process in &jobs.processes {
        let (name, pool) = (name(process), process.concurrency());
        match services.iter_mut().find(|it| it.name == name && it.pool == pool) {
            Some(service) => service.processes = service.processes.saturating_add(1),
            None => services.push(Service { name, processes: 1, pool, set_by: "-c ".to_owned() }),
        }
    }
    services
}

/// "sidekiq push": by the queue that stands first.
fn name(process: &JobProcess) -> String {
    let first = process.served().next();
    first.map_or_else(|| "sidekiq".to_owned(), |queue| format!("sidekiq {queue}"))
}

#[cfg(test)]
mod tests {
    use weir_advisor::observation::{Capsule, WeightedQueue};

    use super::*;

    fn process(identity: &str, concurrency: u32, queue: &str) -> JobProcess {
        let queues = vec![WeightedQueue { name: queue.to_owned(), weight: 0 }];
        let capsules = vec![Capsule { concurrency, queues, ..Capsule::default() }];
        JobProcess { identity: identity.to_owned(), capsules, ..JobProcess::default() }
    }

    fn jobs() -> Jobs {
        let processes =
            vec![process("a", 25, "push"), process("b", 25, "push"), process("c", 5, "mailers")];
        Jobs { processes, ..Jobs::default() }
    }

    fn service(name: &str, processes: u32, pool: u32, set_by: &str) -> Service {
        Service { name: name.to_owned(), processes, pool, set_by: set_by.to_owned() }
    }

    #[test]
    fn heartbeats_tell_pools_and_what_is_given_wins() {
        let given =
            [service("web", 2, 5, "DB_POOL="), service("sidekiq mailers", 1, 50, "DB_POOL=")];
        let services = services(&given, Some(&jobs()));
        let [web, mailers] = given;
        let expected = vec![web, mailers, service("sidekiq push", 2, 25, "-c ")];
        assert_eq!(services, Fact::Known(expected));
        assert_eq!(super::services(&[], None), Fact::NotAsked);
    }

    #[test]
    fn only_processes_of_this_machine_have_numbers_here() {
        let local = BTreeMap::from([("c".to_owned(), 7)]);
        let expected = BTreeMap::from([(7, "sidekiq mailers".to_owned())]);
        assert_eq!(names(Some(&jobs()), &local), expected);
    }
}
