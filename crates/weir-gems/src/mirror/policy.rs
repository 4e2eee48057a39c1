//! The namespace policy: which names never come from an upstream, and which only from a certain
//! one.
//!
//! A policy is a file of rules, one per line; the first one that matches a name applies:
//!
//! ```text
//! # Ours, whether or not they were pushed already.
//! private acme-*
//! private billing
//! # Only from there, even when another upstream has it too.
//! from contribsys sidekiq-pro
//! ```
//!
//! An empty file is an error, because it may have been truncated and would allow every name. A
//! policy without rules has the line `none`.
//!
//! Names that were pushed or imported here are private without a rule. Names are compared without
//! regard to case, and `_` equals `-`. Names that could be confused with a private name, by the
//! policy or by a push, are rejected, too.

use std::str::FromStr;

use weir_base::switch::Pattern;

use super::upstream_name::{UpstreamName, UpstreamNameError};
use crate::name::folded;

/// Maximum size of a policy in bytes.
pub const POLICY_BYTES_MAX: usize = 1 << 20;

/// The line of a policy without rules.
const NONE: &str = "none";

/// The rules for the sources of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<(Pattern, Rule)>,
}

/// The effect of a rule on the names that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The names never come from an upstream.
    Private,
    /// The names come from no other upstream.
    From(UpstreamName),
}

/// Errors in a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PolicyError {
    #[error("the policy has more than {POLICY_BYTES_MAX} bytes")]
    TooLong,
    #[error(
        "the policy is empty, as if it was lost; if every name may come from upstreams, say so with \
         the line `none`"
    )]
    Empty,
    #[error("the policy has the line `none` beside others; take either out")]
    NoneAndOthers,
    #[error(
        "line {line} of the policy: {text:?} is neither `private PATTERN` nor \
         `from UPSTREAM PATTERN`"
    )]
    Line { line: usize, text: String },
    #[error("line {line} of the policy: the pattern {text:?}: {problem}")]
    Pattern { line: usize, text: String, problem: String },
    #[error("line {line} of the policy: {error}")]
    Upstream { line: usize, error: UpstreamNameError },
    #[error("the policy names the upstream {0}, which is not in gems.mirror.upstreams")]
    Unknown(UpstreamName),
}

impl Policy {
    /// Returns the rule for a name, if there is one.
    #[must_use]
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.line(name).map(|(_, rule)| rule)
    }

    /// Returns whether a rule names the upstream of exactly this name, without a wildcard. The
    /// operator then allows it although it could be confused with a local name.
    #[must_use]
    pub fn invites(&self, name: &str) -> bool {
        let line = self.line(name);
        line.is_some_and(|(pattern, rule)| {
            matches!(rule, Rule::From(_)) && !pattern.to_string().contains('*')
        })
    }

    fn line(&self, name: &str) -> Option<&(Pattern, Rule)> {
        let name = folded(name);
        self.rules.iter().find(|(pattern, _)| pattern.matches(&name))
    }

    /// Returns whether a name never comes from an upstream.
    #[must_use]
    pub fn is_private(&self, name: &str) -> bool {
        self.rule(name) == Some(&Rule::Private)
    }

    /// Checks that all upstreams that the policy names exist.
    ///
    /// # Errors
    /// Fails if one does not.
    pub fn check(&self, upstreams: &[UpstreamName]) -> Result<(), PolicyError> {
        for (_, rule) in &self.rules {
            if let Rule::From(upstream) = rule
                && !upstreams.contains(upstream)
            {
                return Err(PolicyError::Unknown(upstream.clone()));
            }
        }
        Ok(())
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        if text.len() > POLICY_BYTES_MAX {
            return Err(PolicyError::TooLong);
        }
        let lines = (1..).zip(text.lines().map(str::trim_ascii));
        let mut lines =
            lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')).peekable();
        if lines.peek().is_none() {
            return Err(PolicyError::Empty);
        }
        let (none, rules): (Vec<_>, Vec<_>) = lines.partition(|(_, text)| *text == NONE);
        if !none.is_empty() && !rules.is_empty() {
            return Err(PolicyError::NoneAndOthers);
        }
        let rules = rules.into_iter().map(|(line, text)| parse_line(line, text));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }
}

