//! docs/SUMMARY.md: the pages by section, in the order of reading.

/// The file that lists the pages.
pub const FILE: &str = "SUMMARY.md";

/// A section: the lines `- [Title](file.md): what it is about` below a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub title: String,
    pub entries: Vec<Entry>,
}

/// A page of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub title: String,
    /// The file, from docs/.
    pub path: String,
    pub about: String,
}

pub(crate) fn parse(text: &str) -> Vec<Section> {
    let mut sections = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title: title.to_owned(), entries: Vec::new() });
        } else if let (Some(entry), Some(section)) = (entry(line), sections.last_mut()) {
            section.entries.push(entry);
        }
    }
    sections
}

fn entry(line: &str) -> Option<Entry> {
    let (title, rest) = line.strip_prefix("- [")?.split_once("](")?;
    let (path, about) = rest.split_once(')')?;
    let about = about.trim_start_matches(':').trim();
    Some(Entry { title: title.to_owned(), path: path.to_owned(), about: about.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_list_are_entries() {
        let text = "# Docs\n- [no](section.md)\n\n## One\ntext\n- [A b](a/b.md): about (it)\n- [C](c.md)\n## Two\n";
        let entry = |title: &str, path: &str, about: &str| Entry {
            title: title.to_owned(),
            path: path.to_owned(),
            about: about.to_owned(),
        };
        let entries = vec![entry("A b", "a/b.md", "about (it)"), entry("C", "c.md", "")];
        let section = |title: &str, entries| Section { title: title.to_owned(), entries };
        assert_eq!(parse(text), [section("One", entries), section("Two", Vec::new())]);
    }
}
