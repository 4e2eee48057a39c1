//! Requirements on versions, such as `>= 1.2, < 2`.

use std::fmt;
use std::str::FromStr;

use crate::version::{Version, VersionError};

/// Maximum number of conditions in one requirement. Real requirements have two or three.
pub const CONDITIONS_MAX: usize = 100;

/// Comparison operators of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is its own sign")]
pub enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    /// `~> 1.2`: at least 1.2, but less than 2.
    Pessimistic,
}

/// An operator and the version to compare with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    pub operator: Operator,
    pub version: Version,
}

/// Conditions that must all be met; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement(Vec<Condition>);

/// Reasons why a text is not a valid requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// There are more than [`CONDITIONS_MAX`] conditions.
    #[error("a requirement has 1 to {CONDITIONS_MAX} conditions; this one has {0}")]
    Conditions(usize),
    /// The version of a condition is invalid.
    #[error("the requirement {text:?} can't be read: {error}")]
    Version { text: String, error: VersionError },
}

impl Operator {
    /// All operators. A sign comes before the signs that are its prefix, for [`Self::split`].
    const ALL: [Self; 7] = [
        Self::NotEqual,
        Self::GreaterOrEqual,
        Self::LessOrEqual,
        Self::Pessimistic,
        Self::Equal,
        Self::Greater,
        Self::Less,
    ];

    /// Returns the operator's sign.
    #[must_use]
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::GreaterOrEqual => ">=",
            Self::LessOrEqual => "<=",
            Self::Pessimistic => "~>",
        }
    }

    /// Splits a leading operator off `text`. Returns the operator and the remaining text, or None.
    fn split(text: &str) -> Option<(Self, &str)> {
        Self::ALL
            .into_iter()
            .find_map(|operator| Some((operator, text.strip_prefix(operator.sign())?)))
    }
}

impl Requirement {
    /// Combines `conditions` into a requirement.
    ///
    /// # Errors
    /// Fails if there are no conditions, or more than [`CONDITIONS_MAX`].
    pub fn new(conditions: Vec<Condition>) -> Result<Self, RequirementError> {
        match conditions.len() {
            1..=CONDITIONS_MAX => Ok(Self(conditions)),
            count => Err(RequirementError::Conditions(count)),
        }
    }

    /// Returns `>= 0`, which every version meets.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the text is a requirement")]
    pub fn any() -> Self {
        ">= 0".parse().expect("'>= 0' is a requirement")
    }

    /// Returns whether the requirement is `>= 0`, which index lines omit for Ruby and RubyGems.
    #[must_use]
    pub fn is_any(&self) -> bool {
        matches!(&self.0[..], [Condition { operator: Operator::GreaterOrEqual, version }]
            if version.as_str() == "0")
    }

    /// Returns the conditions in the order in which the author wrote them.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        &self.0
    }
}

impl FromStr for Condition {
    type Err = RequirementError;

    fn from_str(text: &str) -> Result<Self, RequirementError> {
        let trimmed = text.trim_ascii();
        let (operator, version) = Operator::split(trimmed).unwrap_or((Operator::Equal, trimmed));
        match version.trim_ascii().parse() {
            Ok(version) => Ok(Self { operator, version }),
            Err(error) => Err(RequirementError::Version { text: text.to_owned(), error }),
        }
    }
}

impl FromStr for Requirement {
    type Err = RequirementError;

    /// Parses conditions separated by commas, as RubyGems prints them.
    fn from_str(text: &str) -> Result<Self, RequirementError> {
        let count = text.split(',').count();
        if count > CONDITIONS_MAX {
            return Err(RequirementError::Conditions(count));
        }
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.operator.sign(), self.version)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, condition) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(formatter, "{comma}{condition}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_printed_as_rubygems_prints_them() {
        for (text, expected) in [
            (">= 1.2, < 2", ">= 1.2, < 2"),
            ("~>1.0", "~> 1.0"),
            (" 3 ", "= 3"),
            ("!=1.0-a", "!= 1.0.pre.a"),
            ("<=2,>1", "<= 2, > 1"),
        ] {
            assert_eq!(text.parse::<Requirement>().unwrap().to_string(), expected);
        }
        for text in ["", ">=", "=> 1", "1,", "~ 1", "> = 1", ">= 1|x", ">= 1&< 2"] {
            assert!(text.parse::<Requirement>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_number_of_conditions_is_bounded() {
        let many = vec!["> 1"; CONDITIONS_MAX + 1].join(",");
        assert_eq!(
            many.parse::<Requirement>(),
            Err(RequirementError::Conditions(CONDITIONS_MAX + 1))
        );
        assert_eq!(Requirement::new(Vec::new()), Err(RequirementError::Conditions(0)));
    }

    #[test]
    fn any_is_known() {
        assert!(Requirement::any().is_any());
        assert!(!">= 0.0".parse::<Requirement>().unwrap().is_any());
    }
}
