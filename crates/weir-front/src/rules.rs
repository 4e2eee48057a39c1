//! Which requests a rule of an app is about.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName};

use crate::dispatch::Priority;
use crate::routes::is_below;

/// Requests by path and header: both must fit, as far as they are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matcher {
    /// With all below it, without a slash at its end.
    pub path: Option<String>,
    /// None as a value: the field is there.
    pub header: Option<(HeaderName, Option<String>)>,
}

impl Matcher {
    pub(crate) fn matches(&self, path: &str, headers: &HeaderMap) -> bool {
        let is_path = self.path.as_ref().is_none_or(|own| is_below(path, own));
        is_path
            && self.header.as_ref().is_none_or(|(name, value)| match value {
                None => headers.contains_key(name),
                Some(value) => headers.get_all(name).iter().any(|one| one == value),
            })
    }
}

/// Requests that wait before or behind the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityRule {
    pub matcher: Matcher,
    /// Before the others, or behind them.
    pub is_high: bool,
}

/// The priority of a request: of the first rule that fits.
pub(crate) fn priority(rules: &[PriorityRule], path: &str, headers: &HeaderMap) -> Priority {
    match rules.iter().find(|rule| rule.matcher.matches(path, headers)) {
        Some(PriorityRule { is_high: true, .. }) => Priority::High,
        Some(PriorityRule { is_high: false, .. }) => Priority::Low,
        None => Priority::Normal,
    }
}

/// Requests that are rejected while a queue of jobs is late: clients that retry by themselves
/// (federating servers, webhooks) get a Retry-After.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShedSettings {
    pub matcher: Matcher,
    /// The queue of jobs.
    pub queue: String,
    /// Its first job has waited for longer than this.
    pub over: Duration,
    pub status: StatusCode,
    /// The value of Retry-After.
    pub retry_after: Duration,
}

/// A rule, and whether it holds now.
#[derive(Debug)]
pub(crate) struct ShedRule {
    pub(crate) settings: ShedSettings,
    is_on: AtomicBool,
}

impl ShedRule {
    pub(crate) fn new(settings: ShedSettings) -> Self {
        Self { settings, is_on: AtomicBool::new(false) }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// What is known of a queue: how long its first job has waited. None: nothing, so the rule does
    /// not hold.
    pub(crate) fn judge(&self, latency: Option<Duration>) {
        let is_on = latency.is_some_and(|latency| latency > self.settings.over);
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    pub(crate) fn refuses(&self, path: &str, headers: &HeaderMap) -> bool {
        self.is_on() && self.settings.matcher.matches(path, headers)
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{ACCEPT, HeaderValue};

    use super::*;

    fn path(path: &str) -> Matcher {
        Matcher { path: Some(path.to_owned()), header: None }
    }

    #[test]
    fn path_and_header_must_both_fit() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let both = Matcher {
            path: Some("/api".to_owned()),
            header: Some((ACCEPT, Some("application/json".to_owned()))),
        };
        assert!(both.matches("/api/1", &headers) && !both.matches("/apis", &headers));
        assert!(!both.matches("/api", &HeaderMap::new()));
        let there = Matcher { path: None, header: Some((ACCEPT, None)) };
        assert!(there.matches("/", &headers) && !there.matches("/", &HeaderMap::new()));
    }

    #[test]
    fn the_first_rule_that_fits_gives_the_priority() {
        let rules = [
            PriorityRule { matcher: path("/api/search"), is_high: false },
            PriorityRule { matcher: path("/api"), is_high: true },
        ];
        let of = |path| priority(&rules, path, &HeaderMap::new());
        assert_eq!(of("/api/search/all"), Priority::Low);
        assert_eq!(of("/api/1"), Priority::High);
        assert_eq!(of("/"), Priority::Normal);
    }

    #[test]
    fn a_rule_holds_while_its_queue_is_behind() {
        let over = Duration::from_secs(300);
        let rule = ShedRule::new(ShedSettings {
            matcher: path("/inbox"),
            queue: "ingress".to_owned(),
            over,
            status: StatusCode::SERVICE_UNAVAILABLE,
            retry_after: Duration::from_secs(60),
        });
        let refuses = || rule.refuses("/inbox", &HeaderMap::new());
        assert!(!refuses());
        rule.judge(Some(over));
        assert!(!refuses());
        rule.judge(Some(over + Duration::from_secs(1)));
        assert!(refuses() && !rule.refuses("/", &HeaderMap::new()));
        rule.judge(None);
        assert!(!refuses(), "what is not known is no reason");
    }
}
