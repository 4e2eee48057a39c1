//! A requirement in the format of index lines: `< 2&>= 1.2`, sorted.

use std::str::FromStr;

use crate::requirement::{Condition, Requirement, RequirementError};

/// The conditions of a requirement, sorted as texts and joined by `&`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequirementLine(Box<str>);

impl RequirementLine {
    /// Returns the requirement as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a text that was validated when it was written.
    pub(crate) fn from_checked(text: String) -> Self {
        Self(text.into())
    }

    /// Returns the requirement, or None for `>= 0`, which index lines omit for Ruby and RubyGems.
    #[must_use]
    pub fn unless_any(requirement: &Requirement) -> Option<Self> {
        (!requirement.is_any()).then(|| Self::from(requirement))
    }
}

impl From<&Requirement> for RequirementLine {
    fn from(requirement: &Requirement) -> Self {
        let mut parts: Vec<String> =
            requirement.conditions().iter().map(ToString::to_string).collect();
        parts.sort_unstable();
        parts.dedup();
        Self(parts.join("&").into())
    }
}

impl FromStr for RequirementLine {
    type Err = RequirementError;

    fn from_str(text: &str) -> Result<Self, RequirementError> {
        let conditions = text.split('&').map(str::parse::<Condition>);
        Ok(Self::from(&Requirement::new(conditions.collect::<Result<_, _>>()?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_sorted_and_told_once() {
        let requirement: Requirement = ">= 1.2, < 2, >= 1.2".parse().unwrap();
        let line = RequirementLine::from(&requirement);
        assert_eq!(line.as_str(), "< 2&>= 1.2");
        assert_eq!(">=1.2&<2".parse::<RequirementLine>().unwrap(), line);
        assert!("".parse::<RequirementLine>().is_err());
        assert_eq!(RequirementLine::unless_any(&Requirement::any()), None);
    }
}
