//! Checks reports for arbitrary observations: whatever the sources return, no printed line does harm and no
//! figure is nonsense. The observations need not be consistent, as samples of a changing system are not.

mod facts;
mod servers;
mod sidekiq;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use self::facts::fact;
use crate::action::{Action, Assignment, LineChange};
use crate::advice::{Advice, advise};
use crate::finding::Finding;
use crate::flow::Drain;
use crate::observation::{Fact, Observation, ProcessPresence, ShardJobs, SidekiqObservation};
use crate::rules::RULES;
use crate::{contradictions, placeholders};

prop_compose! {
    fn any_observation()(
        jobs in (fact(sidekiq::any_jobs()), fact(sidekiq::any_jobs())),
        redis in (fact(servers::any_redis("127.0.0.1:6379")), fact(servers::any_redis("mymaster (Sentinel)"))),
        is_sharded in proptest::bool::weighted(0.15),
        postgres in fact(servers::any_postgres()),
        access in proptest::option::of(servers::any_access()),
        (machine, programs) in (fact(servers::any_machine()), servers::any_programs()),
        cpu_limits in servers::any_cpu_limits(),
        services in fact(servers::any_services()),
        pooler in servers::any_pooler(),
        pushed_queues in fact(sidekiq::any_names()),
        goodput in fact(sidekiq::any_goodput()),
        requests in fact(sidekiq::any_requests()),
        own_findings in fact(sidekiq::any_own_findings()),
    ) -> Observation {
        let (pooler, pgbouncer) = pooler;
        let mut observation = Observation {
            jobs: jobs.0.clone(),
            redis: vec![redis.0],
            postgres,
            postgres_access: access,
            machine,
            programs,
            cpu_limits,
            services,
            pooler,
            pgbouncer,
            pushed_queues,
            goodput,
            requests,
            own_findings,
            ..Observation::default()
        };
        if is_sharded {
            observation.redis.push(redis.1);
            let shard = |name: &str, jobs| ShardJobs { name: name.to_owned(), jobs };
            observation.shards = vec![shard("a:1", jobs.0), shard("b:2", jobs.1)];
        }
        observation
    }
}

/// Returns everything that is printed of a finding.
fn texts(finding: &Finding) -> Vec<&str> {
    let Finding { subject, evidence, consequence, actions, .. } = finding;
    let lines = actions.iter().filter_map(Action::line_change);
    let lines = lines.flat_map(|it| [it.place.as_str(), it.line.as_str()]);
    let next = actions.iter().filter_map(Action::next_step);
    let words = [subject, evidence, consequence].map(String::as_str);
    words.into_iter().chain(lines).chain(next).collect()
}

fn has_sane_figures(text: &str) -> bool {
    let words = || text.split(|it: char| it.is_whitespace() || "(),;:".contains(it));
    let is_negative = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
    };
    !words().any(|word| ["NaN", "inf", "-inf", "infinity"].contains(&word) || is_negative(word))
        && !text.contains("NaN")
        && !text.contains(" ()")
}

/// Which process serves which queues, by process and capsule.
type Served = BTreeMap<(String, String), Vec<String>>;

/// Returns the queues of the processes that were seen running.
fn served(jobs: &SidekiqObservation) -> Served {
    let seen =
        |it: &&crate::observation::JobProcess| it.presence == ProcessPresence::Seen && !it.quiet;
    let mut served = Served::new();
    for process in jobs.processes.iter().filter(seen) {
        for capsule in &process.capsules {
            let names = capsule.queues.iter().map(|it| it.name.clone()).collect();
            served.insert((process.identity.clone(), capsule.name.clone()), names);
        }
    }
    served
}

fn apply<'a>(served: &mut Served, assignments: impl Iterator<Item = &'a Assignment>) {
    for assignment in assignments {
        match assignment {
            Assignment::Queues { process, capsule, queues } => {
                let key = (process.clone(), capsule.clone());
                served.entry(key).and_modify(|it| it.clone_from(queues));
            }
            Assignment::Stop { process } => served.retain(|(it, _), _| it != process),
            Assignment::Start { .. } => {}
        }
    }
}

fn names(served: &Served) -> BTreeSet<&str> {
    served.values().flatten().map(String::as_str).collect()
}

