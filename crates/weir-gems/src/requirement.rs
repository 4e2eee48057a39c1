//! Requirements on versions: `>= 1.2, < 2`.

use std::fmt;
use std::str::FromStr;

use crate::version::{Version, VersionError};

/// Conditions of one requirement. Real ones have two or three.
pub const CONDITIONS_MAX: usize = 100;

/// How a version is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is its own sign")]
pub enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    /// `~> 1.2`: from 1.2 up to, but not, 2.
    Pessimistic,
}

/// An operator and a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    pub operator: Operator,
    pub version: Version,
}

/// All of these conditions; never none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement(Vec<Condition>);

/// Why a text is no requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// More than [`CONDITIONS_MAX`].
    #[error("a requirement has 1 to {CONDITIONS_MAX} conditions; this one has {0}")]
    Conditions(usize),
    /// Its version is none.
    #[error("the requirement {text:?} can't be read: {error}")]
    Version { text: String, error: VersionError },
}

impl Operator {
    /// Longer signs before those that they begin with.
    const ALL: [Self; 7] = [
        Self::NotEqual,
        Self::GreaterOrEqual,
        Self::LessOrEqual,
        Self::Pessimistic,
        Self::Equal,
        Self::Greater,
        Self::Less,
    ];

    /// The sign.
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

    /// The operator that a text begins with, and what comes behind it.
    fn split(text: &str) -> Option<(Self, &str)> {
        Self::ALL
            .into_iter()
            .find_map(|operator| Some((operator, text.strip_prefix(operator.sign())?)))
    }
}

impl Requirement {
    /// All of `conditions`.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn new(conditions: Vec<Condition>) -> Result<Self, RequirementError> {
        match conditions.len() {
            1..=CONDITIONS_MAX => Ok(Self(conditions)),
            count => Err(RequirementError::Conditions(count)),
        }
    }

    /// `>= 0`: any version.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the text is a requirement")]
    pub fn any() -> Self {
        ">= 0".parse().expect("'>= 0' is a requirement")
    }

    /// Whether it is `>= 0`, which lines leave out for Ruby and RubyGems.
    #[must_use]
    pub fn is_any(&self) -> bool {
        matches!(&self.0[..], [Condition { operator: Operator::GreaterOrEqual, version }]
            if version.as_str() == "0")
    }

    /// The conditions, in their author's order.
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

    /// Conditions between commas, as RubyGems prints them.
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
