//! The document and the page of the admin API, which weir-admin generates from its routes.

use std::fs;
use std::path::Path;

use anyhow::Context;
use weir_admin::openapi;

/// The generated files.
fn files() -> [(&'static str, String); 2] {
    [
        ("docs/reference/openapi.json", openapi::document()),
        ("docs/reference/admin-api.md", openapi::page()),
    ]
}

/// Returns an error for each file that is out of date. Each request has a text, and each text a request:
/// otherwise the generator panics.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let outdated = files().into_iter().filter(|(file, expected)| {
        fs::read_to_string(root.join(file)).unwrap_or_default() != *expected
    });
    outdated
        .map(|(file, _)| format!("{file} is out of date: cargo run -p xtask -- openapi write"))
        .collect()
}

/// Writes the files.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    for (file, text) in files() {
        fs::write(root.join(file), text).context(file)?;
    }
    Ok(())
}
