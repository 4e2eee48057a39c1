//! Run-time dependencies of a release in the format of index lines: `rack:>= 2.2.0,rake:>= 0`.

use std::str::FromStr;

use super::RequirementLine;
use crate::name::{GemName, NameError};
use crate::requirement::{Requirement, RequirementError};

/// Maximum number of dependencies of one release; the largest real releases have about 300.
pub const DEPENDENCIES_MAX: usize = 2_000;

/// All run-time dependencies of a release, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Dependencies(Box<str>);

/// Reasons why a list of dependencies is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum DependenciesError {
    #[error("a release has at most {DEPENDENCIES_MAX} dependencies; this one has {0}")]
    TooMany(usize),
    #[error("a dependency is NAME:REQUIREMENT; this is {0:?}")]
    Malformed(String),
    #[error("a dependency's name: {0}")]
    Name(#[from] NameError),
    #[error("the dependency on {name}: {error}")]
    Requirement { name: String, error: RequirementError },
}

impl Dependencies {
    /// # Errors
    /// Fails if there are too many.
    pub fn new(list: &[(GemName, Requirement)]) -> Result<Self, DependenciesError> {
        let lines = list.iter().map(|(name, requirement)| (name, requirement.into()));
        Self::from_lines(lines.collect())
    }

    fn from_lines(mut list: Vec<(&GemName, RequirementLine)>) -> Result<Self, DependenciesError> {
        if list.len() > DEPENDENCIES_MAX {
            return Err(DependenciesError::TooMany(list.len()));
        }
        list.sort_by_key(|(name, _)| *name);
        let parts: Vec<String> =
            list.iter().map(|(name, line)| format!("{name}:{}", line.as_str())).collect();
        Ok(Self(parts.join(",").into()))
    }

    /// Returns the dependencies as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a text that was validated when it was written.
    pub(crate) fn from_checked(text: String) -> Self {
        Self(text.into())
    }

    /// Iterates over names and requirements, in the format of index lines.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.split(',').filter_map(|part| part.split_once(':'))
    }
}

impl FromStr for Dependencies {
    type Err = DependenciesError;

    fn from_str(text: &str) -> Result<Self, DependenciesError> {
        let parts = text.split(',').filter(|_| !text.is_empty());
        let count = parts.clone().count();
        if count > DEPENDENCIES_MAX {
            return Err(DependenciesError::TooMany(count));
        }
        let mut list = Vec::with_capacity(count);
        for part in parts {
            let malformed = || DependenciesError::Malformed(part.to_owned());
            let (name, line) = part.split_once(':').ok_or_else(malformed)?;
            let requirement = |error| DependenciesError::Requirement { name: name.into(), error };
            list.push((name.parse::<GemName>()?, line.parse().map_err(requirement)?));
        }
        Self::from_lines(
            list.iter().map(|(name, line)| (name, RequirementLine::clone(line))).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_sorted_by_name() {
        let list = [("rake", ">= 0"), ("Rack", "< 4, >= 2")];
        let list = list.map(|(name, text)| (name.parse().unwrap(), text.parse().unwrap()));
        let dependencies = Dependencies::new(&list).unwrap();
        assert_eq!(dependencies.as_str(), "Rack:< 4&>= 2,rake:>= 0");
        assert_eq!(
            dependencies.iter().collect::<Vec<_>>(),
            [("Rack", "< 4&>= 2"), ("rake", ">= 0")]
        );
        assert_eq!("rake:>= 0,Rack:>=2&<4".parse(), Ok(dependencies));
        assert_eq!("".parse(), Ok(Dependencies::default()));
        assert_eq!(Dependencies::default().iter().count(), 0);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [",", "a", "a:", "a:>= 1,", ":>= 1", "a b:>= 1", "a:>= 1:2"] {
            assert!(text.parse::<Dependencies>().is_err(), "{text:?}");
        }
        let many = vec!["a:>= 0"; DEPENDENCIES_MAX + 1].join(",");
        assert_eq!(
            many.parse::<Dependencies>(),
            Err(DependenciesError::TooMany(DEPENDENCIES_MAX + 1))
        );
    }
}
