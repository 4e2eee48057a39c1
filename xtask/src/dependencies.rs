//! Counts the packages that the binary links, and lists those with several versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::metadata;

/// Prints the counts for this machine. Packages that are only used for building (by build scripts and procedural
/// macros) or for tests are not linked.
pub(crate) fn report(root: &Path) -> anyhow::Result<()> {
    let linked = metadata::tree(root, &["--package", "weir", "--edges", "normal,no-proc-macro"])?;
    let ours: BTreeSet<String> =
        metadata::read(root)?.members().map(|member| member.name.clone()).collect();
    let foreign = linked.iter().filter(|(name, _)| !ours.contains(name)).count();
    let twice = packages_with_several_versions(&linked);
    for (name, versions) in &twice {
        println!("{name}: {}", versions.join(", "));
    }
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    let locked = lock.lines().filter(|line| *line == "[[package]]").count();
    println!(
        "dependencies: weir links {} packages ({foreign} of others), {} of them in several versions; \
         Cargo.lock has {locked}",
        linked.len(),
        twice.len()
    );
    Ok(())
}

fn packages_with_several_versions(
    packages: &BTreeSet<(String, String)>,
) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, version) in packages {
        versions.entry(name).or_default().push(version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_with_several_versions_are_listed() {
        let packages = [("a", "1.0.0"), ("b", "1.0.0"), ("b", "2.1.0"), ("c", "1.0.0")];
        let packages = packages.map(|(name, version)| (name.to_owned(), version.to_owned())).into();
        assert_eq!(
            packages_with_several_versions(&packages),
            [("b", vec!["1.0.0", "2.1.0"])].into()
        );
    }
}
