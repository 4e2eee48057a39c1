//! Compares the table "Allowed edges" of ARCHITECTURE.md with the manifests of the crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::metadata::{self, Metadata};

const HEADING: &str = "## Allowed edges";

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Returns an error for each edge that the table does not allow, and for each crate that it does not list.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let allowed = parse_allowed(&text);
    anyhow::ensure!(!allowed.is_empty(), "ARCHITECTURE.md has no table under {HEADING:?}");
    let actual = actual(&metadata::read(root)?);
    let problems = compare(&allowed, &actual);
    if problems.is_empty() {
        let count: usize = actual.values().map(BTreeSet::len).sum();
        println!("edges: {count} between {} crates, all allowed", actual.len());
    }
    Ok(problems)
}

/// Parses the rows `| crate | may depend on |` below the heading, up to the next heading.
fn parse_allowed(text: &str) -> Edges {
    let section = text.split_once(HEADING).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| {
        let (name, others) = line.trim().strip_prefix('|')?.split_once('|')?;
        let name = names(name).next()?;
        (name != "crate").then(|| (name, names(others).collect()))
    });
    rows.collect()
}

/// Returns the words that can be crate names; a cell may also contain punctuation.
fn names(cell: &str) -> impl Iterator<Item = String> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    cell.split(move |letter| !is_part(letter))
        .filter(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase()))
        .map(str::to_owned)
}

fn actual(metadata: &Metadata) -> Edges {
    let members: BTreeSet<&str> = metadata.members().map(|member| member.name.as_str()).collect();
    let edges = metadata.members().map(|member| {
        // What only tests need is not built into anything.
        let built = member.dependencies.iter().filter(|it| it.kind.as_deref() != Some("dev"));
        let own = built.map(|dependency| dependency.name.as_str());
        let own = own.filter(|name| members.contains(name) && *name != member.name);
        (member.name.clone(), own.map(str::to_owned).collect())
    });
    edges.collect()
}

fn compare(allowed: &Edges, actual: &Edges) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, dependencies) in actual {
        match allowed.get(name) {
            None => problems.push(format!("ARCHITECTURE.md: {name} has no row under {HEADING:?}")),
            Some(allowed) => problems.extend(dependencies.difference(allowed).map(|forbidden| {
                format!("{name} must not depend on {forbidden} (ARCHITECTURE.md, {HEADING:?})")
            })),
        }
    }
    let unknown = allowed.keys().filter(|name| !actual.contains_key(*name));
    problems.extend(unknown.map(|name| format!("ARCHITECTURE.md: there is no crate {name}")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A\n## Allowed edges\nWords.\n\n| crate | may depend on |\n| --- | --- |\n\
                        | `weir` | `weir-jobs`, `weir-base` |\n| `weir-jobs` | `weir-base` |\n\
                        | `weir-base` | - |\n\n## More\n| `x` | `y` |\n";

    fn edges(edges: &[(&str, &[&str])]) -> Edges {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        edges.iter().map(|(name, names)| ((*name).to_owned(), set(names))).collect()
    }

    #[test]
    fn table_ends_at_the_next_heading() {
        let expected: &[(&str, &[&str])] = &[
            ("weir", &["weir-jobs", "weir-base"]),
            ("weir-jobs", &["weir-base"]),
            ("weir-base", &[]),
        ];
        assert_eq!(parse_allowed(TEXT), edges(expected));
    }

    #[test]
    fn test_dependencies_are_not_edges() {
        let metadata = r#"{"workspace_members":["a","b","c"],"packages":[
            {"id":"a","name":"a","version":"1","dependencies":[{"name":"b","kind":null},{"name":"c","kind":"dev"}]},
            {"id":"b","name":"b","version":"1","dependencies":[{"name":"c","kind":"build"}]},
            {"id":"c","name":"c","version":"1","dependencies":[]}]}"#;
        let metadata: Metadata = serde_json::from_str(metadata).unwrap();
        assert_eq!(actual(&metadata), edges(&[("a", &["b"]), ("b", &["c"]), ("c", &[])]));
    }

    #[test]
    fn forbidden_edges_and_unknown_crates_are_reported() {
        let actual: &[(&str, &[&str])] =
            &[("weir", &["weir-jobs"]), ("weir-jobs", &["weir"]), ("weir-new", &[])];
        assert_eq!(
            compare(&parse_allowed(TEXT), &edges(actual)),
            [
                "weir-jobs must not depend on weir (ARCHITECTURE.md, \"## Allowed edges\")",
                "ARCHITECTURE.md: weir-new has no row under \"## Allowed edges\"",
                "ARCHITECTURE.md: there is no crate weir-base",
            ]
        );
    }
}
