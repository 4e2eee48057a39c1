//! Circles of files: files of one crate that use each other in a loop, so that none can be understood,
//! moved or tested without the others.
//!
//! - [`module`] reads what a file declares, imports and names.
//! - [`uses`] finds for each name the file that declares it.
//!
//! The table "Allowed circles" of ARCHITECTURE.md lists the existing circles. The check fails when a circle was added
//! or has grown, and when one has shrunk, so that the table stays current.

mod module;
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::metadata;
use crate::sources;
use uses::Uses;

const HEADING: &str = "## Allowed circles";

/// The numbers of files in a crate's circles, largest first.
type Sizes = Vec<usize>;

/// Prints the circles of each crate; for the crate `only`, also the names that cause them.
pub(crate) fn report(root: &Path, only: Option<&str>) -> anyhow::Result<()> {
    let crates = sources::read(&metadata::read(root)?)?;
    if let Some(name) = only {
        anyhow::ensure!(crates.iter().any(|it| it.name == name), "there is no crate {name:?}");
    }
    let (mut count, mut files) = (0, 0);
    for sources in crates.iter().filter(|it| only.is_none_or(|name| it.name == name)) {
        let uses = uses::from_files(&sources.files);
        let circles = circles(&uses);
        count += circles.len();
        files += circles.iter().map(BTreeSet::len).sum::<usize>();
        println!(
            "{}: {} files, circles of {}",
            sources.name,
            uses.len(),
            format_sizes(&sizes(&circles))
        );
        for circle in &circles {
            let members: Vec<&str> = circle.iter().map(|file| without_folder(file)).collect();
            println!("  {} files: {}", circle.len(), members.join(", "));
            if only.is_some() {
                print_ties(circle, &uses);
            }
        }
    }
    println!("circles: {count} with {files} files");
    Ok(())
}

fn print_ties(circle: &BTreeSet<&str>, uses: &Uses) {
    for (user, targets) in uses.iter().filter(|(user, _)| circle.contains(user.as_str())) {
        for (used, names) in targets.iter().filter(|(used, _)| circle.contains(used.as_str())) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (user, used) = (without_folder(user), without_folder(used));
            println!("    {user} -> {used}: {}", names.join(", "));
        }
    }
}

fn without_folder(path: &str) -> &str {
    path.strip_prefix("src/").unwrap_or(path)
}

/// Returns an error for each crate whose circles differ from the table.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    anyhow::ensure!(text.contains(HEADING), "ARCHITECTURE.md has no table under {HEADING:?}");
    let crates = sources::read(&metadata::read(root)?)?;
    let actual =
        crates.iter().map(|it| (it.name.clone(), sizes(&circles(&uses::from_files(&it.files)))));
    let actual: BTreeMap<String, Sizes> = actual.collect();
    let problems = compare(&parse_allowed(&text), &actual);
    if problems.is_empty() {
        let count: usize = actual.values().map(Vec::len).sum();
        println!("edges: {count} circles of files, all in the table");
    }
    Ok(problems)
}

/// Returns the sets of two or more files that all use each other, directly or through others of the set; largest
/// first.
fn circles(uses: &Uses) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|file| (file.as_str(), reachable(uses, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, others) in &reached {
        let mutual = others.iter().filter(|other| reached[*other].contains(file));
        let circle: BTreeSet<&str> = mutual.copied().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| usize::MAX - circle.len());
    circles
}

/// Returns all files that a file uses, directly or through others.
fn reachable<'a>(uses: &'a Uses, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for target in uses.get(file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(target.as_str()) {
                open.push(target);
            }
        }
    }
    reached
}

fn sizes(circles: &[BTreeSet<&str>]) -> Sizes {
    circles.iter().map(BTreeSet::len).collect()
}

fn format_sizes(sizes: &[usize]) -> String {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    if sizes.is_empty() { "-".to_owned() } else { sizes.join(", ") }
}

/// Parses the rows `| crate | sizes |` below the heading, up to the next heading.
fn parse_allowed(text: &str) -> BTreeMap<String, Sizes> {
    let section = text.split_once(HEADING).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| {
        let (name, sizes) = line.trim().strip_prefix('|')?.split_once('|')?;
        let numbers = sizes.split(|letter: char| !letter.is_ascii_digit());
        let sizes: Sizes = numbers.filter_map(|number| number.parse().ok()).collect();
        (!sizes.is_empty()).then(|| (name.trim().to_owned(), sizes))
    });
    rows.collect()
}

fn compare(allowed: &BTreeMap<String, Sizes>, actual: &BTreeMap<String, Sizes>) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, sizes) in actual {
        let allowed = allowed.get(name).map_or(&[][..], Vec::as_slice);
        let has_grown = sizes.len() > allowed.len()
            || sizes.iter().zip(allowed).any(|(actual, allowed)| actual > allowed);
        if has_grown {
            problems.push(format!(
                "{name}: circles of {} files, allowed are {} (ARCHITECTURE.md, {HEADING:?}); \
                 `cargo xtask circles {name}` names what ties them",
                format_sizes(sizes),
                format_sizes(allowed)
            ));
        } else if sizes != allowed {
            problems.push(format!(
                "ARCHITECTURE.md: circles of {name} have shrunk; under {HEADING:?} write `| {name} | {} |`",
                format_sizes(sizes)
            ));
        }
    }
    let unknown = allowed.keys().filter(|name| !actual.contains_key(*name));
    problems.extend(unknown.map(|name| format!("ARCHITECTURE.md: there is no crate {name}")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(edges: &[(&str, &str)]) -> Uses {
        let mut uses = Uses::new();
        for (user, used) in edges {
            uses.entry((*used).to_owned()).or_default();
            let targets = uses.entry((*user).to_owned()).or_default();
            targets.entry((*used).to_owned()).or_default();
        }
        uses
    }

    #[test]
    fn circles_are_found_and_chains_ignored() {
        let uses = uses(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("c", "d"),
            ("d", "e"),
            ("e", "d"),
            ("f", "a"),
            ("e", "g"),
        ]);
        let expected: [BTreeSet<&str>; 2] = [["a", "b", "c"].into(), ["d", "e"].into()];
        assert_eq!(circles(&uses), expected);
        assert!(circles(&self::uses(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    }

    #[test]
    fn sizes_are_parsed_from_the_table() {
        let text = "## Allowed circles\n\n| crate | files |\n| --- | --- |\n| a | 21, 3 |\n\n## More\n| b | 2 |\n";
        assert_eq!(parse_allowed(text), [("a".to_owned(), vec![21, 3])].into());
    }

    #[test]
    fn changed_circle_sizes_are_reported() {
        let sizes = |sizes: &[usize]| [("a".to_owned(), sizes.to_vec())].into();
        let check = |actual: &[usize]| compare(&sizes(&[5, 3]), &sizes(actual)).join("");
        assert_eq!(check(&[5, 3]), "");
        for grown in [&[6, 3][..], &[5, 4], &[5, 3, 2]] {
            assert!(check(grown).starts_with("a: circles of"), "{grown:?}");
        }
        for (shrunk, row) in
            [(&[5, 2][..], "`| a | 5, 2 |`"), (&[5], "`| a | 5 |`"), (&[], "`| a | - |`")]
        {
            assert!(check(shrunk).ends_with(row), "{shrunk:?}");
        }
        assert_eq!(
            compare(&sizes(&[2]), &BTreeMap::new()),
            ["ARCHITECTURE.md: there is no crate a"]
        );
    }
}
