//! Checks the texts of the repository: links resolve, docs/SUMMARY.md lists all pages, each request of the admin API is
//! described, and no file names a developer's machine or a package mirror.
//!
//! The tests of the binary, which generates docs/reference, check that it has all settings and commands.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{doc_tests, site_check};

/// Source files that define requests of the admin API.
const ROUTES: &str = "crates/weir-admin/src/";
/// Generated from the routes; a test of weir-admin checks that it is up to date.
const OPENAPI: &str = "docs/reference/openapi.json";

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = tracked(root)?;
    let mut problems = undocumented_routes(root, &files)?;
    problems.extend(site_check::check(weir_docs::library()));
    problems.extend(doc_tests::check(root)?);
    let mut pages = 0;
    for file in &files {
        // Not text, or gone from the folder but not from the index.
        let Ok(text) = fs::read_to_string(root.join(file)) else {
            continue;
        };
        problems.extend(machine_paths(file, &text));
        if file.ends_with("package-lock.json") {
            problems.extend(foreign_registries(file, &text));
        }
        if file.ends_with(".md") {
            pages += 1;
            problems.extend(dead_links(root, file, &text));
        }
    }
    if problems.is_empty() {
        println!("docs: {pages} pages and {} files, all in order", files.len());
    }
    Ok(problems)
}

pub(crate) fn tracked(root: &Path) -> anyhow::Result<Vec<String>> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(arguments).current_dir(root).output().context("git")?;
    ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    let files = String::from_utf8(output.stdout)?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// Returns the routes of the admin API that are not in its document: those that were added without a description.
fn undocumented_routes(root: &Path, files: &[String]) -> anyhow::Result<Vec<String>> {
    let document = fs::read_to_string(root.join(OPENAPI)).context(OPENAPI)?;
    let document: serde_json::Value = serde_json::from_str(&document).context(OPENAPI)?;
    let paths: Vec<&String> =
        document["paths"].as_object().map(|paths| paths.keys().collect()).unwrap_or_default();
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.starts_with(ROUTES) && file.ends_with(".rs")) {
        let source = fs::read_to_string(root.join(file)).with_context(|| file.clone())?;
        let routes = source.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next());
        // The error of a part that is not served has a route for all of its paths.
        for route in routes.filter(|route| !route.contains("{*")) {
            if !paths.iter().any(|path| path.ends_with(route)) {
                problems.push(format!(
                    "{OPENAPI}: {route} ({file}) is not described: add it with ApiRoutes"
                ));
            }
        }
    }
    Ok(problems)
}

/// Folders on developers' machines; split so that this file passes the check.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];

fn machine_paths(file: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let hits = lines.filter(|(_, line)| MACHINE_PATHS.iter().any(|path| names_path(line, path)));
    hits.map(|(number, _)| format!("{file}:{}: names a folder of one machine", number + 1))
        .collect()
}

/// Returns whether the line has this path at the start of a word: `a/root/` and `https://x/home/` do not count.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "._-/}".contains(letter))
    })
}

fn foreign_registries(file: &str, text: &str) -> Vec<String> {
    let resolved = text.lines().enumerate().filter(|(_, line)| line.contains("\"resolved\":"));
    // A package of this repository is a folder.
    let is_ours =
        |line: &str| line.contains("\"https://registry.npmjs.org/") || line.contains("\"../");
    let foreign = resolved.filter(|(_, line)| !is_ours(line));
    foreign
        .map(|(number, _)| format!("{file}:{}: not from registry.npmjs.org", number + 1))
        .collect()
}

pub(crate) fn dead_links(root: &Path, file: &str, text: &str) -> Vec<String> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !is_elsewhere && !link_target_exists(&root.join(folder), text, target) {
                problems.push(format!("{file}:{}: {target} leads nowhere", number + 1));
            }
        }
    }
    problems
}

/// Returns whether the file of a link exists, and has the heading that the link names.
fn link_target_exists(folder: &Path, text: &str, target: &str) -> bool {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = folder.join(path);
    if path.is_empty() {
        return has_anchor(text, heading);
    }
    match fs::read_to_string(&file) {
        Ok(other) if path.ends_with(".md") && !heading.is_empty() => has_anchor(&other, heading),
        _ => file.exists(),
    }
}

fn has_anchor(text: &str, anchor: &str) -> bool {
    weir_docs::anchors(text).iter().any(|it| it == anchor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found_and_urls_ignored() {
        let path = MACHINE_PATHS[0];
        assert_eq!(
            machine_paths("a.md", &format!("x\nin {path}x")),
            ["a.md:2: names a folder of one machine"]
        );
        assert!(machine_paths("a.md", &format!("https://x{path}")).is_empty());
        assert!(machine_paths("a.md", "`/var/lib/weir`").is_empty());
    }

    #[test]
    fn only_links_into_the_repository_are_followed() {
        let root = crate::root().expect("the repository");
        let text = "## Here: `it` is\n[a](xtask/Cargo.toml#x) [b](https://example.org/) [c](#here-it-is)\n\
             [d](no/such.md) [e](#there) [f](ARCHITECTURE.md#the-crates) [g](ARCHITECTURE.md#crates)";
        let dead = ["no/such.md", "#there", "ARCHITECTURE.md#crates"];
        let dead = dead.map(|target| format!("README.md:3: {target} leads nowhere"));
        assert_eq!(dead_links(&root, "README.md", text), dead);
    }
}
