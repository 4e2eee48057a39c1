//! A configured source is unreachable or rejects the observer.
//!
//! This rule is the first one, because without the source the other findings are incomplete.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Missing, MissingReason, Observation};

pub(crate) const NAME: &str = "unreachable";

/// Precedes the address of the console of a Weir, which is no source of jobs.
const WEIR: &str = "Weir ";
const NOTHING_KNOWN: &str = "Nothing is known about it: problems there are not reported.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let mut sources: Vec<&Missing> = Vec::new();
    for missing in whole(observation).filter(|it| severity(it.obstacle).is_some()) {
        // A source that failed after its first reply is missing only parts, such as its jobs.
        if !sources.iter().any(|said| said.what == missing.what) {
            sources.push(missing);
        }
    }
    sources.into_iter().filter_map(|missing| found(observation, missing)).collect()
}

/// Reports whether this rule handles `missing`.
pub(super) fn says(observation: &Observation, missing: &Missing) -> bool {
    severity(missing.obstacle).is_some() && whole(observation).any(|it| it == missing)
}

/// Returns the reasons for all configured sources that could not be read at all.
fn whole(observation: &Observation) -> impl Iterator<Item = &Missing> {
    let servers = observation.redis.iter().filter_map(Fact::missing);
    let jobs = observation.each_jobs().filter_map(|(_, jobs)| jobs.missing());
    // Other missing jobs are parts of a server that could be read.
    let jobs = jobs.filter(|it| it.what.starts_with("Redis "));
    let weir = observation.requests.missing();
    let database =
        observation.postgres.missing().into_iter().chain(observation.pgbouncer.missing());
    servers.chain(jobs).chain(database).chain(weir)
}

/// Returns the severity: critical for an unreachable source, which affects other clients as well,
/// and lower if only the observer is rejected. Unsupported features yield `None`.
const fn severity(obstacle: MissingReason) -> Option<Severity> {
    match obstacle {
        MissingReason::Unreachable | MissingReason::Slow => Some(Severity::Critical),
        MissingReason::Login | MissingReason::NotAllowed => Some(Severity::Warning),
        MissingReason::SlotsExhausted
        | MissingReason::LimitReached
        | MissingReason::ClientsExhausted
        | MissingReason::Script
        | MissingReason::Function
        | MissingReason::Loading
        | MissingReason::MasterLost
        | MissingReason::NotSupported => None,
    }
}

