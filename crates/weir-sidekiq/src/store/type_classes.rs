//! The classes of job types: types that use the same shared resources are one class.
//!
//! A class has a name, which follows from the names of its resources: the lists of its blocked jobs are called after it
//! ([`super::blocked_names`]), by all nodes with these settings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weir_jobs::allocation::Allocation;

use super::blocked_names::INFIX;
use super::stored::derived_hash;

/// A longer name of a class is replaced by a hash.
const NAME_BYTES_MAX: usize = 40;

/// The classes of types, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct TypeClasses {
    classes: Vec<TypeClass>,
    /// The class of each type.
    types: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct TypeClass {
    name: String,
    /// The places of its resources.
    uses: Vec<usize>,
}

impl TypeClasses {
    /// Returns the classes of resources, each with its name and its types.
    pub(super) fn of<'a>(resources: impl Iterator<Item = (&'a str, &'a BTreeSet<String>)>) -> Self {
        let (mut names, mut by_type) = (Vec::new(), BTreeMap::<&str, Vec<usize>>::new());
        for (place, (name, types)) in resources.enumerate() {
            names.push(name);
            types.iter().for_each(|it| by_type.entry(it).or_default().push(place));
        }
        let mut of = Self::default();
        for (jobtype, uses) in by_type {
            let known = of.classes.iter().position(|class| class.uses == uses);
            let place = known.unwrap_or_else(|| {
                let name = class_name(uses.iter().map(|place| names[*place]));
                of.classes.push(TypeClass { name, uses });
                of.classes.len() - 1
            });
            of.types.insert(jobtype.to_owned(), place);
        }
        of
    }

    /// Returns the classes of all resources.
    pub(super) fn of_allocation(allocation: &Allocation) -> Self {
        let resources = allocation.resources.of.iter();
        Self::of(resources.map(|(name, limits)| (name.as_str(), &limits.types)))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(|class| class.name.as_str())
    }

    /// Returns what follows the name of a queue in those of its lists of blocked jobs.
    pub(super) fn suffixes(&self) -> Vec<String> {
        self.names().map(|name| format!("{INFIX}{name}")).collect()
    }

    /// Returns the place of a class.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.names().position(|it| it == name)
    }

    /// Returns the places of the resources of a class.
    pub(super) fn uses(&self, class: usize) -> &[usize] {
        self.classes.get(class).map_or(&[], |class| &class.uses)
    }

    /// Returns what `classes.lua` reads, which counts from 1: the classes and the types.
    pub(super) fn json(&self) -> (Vec<Value>, BTreeMap<&str, usize>) {
        let class = |class: &TypeClass| {
            let places: Vec<usize> = class.uses.iter().map(|place| place + 1).collect();
            json!({ "suffix": format!("{INFIX}{}", class.name), "resources": places })
        };
        let types = self.types.iter().map(|(name, place)| (name.as_str(), place + 1));
        (self.classes.iter().map(class).collect(), types.collect())
    }
}

/// Returns the names of resources, or a hash of them where they are no part of the name of a queue.
fn class_name<'a>(resources: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = resources.collect();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let joined = names.join(".");
    match names.iter().all(|name| name.bytes().all(is_plain)) && joined.len() <= NAME_BYTES_MAX {
        true => joined,
        false => format!("{:016x}", derived_hash(format!("{names:?}").as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(resources: &[(&str, &str)]) -> TypeClasses {
        let types: Vec<BTreeSet<String>> = resources
            .iter()
            .map(|(_, types)| types.split_whitespace().map(str::to_owned).collect())
            .collect();
        TypeClasses::of(resources.iter().map(|(name, _)| *name).zip(&types))
    }

    #[test]
    fn types_that_use_the_same_resources_are_one_class() {
        let classes = classes(&[("api", "X Y Z"), ("pay", "Z X W"), ("queues", "")]);
        let names: Vec<&str> = classes.names().collect();
        assert_eq!(names, ["pay", "api.pay", "api"]);
        assert_eq!(classes.uses(1), [0, 1]);
        let (of_classes, types) = classes.json();
        assert_eq!(of_classes[1], json!({ "suffix": ".blocked.api.pay", "resources": [1, 2] }));
        assert_eq!(types, BTreeMap::from([("W", 1), ("X", 2), ("Y", 3), ("Z", 2)]));
    }

    #[test]
    fn names_that_are_no_part_of_a_queues_name_are_replaced() {
        let name =
            |resources: &[(&str, &str)]| classes(resources).names().next().unwrap().to_owned();
        let (dotted, joined) = (name(&[("a.b", "X")]), name(&[("a", "X"), ("b", "X")]));
        assert_eq!((dotted.len(), &*joined), (16, "a.b"));
        assert_eq!(name(&[(&"n".repeat(64), "X")]).len(), 16);
        assert!(name(&[("größe", "X")]).bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(name(&[("a b", "X")]), name(&[("a", "X"), ("b c", "X")]));
    }
}
