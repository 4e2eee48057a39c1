//! The output of `cargo metadata` and `cargo tree`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// None: part of this workspace.
    pub(crate) source: Option<String>,
    #[serde(default)]
    manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    kind: Vec<String>,
    pub(crate) doctest: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev` or `build`; None: what the crate itself is built from.
    pub(crate) kind: Option<String>,
}

pub(crate) fn read(root: &Path) -> anyhow::Result<Metadata> {
    let arguments = ["metadata", "--format-version", "1", "--locked"];
    let output = Command::new("cargo").args(arguments).current_dir(root).output()?;
    ensure!(output.status.success(), "cargo: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("cargo metadata")
}

/// Returns the names and versions that `cargo tree` lists with these arguments.
///
/// Unlike `cargo metadata`, it omits optional packages that a feature only mentions.
pub(crate) fn tree(root: &Path, arguments: &[&str]) -> anyhow::Result<BTreeSet<(String, String)>> {
    let common = ["tree", "--locked", "--prefix", "none"];
    let output = Command::new("cargo").args(common).args(arguments).current_dir(root).output()?;
    ensure!(output.status.success(), "cargo: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout)?;
    let packages = lines.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some((name.to_owned(), version.to_owned()))
    });
    Ok(packages.collect())
}

impl Target {
    pub(crate) fn is_library(&self) -> bool {
        self.kind.iter().any(|kind| kind == "lib" || kind == "proc-macro")
    }
}

impl Package {
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.manifest_path.parent()
    }
}

impl Metadata {
    /// Returns the crates of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }
}
