//! The specification of a gem.

mod fields;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::fields::Fields;
use super::yaml::{Document, YamlError};
use crate::name::{GemName, NameError};
use crate::platform::{Platform, PlatformError};
use crate::release::DependenciesError;
use crate::requirement::{Requirement, RequirementError};
use crate::version::{Version, VersionError};

/// The specification of a gem, as far as an index or a client needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Specification {
    pub name: GemName,
    pub version: Version,
    pub platform: Platform,
    pub dependencies: Vec<Dependency>,
    pub ruby: Requirement,
    pub rubygems: Requirement,
    pub about: About,
}

/// Descriptive fields, which affect nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub summary: String,
    pub description: Option<String>,
    pub authors: Vec<String>,
    pub email: Vec<String>,
    /// Whether the email was written as a list, even of one item: RubyGems preserves this.
    #[serde(skip)]
    pub email_is_list: bool,
    pub homepage: Option<String>,
    pub licenses: Vec<String>,
    pub metadata: BTreeMap<String, String>,
    /// The date, for example `2026-11-22`, if there is one.
    pub date: Option<String>,
    pub rubygems_version: String,
    pub specification_version: u32,
}

/// A dependency of a gem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub name: GemName,
    pub requirement: Requirement,
    pub kind: DependencyKind,
}

/// Kind of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DependencyKind {
    Runtime,
    Development,
}

/// Errors in a specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SpecificationError {
    #[error("{0}")]
    Yaml(#[from] YamlError),
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("{0} is not what it should be")]
    Kind(&'static str),
    #[error(
        "{0} is written without quotes, and Ruby reads it as a number or another thing than the text; \
         build the gem with `gem build`"
    )]
    Unquoted(&'static str),
    #[error("{0}")]
    Name(#[from] NameError),
    #[error("{0}")]
    Version(#[from] VersionError),
    #[error("{0}")]
    Platform(#[from] PlatformError),
    #[error("{0}")]
    Requirement(#[from] RequirementError),
    #[error("{0}")]
    Dependencies(#[from] DependenciesError),
    #[error("the dependency on {name}: {error}")]
    Dependency { name: String, error: Box<SpecificationError> },
}

impl Specification {
    pub(super) fn from_yaml(document: &Document) -> Result<Self, SpecificationError> {
        let fields = Fields::of_specification(document.root())?;
        Ok(Self {
            name: fields.text("name")?.parse()?,
            version: fields.version("version")?,
            platform: fields.platform("platform")?,
            dependencies: fields.dependencies()?,
            ruby: fields.requirement_or_any("required_ruby_version")?,
            rubygems: fields.requirement_or_any("required_rubygems_version")?,
            about: About::from_yaml(&fields)?,
        })
    }

    /// Returns the dependencies that must be installed with the gem.
    pub fn runtime_dependencies(&self) -> impl Iterator<Item = &Dependency> {
        self.dependencies.iter().filter(|it| it.kind == DependencyKind::Runtime)
    }
}

impl About {
    fn from_yaml(fields: &Fields<'_>) -> Result<Self, SpecificationError> {
        let date = fields.words("date")?;
        let version = fields.words("specification_version")?;
        Ok(Self {
            summary: fields.words("summary")?.unwrap_or_default(),
            description: fields.words("description")?,
            authors: fields.all_words("authors")?,
            email: fields.all_words("email")?,
            email_is_list: fields.is_list("email")?,
            homepage: fields.words("homepage")?,
            licenses: fields.all_words("licenses")?,
            metadata: fields.metadata()?,
            date: date.and_then(|date| date.get(..10).map(str::to_owned)),
            rubygems_version: fields.words("rubygems_version")?.unwrap_or_default(),
            // Old gems lack the field, or have 1 to 3; the parsed form is that of version 4.
            specification_version: version.and_then(|it| it.parse().ok()).unwrap_or(4),
        })
    }
}