fn found(observation: &Observation, missing: &Missing) -> Option<Finding> {
    let severity = severity(missing.obstacle)?;
    // The subject already contains the name.
    let evidence = match missing.reason.strip_prefix(&missing.what) {
        Some(does) => format!("it{}", does.strip_prefix(':').unwrap_or(does)),
        None => missing.reason.clone(),
    };
    let consequence = match severity {
        Severity::Critical if missing.obstacle == MissingReason::Slow => {
            "Sidekiq and the application most likely wait as long for each command. The commands show \
             what was slow: events of the disk (aof-fsync-always, fork) or commands of a client."
        }
        Severity::Critical if missing.what.starts_with(WEIR) => NOTHING_KNOWN,
        Severity::Critical => {
            "Nothing is known about it. Other clients that use the same address and the same way, such \
             as Sidekiq and the application on this machine, most likely get no response either; a \
             wrong address or a firewall concerns doctor alone."
        }
        _ => NOTHING_KNOWN,
    };
    let finding =
        Finding::new(NAME, severity, missing.what.as_str(), evidence).leads_to(consequence);
    Some(match (&missing.remedy, missing.obstacle) {
        (Some(remedy), MissingReason::NotAllowed) => {
            finding.change("the source, as its administrator", remedy.as_str())
        }
        (Some(remedy), _) => finding.advise(remedy.as_str()),
        (None, MissingReason::Slow) => {
            let name = missing.what.strip_prefix("Redis ").unwrap_or(&missing.what);
            let slow = |cli: &str| format!("{cli} LATENCY LATEST && {cli} SLOWLOG GET 10");
            finding.next(observation.redis_command(name, slow))
        }
        (None, _) => finding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise;
    use crate::healthy;

    fn missing(what: &str, obstacle: MissingReason) -> Missing {
        Missing {
            what: what.to_owned(),
            obstacle,
            reason: format!("{what} does not respond (refused)"),
            remedy: Some("check that it is running".to_owned()),
        }
    }

    #[test]
    fn a_source_that_is_away_leads_the_verdict_whatever_else_is_wrong() {
        let mut observation = healthy::observation();
        let settings = observation.postgres.known_mut().settings.known_mut();
        settings.shared_buffers_bytes = 128 << 20;
        let redis = missing("Redis a:6379", MissingReason::Unreachable);
        observation.redis = vec![Fact::Unknown(redis.clone())];
        observation.jobs = Fact::Unknown(redis);
        let advice = advise(&observation);
        let rules: Vec<_> = advice.findings.iter().map(|it| &*it.rule).collect();
        assert_eq!(rules, [NAME, "untuned-database"], "once, and not as unseen as well");
        assert_eq!(advice.verdict.severity, Some(Severity::Critical));
        let expected =
            "Redis a:6379: it does not respond (refused); next: check that it is running";
        assert_eq!(advice.verdict.to_string(), expected);
    }

    #[test]
    fn who_is_not_let_in_is_warned_before_other_warnings_and_nobody_is_said_to_be_away() {
        for obstacle in [MissingReason::Login, MissingReason::NotAllowed] {
            let mut observation = healthy::observation();
            observation.postgres = Fact::Unknown(missing("Postgres b:5432/x", obstacle));
            observation.jobs.known_mut().ghosts = vec!["shop:9:x".to_owned()];
            let findings = advise(&observation).findings;
            let rules: Vec<_> = findings.iter().map(|it| (&*it.rule, it.severity)).collect();
            let expected = [(NAME, Severity::Warning), ("ghost-process", Severity::Warning)];
            assert_eq!(rules, expected);
            assert_eq!(findings[0].line_change().is_some(), obstacle == MissingReason::NotAllowed);
        }
    }

    #[test]
    fn one_that_responds_too_slowly_is_not_said_to_be_silent() {
        let mut observation = healthy::observation();
        let (obstacle, remedy) = (MissingReason::Slow, None);
        observation.redis =
            vec![Fact::Unknown(Missing { remedy, ..missing("Redis a:6379", obstacle) })];
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert!(!finding.consequence.contains("no response"), "{}", finding.consequence);
        let next = finding.next_step().unwrap().to_owned();
        assert!(next.contains("LATENCY LATEST && redis-cli"), "{next}");
    }

    #[test]
    fn a_part_that_is_not_seen_is_no_source() {
        let mut observation = healthy::observation();
        observation.postgres.known_mut().cache_hit_ratio =
            Fact::Unknown(missing("cache hits", MissingReason::Unreachable));
        observation.jobs = Fact::Unknown(missing("queues", MissingReason::NotAllowed));
        assert_eq!(check(&observation), []);
        assert_eq!(advise(&observation).findings.len(), 2, "both are unseen");
    }

    #[test]
    fn no_other_client_is_said_to_miss_the_console_of_a_weir() {
        let mut observation = healthy::observation();
        let weir = missing("Weir http://127.0.0.1:7420", MissingReason::Unreachable);
        observation.requests = Fact::Unknown(weir);
        assert_eq!(check(&observation)[0].consequence, NOTHING_KNOWN);
        observation.postgres = Fact::Unknown(missing("Postgres b", MissingReason::Unreachable));
        let consequence = check(&observation).remove(0).consequence;
        assert!(consequence.contains("a wrong address or a firewall"), "{consequence}");
    }
}
