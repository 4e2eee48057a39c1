//! The rules of an app by which requests are prioritized, and what rules match.

use hyper::header::{HeaderMap, HeaderName};

use crate::dispatch::Priority;
use crate::paths::is_below;

/// Matches requests by path and header. A request must match both, as far as they are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matcher {
    /// A path without a trailing slash; it matches all paths below it, too.
    pub path: Option<String>,
    /// A field and its value. Without a value, any value matches.
    pub header: Option<(HeaderName, Option<String>)>,
}

impl Matcher {
    pub(crate) fn matches(&self, path: &str, headers: &HeaderMap) -> bool {
        let is_path = self.path.as_ref().is_none_or(|required| is_below(path, required));
        is_path
            && self.header.as_ref().is_none_or(|(name, value)| match value {
                None => headers.contains_key(name),
                Some(value) => headers.get_all(name).iter().any(|one| one == value),
            })
    }
}

/// A rule that moves requests before or behind the others in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityRule {
    pub matcher: Matcher,
    /// True: before the others. False: behind them.
    pub is_high: bool,
}

/// Returns the priority of a request, by the first rule that matches.
pub(crate) fn priority(rules: &[PriorityRule], path: &str, headers: &HeaderMap) -> Priority {
    match rules.iter().find(|rule| rule.matcher.matches(path, headers)) {
        Some(PriorityRule { is_high: true, .. }) => Priority::High,
        Some(PriorityRule { is_high: false, .. }) => Priority::Low,
        None => Priority::Normal,
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
    fn a_rule_needs_both_path_and_header_to_match() {
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
    fn the_first_matching_rule_sets_the_priority() {
        let rules = [
            PriorityRule { matcher: path("/api/search"), is_high: false },
            PriorityRule { matcher: path("/api"), is_high: true },
        ];
        let of = |path| priority(&rules, path, &HeaderMap::new());
        assert_eq!(of("/api/search/all"), Priority::Low);
        assert_eq!(of("/api/1"), Priority::High);
        assert_eq!(of("/"), Priority::Normal);
    }
}
