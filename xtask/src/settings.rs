//! How many settings there are, by section: the rows of their generated reference.

use std::fs;
use std::path::Path;

use anyhow::Context;

const REFERENCE: &str = "docs/reference/settings.md";

pub(crate) fn report(root: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(root.join(REFERENCE)).context(REFERENCE)?;
    let sections = count(&text);
    for (section, settings) in &sections {
        println!("{settings:>4} {section}");
    }
    let total: usize = sections.iter().map(|(_, settings)| settings).sum();
    println!("settings: {total} in {} sections", sections.len());
    Ok(())
}

/// Sections in their order, each with its settings. A setting is a row that begins with a key in
/// backquotes.
fn count(text: &str) -> Vec<(String, usize)> {
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
    fn rows_with_a_key_are_counted_by_section() {
        let text = "# Settings\n| `x` | no section |\n\n## Top level\n\n| setting | type |\n| --- | --- |\n\
                    | `a` | path |\n\n## `[b.c]`\nWords.\n\n| setting |\n| --- |\n| `d` |\n| `e` |\n\n## More\nWords.\n";
        assert_eq!(count(text), [("Top level".to_owned(), 1), ("[b.c]".to_owned(), 2)]);
    }
}
