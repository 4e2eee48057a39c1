//! Checks the licence of each dependency against the list in deny.toml, and that forbidden crates are not used: like
//! `cargo deny`, for machines without it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use crate::expression;
use crate::metadata;

#[derive(Debug, Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
}

/// Returns an error for each forbidden dependency.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let deny = fs::read_to_string(root.join("deny.toml")).context("deny.toml")?;
    let deny: Deny = toml::from_str(&deny).context("deny.toml")?;
    let metadata = metadata::read(root)?;
    let used = metadata::tree(root, &["--workspace", "--target", "all", "--edges", "all"])?;
    let foreign = || {
        let packages = metadata.packages.iter();
        packages.filter(|package| {
            package.source.is_some()
                && used.contains(&(package.name.clone(), package.version.clone()))
        })
    };
    let mut problems = Vec::new();
    let allowed = |name: &str| deny.licenses.allow.iter().any(|allowed| allowed == name);
    for package in foreign() {
        let (name, version) = (&package.name, &package.version);
        let licence = package.license.as_deref().unwrap_or_default();
        match expression::is_met(licence, &allowed) {
            Some(true) => {}
            Some(false) => problems.push(format!("{name} {version}: {licence} is not allowed")),
            None => problems.push(format!("{name} {version}: {licence:?} can't be read")),
        }
        if deny.bans.deny.iter().any(|ban| ban.name == *name) {
            problems.push(format!("{name} {version} must not be in the tree (deny.toml)"));
        }
    }
    if problems.is_empty() {
        println!("licences: {} dependencies, all allowed", foreign().count());
    }
    Ok(problems)
}