fn parse_line(line: usize, text: &str) -> Result<(Pattern, Rule), PolicyError> {
    let words: Vec<_> = text.split_ascii_whitespace().collect();
    let (pattern, rule) = match words[..] {
        ["private", pattern] => (pattern, Rule::Private),
        ["from", upstream, pattern] => {
            let upstream = upstream.parse();
            let upstream = upstream.map_err(|error| PolicyError::Upstream { line, error })?;
            (pattern, Rule::From(upstream))
        }
        _ => return Err(PolicyError::Line { line, text: text.to_owned() }),
    };
    let wrong = |problem: String| PolicyError::Pattern { line, text: pattern.to_owned(), problem };
    if let Some(character) = pattern.chars().find(|it| !is_pattern_character(*it)) {
        return Err(wrong(format!("no name has {character:?}; only * stands for any text")));
    }
    let pattern = folded(pattern)
        .parse()
        .map_err(|error: weir_base::switch::PatternError| wrong(error.to_string()))?;
    Ok((pattern, rule))
}

fn is_pattern_character(character: char) -> bool {
    character == '*' || crate::name::is_name_character(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_matches_decides() {
        let text = "# ours\n\nprivate acme-secret-*\n  from pro acme-*  \nprivate *-internal\n";
        let policy: Policy = text.parse().unwrap();
        let pro = Rule::From("pro".parse().unwrap());
        for (name, expected) in [
            ("acme-secret-x", Some(&Rule::Private)),
            ("ACME_secret-x", Some(&Rule::Private)),
            ("acme-web", Some(&pro)),
            ("acme-web-internal", Some(&pro)),
            ("shop_Internal", Some(&Rule::Private)),
            ("rack", None),
        ] {
            assert_eq!(policy.rule(name), expected, "{name}");
        }
        assert!(policy.is_private("acme-secret-x") && !policy.is_private("acme-web"));
    }

    #[test]
    fn a_name_is_invited_by_a_line_of_its_own() {
        let text = "private a-b\nfrom pro shop_core\nfrom pro *\nfrom pro rack\n";
        let policy: Policy = text.parse().unwrap();
        assert!(policy.invites("shop-core") && policy.invites("Shop_Core"));
        // The first matching line applies.
        assert!(!policy.invites("rack") && !policy.invites("a-b") && !policy.invites("acme"));
    }

    #[test]
    fn a_policy_without_rules_says_so() {
        for text in ["", "\n \n", "# private acme-*\n"] {
            assert_eq!(text.parse::<Policy>(), Err(PolicyError::Empty), "{text:?}");
        }
        assert_eq!("# not yet\nnone\n".parse::<Policy>(), Ok(Policy::default()));
        let both = "private acme-*\nnone\n".parse::<Policy>();
        assert_eq!(both, Err(PolicyError::NoneAndOthers));
    }

    #[test]
    fn each_mistake_is_told_by_its_line() {
        for (text, expected) in [
            ("\nprivat a", "line 2 of the policy: \"privat a\" is neither"),
            ("private", "is neither"),
            ("private a b", "is neither"),
            ("private a/b", "the pattern \"a/b\": no name has '/'"),
            ("private [a-z]*", "no name has '['"),
            ("from a/b c", "line 1 of the policy"),
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(" ".repeat(POLICY_BYTES_MAX + 1).parse::<Policy>(), Err(PolicyError::TooLong));
        let policy: Policy = "from pro x".parse().unwrap();
        let (pro, other) = ("pro".parse().unwrap(), "other".parse().unwrap());
        assert_eq!(policy.check(&[other]), Err(PolicyError::Unknown(pro)));
    }
}