/// Checks that each queue keeps a process, whether one line is typed or all of them.
fn leaves_no_queue_unserved(
    jobs: &SidekiqObservation,
    findings: &[&Finding],
) -> Result<(), TestCaseError> {
    let before = served(jobs);
    let mut all = before.clone();
    for finding in findings {
        let mut alone = before.clone();
        apply(&mut alone, finding.assignments());
        apply(&mut all, finding.assignments());
        prop_assert!(names(&before).is_subset(&names(&alone)), "{finding:?}");
        prop_assert!(names(&before).is_subset(&names(&all)), "{finding:?}");
    }
    Ok(())
}

fn check_queues(observation: &Observation, advice: &Advice) -> Result<(), TestCaseError> {
    for (shard, jobs) in observation.each_jobs() {
        let own = advice.findings.iter().filter(|it| it.shard.as_deref() == shard);
        let own: Vec<&Finding> = own.collect();
        if let Some(jobs) = jobs.known() {
            leaves_no_queue_unserved(jobs, &own)?;
        }
    }
    for finding in &advice.findings {
        let line = finding.line_change().map_or("", |it| it.line.as_str());
        let is_about_queues = line.contains("-q ") || line.contains("cap.queues");
        prop_assert!(!is_about_queues || finding.assignments().next().is_some(), "{finding:?}");
    }
    Ok(())
}

/// Checks that each setting has one value in the whole report, and returns them all.
fn check_settings(advice: &Advice) -> Result<BTreeMap<String, String>, TestCaseError> {
    let mut set: BTreeMap<String, String> = BTreeMap::new();
    for (setting, value) in advice.findings.iter().flat_map(contradictions::values) {
        let before = set.entry(setting.clone()).or_insert_with(|| value.clone());
        prop_assert_eq!(&*before, &value, "{}", setting);
    }
    Ok(set)
}

