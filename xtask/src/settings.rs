//! Compares settings with their generated reference: counts them by section, and checks that settings named with
//! their section in pages and messages exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::literals::{self, Text};

const REFERENCE: &str = "docs/reference/settings.md";

pub(crate) fn report(root: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(root.join(REFERENCE)).context(REFERENCE)?;
    let sections = rows_by_section(&text);
    for (section, settings) in &sections {
        println!("{settings:>4} {section}");
    }
    let total: usize = sections.iter().map(|(_, settings)| settings).sum();
    println!("settings: {total} in {} sections", sections.len());
    Ok(())
}

/// Returns an error for each name such as `jobs.limits.line_bytes_max` in a page or string literal that is not in the
/// reference. CHANGELOG.md, which has old names, CONTRIBUTING.md, which has examples, and templates, where such a
/// name is code, are not checked.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let reference = fs::read_to_string(root.join(REFERENCE)).context(REFERENCE)?;
    let known = Known::read(&reference);
    let mut problems = Vec::new();
    for Text { file, line, text } in literals::read(root)? {
        let is_exempt =
            ["CHANGELOG.md", "CONTRIBUTING.md"].contains(&file.as_str()) || file.ends_with(".html");
        if !is_exempt && !file.starts_with("docs/reference/") {
            let unknown = known.unknown_keys(&text).into_iter();
            problems
                .extend(unknown.map(|name| format!("{file}:{line}: {name} is not in {REFERENCE}")));
        }
    }
    if problems.is_empty() {
        println!("settings: every name with a section is one of {}", known.paths.len());
    }
    Ok(problems)
}

/// The names in the reference.
struct Known {
    /// `jobs.limits`: sections of two words or more, so that `gems.rb` is not taken for a setting.
    sections: BTreeSet<String>,
    /// `jobs.limits.line_bytes_max`.
    paths: BTreeSet<String>,
}

impl Known {
    fn read(reference: &str) -> Self {
        let (mut sections, mut paths) = (BTreeSet::new(), BTreeSet::new());
        for section in reference.split("\n## ").skip(1) {
            let (heading, rows) = section.split_once('\n').unwrap_or((section, ""));
            let keys = rows.lines().filter_map(|row| row.strip_prefix("| `")?.split('`').next());
            let keys: Vec<_> = keys.collect();
            for heading in heading.split(", ") {
                let heading = heading.trim().trim_matches(['`', '[', ']']).to_owned();
                paths.extend(keys.iter().map(|key| format!("{heading}.{key}")));
                // All settings of a table may be in its table `advanced`.
                let table = heading.strip_suffix(".advanced").unwrap_or(&heading);
                let names = [table, &heading].into_iter().filter(|name| name.contains('.'));
                sections.extend(names.map(str::to_owned));
            }
        }
        Self { sections, paths }
    }

    /// Returns the names in the text that have an existing section and an unknown key.
    fn unknown_keys(&self, text: &str) -> Vec<String> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
        let names = text.split(|letter| !is_name(letter)).map(|name| name.trim_matches('.'));
        let unknown = names.filter(|name| {
            let is_section = |section: &str| self.sections.contains(section);
            let in_section = name.rsplit_once('.').is_some_and(|(section, _)| is_section(section));
            in_section && !is_section(name) && !self.paths.contains(*name)
        });
        unknown.map(str::to_owned).collect()
    }
}

/// Returns the sections in order, each with its number of settings. A setting is a row that begins with a key in
/// backquotes.
fn rows_by_section(text: &str) -> Vec<(String, usize)> {
    let sections = text.split("\n## ").skip(1).filter_map(|section| {
        let (heading, rows) = section.split_once('\n')?;
        let settings = rows.lines().filter(|row| row.starts_with("| `")).count();
        (settings > 0).then(|| (heading.trim().replace('`', ""), settings))
    });
    sections.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_a_known_section_are_compared() {
        let known = Known::read(
            "# S\n\n## `[a.b]`, `[[a.g]]`\n| `c_max` | x |\n\n## `[d]`\n| `e` | x |\n\n## `[a.b.f.advanced]`\n",
        );
        assert!(known.unknown_keys("raise a.b.c_max, a.g.c_max. Or a.b.f, d.x, a.x").is_empty());
        assert_eq!(known.unknown_keys("(a.b.d_max)"), ["a.b.d_max"]);
    }

    #[test]
    fn rows_with_a_key_are_counted_by_section() {
        let text = "# Settings\n| `x` | no section |\n\n## Top level\n\n| setting | type |\n| --- | --- |\n\
                    | `a` | path |\n\n## `[b.c]`\nWords.\n\n| setting |\n| --- |\n| `d` |\n| `e` |\n\n## More\nWords.\n";
        assert_eq!(rows_by_section(text), [("Top level".to_owned(), 1), ("[b.c]".to_owned(), 2)]);
    }
}
