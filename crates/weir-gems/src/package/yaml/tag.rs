//! Tags that occur in gems. RubyGems rejects others, or builds objects from them that are not gems.

use saphyr_parser::Tag;

use super::YamlError;

/// The class of a mapping, by its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::package) enum Class {
    /// A plain mapping.
    None,
    Specification,
    Version,
    Requirement,
    Dependency,
    Platform,
    /// `=`, which Syck, the parser before Ruby 2.0, wrote by mistake.
    DefaultKey,
}

impl Class {
    pub(super) fn of_mapping(tag: Option<&Tag>) -> Result<Self, YamlError> {
        let Some(name) = tag.map(name_of) else { return Ok(Self::None) };
        match &*name {
            "!" | "tag:yaml.org,2002:map" => Ok(Self::None),
            "!ruby/object:Gem::Specification" => Ok(Self::Specification),
            "!ruby/object:Gem::Version" => Ok(Self::Version),
            "!ruby/object:Gem::Requirement" | "!ruby/object:Gem::Version::Requirement" => {
                Ok(Self::Requirement)
            }
            "!ruby/object:Gem::Dependency" => Ok(Self::Dependency),
            "!ruby/object:Gem::Platform" => Ok(Self::Platform),
            "!ruby/object:Syck::DefaultKey" | "!ruby/object:YAML::Syck::DefaultKey" => {
                Ok(Self::DefaultKey)
            }
            _ => Err(YamlError::Tag(name)),
        }
    }
}

/// Checks that a sequence has no tag with a class.
pub(super) fn check_sequence(tag: Option<&Tag>) -> Result<(), YamlError> {
    match tag.map(name_of).as_deref() {
        None | Some("!" | "tag:yaml.org,2002:seq") => Ok(()),
        Some(other) => Err(YamlError::Tag(other.to_owned())),
    }
}

pub(super) fn name_of(tag: &Tag) -> String {
    format!("{}{}", tag.handle, tag.suffix)
}
