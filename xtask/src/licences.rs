//! Every dependency's licence against the list in deny.toml, and the crates that must not be in the
//! tree: what `cargo deny` would say, on machines that don't have it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
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

/// Every dependency that must not be there.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let deny = fs::read_to_string(root.join("deny.toml")).context("deny.toml")?;
    let deny: Deny = toml::from_str(&deny).context("deny.toml")?;
    let metadata = metadata::read(root)?;
    let used = used(root)?;
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

/// Name and version of what is in the tree. `cargo metadata` would also list optional crates that a
/// feature only mentions.
fn used(root: &Path) -> anyhow::Result<BTreeSet<(String, String)>> {
    let arguments = [
        "tree",
        "--workspace",
        "--locked",
        "--target",
        "all",
        "--edges",
        "all",
        "--prefix",
        "none",
    ];
    let output = Command::new("cargo").args(arguments).current_dir(root).output()?;
    ensure!(output.status.success(), "cargo: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout)?;
    let packages = lines.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some((name.to_owned(), version.to_owned()))
    });
    Ok(packages.collect())
}
