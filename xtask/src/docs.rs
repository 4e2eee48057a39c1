//! Checks the texts of the repository: links resolve, docs/SUMMARY.md lists all pages, each request of the admin API is
//! described, and no file names a developer's machine or a package mirror.
//!
//! The tests of the binary, which generates docs/reference, check that it has all settings and commands.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::site_check;

/// Source files that define requests of the admin API, with the prefix of their paths.
const ROUTES: [(&str, &str); 9] = [
    ("crates/weir-admin/src/jobs.rs", "/v1/jobs"),
    ("crates/weir-admin/src/gems.rs", "/v1/gems"),
    ("crates/weir-admin/src/measured.rs", "/v1"),
    ("crates/weir-admin/src/observed/json.rs", "/v1"),
    ("crates/weir-admin/src/realtime.rs", "/v1/realtime"),
    ("crates/weir-admin/src/restart.rs", "/v1"),
    ("crates/weir-admin/src/switches.rs", "/v1"),
    ("crates/weir-admin/src/workers.rs", "/v1"),
    ("crates/weir-admin/src/status.rs", ""),
];
const ADMIN_API: &str = "docs/reference/admin-api.md";

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = tracked(root)?;
    let mut problems = undocumented_routes(root)?;
    problems.extend(site_check::check(weir_docs::library()));
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

fn undocumented_routes(root: &Path) -> anyhow::Result<Vec<String>> {
    let page = fs::read_to_string(root.join(ADMIN_API)).context(ADMIN_API)?;
    let mut problems = Vec::new();
    for (file, prefix) in ROUTES {
        let source = fs::read_to_string(root.join(file)).context(file)?;
        let routes = source.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next());
        for route in routes {
            let whole = if route == "/status" {
                "/v1/status".to_owned()
            } else {
                format!("{prefix}{route}")
            };
            if !page.contains(&format!("{whole}`")) && !page.contains(&format!("{whole}?")) {
                problems.push(format!("{ADMIN_API}: {whole} ({file}) is not described"));
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
