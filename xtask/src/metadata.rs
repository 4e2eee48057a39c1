//! What `cargo metadata` tells.

use std::path::Path;
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
    pub(crate) dependencies: Vec<Dependency>,
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

impl Metadata {
    /// The crates of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }
}
