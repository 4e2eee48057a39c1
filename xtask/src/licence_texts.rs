//! Writes the licences of everything that the binary contains into one file, as the licences demand of whoever passes
//! it on: the packages with their licence expressions, then each text once with the packages that it came with.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::metadata::{self, Package};

/// Names of files that hold a licence start with one of these, in any case.
const STEMS: [&str; 5] = ["licence", "license", "copying", "notice", "unlicense"];
/// Of what is inside a package, for example the C sources of aws-lc with its own `third_party`.
const DEPTH_MAX: usize = 6;
/// The one package of npm in the bundle of the console, with its licence.
const NPM: (&str, &str) = ("uplot (npm)", "crates/weir-console/web/node_modules/uplot/LICENSE");

/// The packages that each text came with, by the text.
type Texts = BTreeMap<String, Vec<String>>;

/// Writes the file; returns an error for each package without a text.
pub(crate) fn write(root: &Path, file: &Path) -> anyhow::Result<Vec<String>> {
    let linked = metadata::tree(root, &["--package", "weir", "--edges", "normal,no-proc-macro"])?;
    let metadata = metadata::read(root)?;
    let is_linked = |package: &&Package| {
        package.source.is_some()
            && linked.contains(&(package.name.clone(), package.version.clone()))
    };
    let packages: Vec<&Package> = metadata.packages.iter().filter(is_linked).collect();
    ensure!(!packages.is_empty(), "the binary links no package");
    let (mut texts, mut problems) = (Texts::new(), Vec::new());
    for package in &packages {
        let name = format!("{} {}", package.name, package.version);
        let folder = package.folder().context("a package without a folder")?;
        let found = licence_files(folder, DEPTH_MAX)?;
        if found.is_empty() {
            problems.push(format!("{name} has no file with its licence"));
        }
        for path in found {
            add(&mut texts, &path, &name)?;
        }
    }
    let npm = root.join(NPM.1);
    if npm.exists() {
        add(&mut texts, &npm, NPM.0)?;
    }
    fs::write(file, page(&packages, &texts)).with_context(|| file.display().to_string())?;
    if problems.is_empty() {
        println!("licences: {} packages, {} texts", packages.len(), texts.len());
    }
    Ok(problems)
}

fn add(texts: &mut Texts, path: &Path, name: &str) -> anyhow::Result<()> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let text = normalized(&String::from_utf8_lossy(&bytes));
    let names = texts.entry(text).or_default();
    if names.last().is_none_or(|last| last != name) {
        names.push(name.to_owned());
    }
    Ok(())
}

/// Without what differs between copies of one text: trailing space, and empty lines around it.
fn normalized(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

fn licence_files(folder: &Path, depth: usize) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        // Links could lead out of the package.
        if entry.file_type()?.is_dir() {
            if depth > 0 {
                found.extend(licence_files(&path, depth - 1)?);
            }
        } else if entry.file_type()?.is_file() && is_licence(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether the name is that of a licence and not of a program about licences.
fn is_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_text = path.extension().is_none_or(|extension| {
        let code = ["rs", "c", "h", "py", "go", "pl", "sh", "json", "toml", "yml"];
        !code.iter().any(|it| extension.eq_ignore_ascii_case(it))
    });
    is_text && STEMS.iter().any(|stem| name.starts_with(stem))
}

fn page(packages: &[&Package], texts: &Texts) -> String {
    let mut page = "Weir is licensed under Apache-2.0 (LICENSE). Its program contains the packages below and the standard \
         library of Rust\n(MIT OR Apache-2.0; its texts are among these). Each text stands once, after the packages that it \
         came with.\n\n"
        .to_owned();
    for package in packages {
        let licence = package.license.as_deref().unwrap_or("see its text");
        page.push_str(&format!("{} {}: {licence}\n", package.name, package.version));
    }
    for (text, names) in texts {
        page.push_str(&format!("\n{}\n{}\n\n{text}\n", "=".repeat(100), names.join(", ")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_found_by_name() {
        for (name, is) in [
            ("LICENSE", true),
            ("LICENSE-MIT", true),
            ("license-apache.txt", true),
            ("COPYING.md", true),
            ("NOTICE", true),
            ("license.rs", false),
            ("README.md", false),
        ] {
            assert_eq!(is_licence(Path::new(name)), is, "{name}");
        }
    }

    #[test]
    fn equal_texts_are_written_once() {
        let folder = std::env::temp_dir().join(format!("weir-licences-{}", std::process::id()));
        fs::create_dir_all(folder.join("third_party")).unwrap();
        fs::write(folder.join("LICENSE"), "\nMay be used. \r\n").unwrap();
        fs::write(folder.join("third_party/LICENSE"), "May be used.").unwrap();
        let mut texts = Texts::new();
        for path in licence_files(&folder, 1).unwrap() {
            add(&mut texts, &path, "a 1.0.0").unwrap();
        }
        add(&mut texts, &folder.join("LICENSE"), "b 1.0.0").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let names = ["a 1.0.0", "b 1.0.0"].map(str::to_owned).to_vec();
        assert_eq!(texts, [("May be used.".to_owned(), names)].into());
    }
}
