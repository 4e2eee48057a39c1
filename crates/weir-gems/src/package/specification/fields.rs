//! Reads fields of a specification in all forms that versions of RubyGems have written.

use std::collections::BTreeMap;

use super::{Dependency, DependencyKind, SpecificationError};
use crate::package::yaml::{Class, Node};
use crate::platform::Platform;
use crate::release::{DEPENDENCIES_MAX, DependenciesError};
use crate::requirement::{CONDITIONS_MAX, Condition, Requirement, RequirementError};
use crate::version::Version;

type Result<T> = std::result::Result<T, SpecificationError>;

/// A mapping with named values.
pub(super) struct Fields<'a>(Node<'a>);

impl<'a> Fields<'a> {
    pub(super) fn of_specification(node: Node<'a>) -> Result<Self> {
        Self::of(node, Class::Specification, "the document")
    }

    /// Wraps a mapping. It must have the expected tag: with another tag, RubyGems builds another
    /// object.
    fn of(node: Node<'a>, class: Class, name: &'static str) -> Result<Self> {
        match node.class() == Some(class) {
            true => Ok(Self(node)),
            false => Err(SpecificationError::Kind(name)),
        }
    }

    /// Returns the value of a field, or None if it is missing or null.
    fn get(&self, name: &'static str) -> Result<Option<Node<'a>>> {
        Ok(self.0.get(name)?.filter(|node| !node.is_null()))
    }

    /// Returns a text that matters for the index. It must be a text for every YAML parser.
    pub(super) fn text(&self, name: &'static str) -> Result<String> {
        self.text_or_none(name)?.ok_or(SpecificationError::Missing(name))
    }

    fn text_or_none(&self, name: &'static str) -> Result<Option<String>> {
        let text = |node: Node<'a>| text(node, name).map(str::to_owned);
        self.get(name)?.map(text).transpose()
    }

    /// Returns a descriptive text as it is written.
    pub(super) fn words(&self, name: &'static str) -> Result<Option<String>> {
        let words = |node: Node<'a>| node.written().ok_or(SpecificationError::Kind(name));
        self.get(name)?.map(words).transpose().map(|words| words.map(str::to_owned))
    }

    /// Returns one or several descriptive texts.
    pub(super) fn all_words(&self, name: &'static str) -> Result<Vec<String>> {
        let Some(node) = self.get(name)? else { return Ok(Vec::new()) };
        if let Some(words) = node.written() {
            return Ok(vec![words.to_owned()]);
        }
        let items = node.items().ok_or(SpecificationError::Kind(name))?;
        let texts = items.filter(|item| !item.is_null());
        texts
            .map(|item| item.written().map(str::to_owned).ok_or(SpecificationError::Kind(name)))
            .collect()
    }

    /// Returns whether the field is written as a list.
    pub(super) fn is_list(&self, name: &'static str) -> Result<bool> {
        Ok(self.get(name)?.is_some_and(|node| node.items().is_some()))
    }

    /// Reads a version: `1.0`, or an object that contains it.
    pub(super) fn version(&self, name: &'static str) -> Result<Version> {
        let node = self.get(name)?.ok_or(SpecificationError::Missing(name))?;
        version(node, name)
    }

    /// Reads a platform: `x86_64-linux`, or an object of its parts. A missing one is any Ruby.
    pub(super) fn platform(&self, name: &'static str) -> Result<Platform> {
        let Some(node) = self.get(name)? else { return Ok(Platform::ruby()) };
        if node.class().is_none() {
            return Ok(text(node, name)?.parse()?);
        }
        let fields = Fields::of(node, Class::Platform, name)?;
        let parts = ["cpu", "os", "version"].map(|part| fields.text_or_none(part));
        let parts: Vec<String> =
            parts.into_iter().filter_map(Result::transpose).collect::<Result<_>>()?;
        Ok(parts.join("-").parse()?)
    }

    pub(super) fn requirement_or_any(&self, name: &'static str) -> Result<Requirement> {
        self.get(name)?.map_or_else(|| Ok(Requirement::any()), |node| requirement(node, name))
    }

    pub(super) fn dependencies(&self) -> Result<Vec<Dependency>> {
        const NAME: &str = "dependencies";
        let Some(node) = self.get(NAME)? else { return Ok(Vec::new()) };
        let items = node.items().ok_or(SpecificationError::Kind(NAME))?;
        let mut all = Vec::new();
        for item in items {
            if all.len() >= DEPENDENCIES_MAX {
                return Err(DependenciesError::TooMany(DEPENDENCIES_MAX + 1).into());
            }
            all.push(dependency(&Fields::of(item, Class::Dependency, NAME)?)?);
        }
        Ok(all)
    }

    /// Reads the kind, which must be a symbol: RubyGems does not recognize a plain text with the
    /// same letters.
    fn dependency_kind(&self) -> Result<DependencyKind> {
        const NAME: &str = "type";
        let Some(node) = self.get(NAME)? else { return Ok(DependencyKind::Runtime) };
        match (node.text(), node.written()) {
            (None, Some(":runtime")) => Ok(DependencyKind::Runtime),
            (None, Some(":development")) => Ok(DependencyKind::Development),
            _ => Err(SpecificationError::Kind(NAME)),
        }
    }

    /// Reads pairs of texts. Others are skipped, since RubyGems only warns of them.
    pub(super) fn metadata(&self) -> Result<BTreeMap<String, String>> {
        let Some(node) = self.get("metadata")? else { return Ok(BTreeMap::new()) };
        let pairs = node.pairs().ok_or(SpecificationError::Kind("metadata"))?;
        let text = |node: Node<'a>| node.written().map(str::to_owned);
        Ok(pairs.filter_map(|(key, value)| Some((text(key)?, text(value)?))).collect())
    }
}

/// Returns the text of a node. Numbers and booleans are rejected, because parsers change their
/// text: `1.10` becomes 1.1.
fn text<'a>(node: Node<'a>, name: &'static str) -> Result<&'a str> {
    match (node.text(), node.written()) {
        (Some(text), _) => Ok(text),
        (None, Some(_)) => Err(SpecificationError::Unquoted(name)),
        (None, None) => Err(SpecificationError::Kind(name)),
    }
}

fn version(node: Node<'_>, name: &'static str) -> Result<Version> {
    let fields = match node.class() {
        None => return Ok(text(node, name)?.trim_ascii().parse()?),
        Some(_) => Fields::of(node, Class::Version, name)?,
    };
    let node = fields.get("version")?.ok_or(SpecificationError::Kind(name))?;
    Ok(text(node, name)?.trim_ascii().parse()?)
}

fn dependency(fields: &Fields<'_>) -> Result<Dependency> {
    let name = fields.text("name")?;
    let kind = fields.dependency_kind()?;
    let wrong =
        |error| SpecificationError::Dependency { name: name.clone(), error: Box::new(error) };
    let node = match fields.get("requirement")? {
        Some(node) => Some(node),
        // Gems from before RubyGems 1.3 have this field.
        None => fields.get("version_requirements")?,
    };
    let requirement =
        node.map_or_else(|| Ok(Requirement::any()), |node| requirement(node, "requirement"));
    Ok(Dependency { name: name.parse()?, requirement: requirement.map_err(wrong)?, kind })
}

/// Reads a requirement: `requirements: [[">=", VERSION], ..]`
fn requirement(node: Node<'_>, name: &'static str) -> Result<Requirement> {
    let fields = Fields::of(node, Class::Requirement, name)?;
    let list = fields.get("requirements")?.and_then(Node::items);
    let list = list.ok_or(SpecificationError::Kind(name))?;
    let mut conditions: Vec<Condition> = Vec::new();
    for item in list {
        if conditions.len() >= CONDITIONS_MAX {
            return Err(RequirementError::Conditions(CONDITIONS_MAX + 1).into());
        }
        conditions.push(condition(item, name)?);
    }
    match conditions.is_empty() {
        true => Ok(Requirement::any()),
        false => Ok(Requirement::new(conditions)?),
    }
}

fn condition(node: Node<'_>, name: &'static str) -> Result<Condition> {
    let kind = || SpecificationError::Kind(name);
    if node.written().is_some() {
        return Ok(text(node, name)?.parse()?);
    }
    let mut items = node.items().ok_or_else(kind)?;
    let (Some(operator), Some(number), None) = (items.next(), items.next(), items.next()) else {
        return Err(kind());
    };
    let number = version(number, name)?;
    // The default key of old parsers stands for "=".
    let sign = match operator.class() {
        Some(Class::DefaultKey) => "=",
        _ => operator.text().ok_or_else(kind)?,
    };
    Ok(format!("{sign} {number}").parse()?)
}