/// Parses "150mb", "2GB", "8192kB" or a plain number.
fn number(value: &str) -> Option<u64> {
    let value = value.trim_end_matches(';').trim_matches('\'');
    let digits = value.find(|it: char| !it.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "kb" => 1 << 10,
        "mb" => 1 << 20,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns the known limit of a setting, in its unit.
fn limit(observation: &Observation, setting: &str) -> Option<u64> {
    let postgres = observation.postgres.known();
    let name = setting.split(' ').next()?;
    match name {
        "maxmemory" => {
            let named = |it: &&crate::observation::RedisServer| {
                it.name.split(':').next().is_some_and(|host| setting.contains(host))
            };
            let server = observation.redis.iter().filter_map(Fact::known).find(named)?;
            Some(server.info.system_memory_bytes)
                .filter(|it| *it > 0)
                .map(|it| it.saturating_add(1 << 20))
        }
        "shared_buffers" | "effective_cache_size" => {
            let host = postgres?.host.known()?;
            // Values are rounded to 16 MB, also in a share that is hardly larger.
            Some(host.memory_bytes.max(host.share_bytes).saturating_add(16 << 20))
        }
        "max_db_connections" => Some(u64::from(postgres?.settings.known()?.usable_connections())),
        _ if setting.contains("CONNECTION LIMIT") => {
            Some(u64::from(postgres?.settings.known()?.usable_connections()))
        }
        _ => None,
    }
}

fn check_limits(
    observation: &Observation,
    set: &BTreeMap<String, String>,
) -> Result<(), TestCaseError> {
    for (setting, value) in set {
        let Some(value) = number(value) else { continue };
        if let Some(most) = limit(observation, setting) {
            prop_assert!(value <= most, "{setting} = {value}, of at most {most}");
        }
        let is_count =
            ["threads ", "DB_POOL ", "MAX_THREADS "].iter().any(|it| setting.starts_with(it));
        prop_assert!(!is_count || value > 0, "{setting} = {value}");
    }
    Ok(())
}

/// Checks that a forecast is given only for a queue that was sampled twice, while its rates mean something.
fn check_forecasts(observation: &Observation, advice: &Advice) -> Result<(), TestCaseError> {
    const SIGNS: [&str; 3] = ["will be empty in", "never drain", "It is growing"];
    let verdict = advice.verdict.to_string();
    let known: Vec<&SidekiqObservation> =
        observation.each_jobs().filter_map(|(_, jobs)| jobs.known()).collect();
    let has_flow =
        |jobs: &&SidekiqObservation| jobs.queues.iter().any(|it| it.flow.known().is_some());
    if !known.iter().any(has_flow) {
        let is_forecast = advice.verdict.growing.iter().any(|it| it.starts_with("queue"));
        prop_assert!(!verdict.contains("will be empty") && !is_forecast, "{verdict}");
        prop_assert!(!matches!(advice.verdict.drain, Some(Drain::After(_) | Drain::Grows)));
    }
    if known.iter().any(|jobs| jobs.most_fail()) && observation.shards.is_empty() {
        prop_assert!(!matches!(advice.verdict.drain, Some(Drain::After(_))), "{verdict}");
    }
    for finding in advice.findings.iter().filter(|it| it.rule == "backlog") {
        let jobs = observation.each_jobs().find(|(shard, _)| *shard == finding.shard.as_deref());
        let jobs = jobs.and_then(|(_, jobs)| jobs.known()).expect("a backlog is of known jobs");
        let queue = jobs.queues.iter().find(|it| finding.is_about(&format!("queue {}", it.name)));
        let was_sampled_twice = queue.is_some_and(|it| it.flow.known().is_some());
        let is_forecast = SIGNS.iter().any(|sign| finding.consequence.contains(sign));
        prop_assert!(was_sampled_twice || !is_forecast, "{finding:?}");
    }
    Ok(())
}

/// Checks each rule without the guard, which would change such actions, and their sum with it.
fn check_actions(observation: &Observation, advice: &Advice) -> Result<(), TestCaseError> {
    let asked = observation.sidekiqs();
    let asked = || std::iter::once(observation).chain(asked.iter().map(|it| &*it.observation));
    for finding in RULES.iter().flat_map(|rule| asked().flat_map(rule.check)) {
        for literal in finding.actions.iter().filter_map(Action::literal) {
            prop_assert!(!placeholders::has_one(literal), "{finding:?}");
        }
    }
    let lines = advice.findings.iter().flat_map(|it| &it.actions).filter_map(Action::line_change);
    let counts = |it: &&LineChange| it.serves.is_empty() || observation.sidekiq_needs_slots();
    let added = lines.filter(counts).map(|it| it.connections_added).fold(0, u32::saturating_add);
    prop_assert!(observation.free_slots().is_none_or(|free| added <= free), "{added}");
    Ok(())
}

fn check_texts(advice: &Advice) -> Result<(), TestCaseError> {
    let mut said = BTreeSet::new();
    for finding in &advice.findings {
        for text in texts(finding) {
            prop_assert!(has_sane_figures(text), "{text}");
        }
        prop_assert!(!finding.evidence.is_empty() && !finding.subject.is_empty(), "{finding:?}");
        let line = finding.line_change().map_or("", |it| it.line.as_str());
        let is_new = said.insert((&finding.rule, &finding.subject, &finding.evidence, line));
        prop_assert!(is_new, "said twice: {finding:?}");
    }
    prop_assert!(has_sane_figures(&advice.verdict.to_string()), "{}", advice.verdict);
    Ok(())
}

proptest! {
    // Enough for each kind of finding to occur, in some seconds.
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_line_of_a_report_does_harm_whatever_was_observed(observation in any_observation()) {
        let advice = advise(&observation);
        check_texts(&advice)?;
        check_queues(&observation, &advice)?;
        check_actions(&observation, &advice)?;
        let set = check_settings(&advice)?;
        check_limits(&observation, &set)?;
        check_forecasts(&observation, &advice)?;
    }
}

#[test]
fn the_checks_find_what_they_are_for() {
    for text in ["NaN/s", "rate inf", "-3 jobs", "job () for", "(-1 s)"] {
        assert!(!has_sane_figures(text), "{text}");
    }
    for text in ["redis-cli -h a -p 6379 INFO", "10 s", "-c 5", "volatile-lru, 0 keys"] {
        assert!(has_sane_figures(text), "{text}");
    }
    assert_eq!(number("150mb"), Some(150 << 20));
    assert_eq!(number("'2GB'"), Some(2 << 30));
    assert_eq!(number("5;"), Some(5));
}
