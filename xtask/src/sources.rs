//! The Rust files of the workspace by crate: their lines, and their tokens without test code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;
use proc_macro2::TokenStream;

use crate::metadata::Metadata;
use crate::test_items;

#[derive(Debug)]
pub(crate) struct CrateSources {
    pub(crate) name: String,
    pub(crate) files: Vec<SourceFile>,
}

#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Relative to the folder of the crate, such as `src/engine/head.rs`.
    pub(crate) path: String,
    /// All lines: code, comments and empty ones.
    pub(crate) lines: usize,
    /// Those of tests: all lines of a test file, otherwise the items under `#[cfg(test)]`.
    pub(crate) test_lines: usize,
    /// Without items under `#[cfg(test)]`; empty for a test file.
    pub(crate) tokens: TokenStream,
}

/// Returns the crates of the workspace by name, each with its files by path.
pub(crate) fn read(metadata: &Metadata) -> anyhow::Result<Vec<CrateSources>> {
    let crates = metadata.members().map(|member| {
        let folder = member.folder().with_context(|| format!("{} has no folder", member.name))?;
        let texts = files(folder)?.into_iter().map(|path| {
            let text = fs::read_to_string(folder.join(&path)).with_context(|| path.clone())?;
            Ok((path, text))
        });
        let texts: Vec<(String, String)> = texts.collect::<anyhow::Result<_>>()?;
        Ok(CrateSources { name: member.name.clone(), files: parse_files(&texts)? })
    });
    let mut crates: Vec<CrateSources> = crates.collect::<anyhow::Result<_>>()?;
    crates.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(crates)
}

/// Returns the Rust files in a folder and those below, relative to it.
pub(crate) fn files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut paths = Vec::new();
    rust_files(folder, folder, &mut paths)?;
    paths.sort();
    Ok(paths)
}

fn rust_files(base: &Path, folder: &Path, paths: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            // What is built or downloaded is not ours.
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                rust_files(base, &path, paths)?;
            }
        } else if name.ends_with(".rs") {
            paths.push(path.strip_prefix(base)?.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

/// Parses the files of one crate, given as path and text.
pub(crate) fn parse_files(texts: &[(String, String)]) -> anyhow::Result<Vec<SourceFile>> {
    let mut test_modules = BTreeSet::new();
    let mut files = Vec::new();
    for (path, text) in texts {
        let tokens: TokenStream =
            text.parse().map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
        let split = test_items::split(tokens);
        let folder = folder_of_modules(path);
        test_modules.extend(split.test_modules.iter().map(|name| format!("{folder}{name}")));
        files.push(SourceFile {
            path: path.clone(),
            lines: text.lines().count(),
            test_lines: split.test_lines,
            tokens: split.remaining,
        });
    }
    for file in &mut files {
        if is_test_path(&file.path) || is_within(&file.path, &test_modules) {
            file.test_lines = file.lines;
            file.tokens = TokenStream::new();
        }
    }
    Ok(files)
}

impl SourceFile {
    pub(crate) fn is_test(&self) -> bool {
        self.test_lines == self.lines
    }

    pub(crate) fn source_lines(&self) -> usize {
        self.lines - self.test_lines
    }
}

/// Returns whether the file is a test. Outside `src`, only the build script is source; benchmarks, examples and fuzz
/// targets count as tests.
fn is_test_path(path: &str) -> bool {
    let is_source = path.starts_with("src/") || path == "build.rs";
    !is_source || path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// Returns whether the file is one of these modules, or a module below one.
fn is_within(path: &str, modules: &BTreeSet<String>) -> bool {
    let module = path.trim_end_matches(".rs");
    let ends = module.match_indices('/').map(|(at, _)| at).chain([module.len()]);
    ends.map(|end| &module[..end]).any(|prefix| modules.contains(prefix))
}

/// Returns the folder of the file's child modules: `src/` for `src/lib.rs`, `src/a/` for `src/a.rs`.
fn folder_of_modules(path: &str) -> String {
    let module = path.trim_end_matches(".rs");
    let (folder, name) = module.rsplit_once('/').unwrap_or(("", module));
    if ["lib", "main", "mod"].contains(&name) { format!("{folder}/") } else { format!("{module}/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[(&str, &str)]) -> Vec<(String, usize, usize)> {
        let texts: Vec<(String, String)> =
            texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let files = parse_files(&texts).unwrap();
        let counts =
            files.iter().map(|file| (file.path.clone(), file.source_lines(), file.test_lines));
        counts.collect()
    }

    #[test]
    fn modules_below_a_test_module_are_tests() {
        let counts = parse(&[
            ("src/lib.rs", "mod a;\n\nmod simulated;\n"),
            ("src/a.rs", "struct A;\n#[cfg(test)]\nmod simulated;\n"),
            ("src/a/simulated.rs", "fn f() {}\n"),
            ("src/a/simulated/disk.rs", "fn f() {}\n"),
            ("src/a/simulated_too.rs", "fn f() {}\n"),
            ("src/simulated.rs", "fn f() {}\n"),
        ]);
        let tests: Vec<usize> = counts.iter().map(|(_, _, tests)| *tests).collect();
        assert_eq!(tests, [0, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn test_files_are_recognised_by_path() {
        for (path, expected) in [
            ("src/a/tests.rs", true),
            ("src/a/tests/b.rs", true),
            ("tests/it/main.rs", true),
            ("benches/ring.rs", true),
            ("src/a/contests.rs", false),
            ("build.rs", false),
        ] {
            assert_eq!(is_test_path(path), expected, "{path}");
        }
    }
}
