//! Checks that words that docs/glossary.md replaces are not used where users read them: in the pages, the console's
//! templates and the string literals of the product. (`--help` and the descriptions of settings are pages of
//! docs/reference.)
//!
//! The glossary marks rejected words with an asterisk in the last column of its tables.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use crate::literals::{self, Text};

const GLOSSARY: &str = "docs/glossary.md";

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let glossary = fs::read_to_string(root.join(GLOSSARY)).context(GLOSSARY)?;
    let words = rejected_words(&glossary);
    ensure!(
        !words.is_empty(),
        "{GLOSSARY} rejects no word: its tables are not as this check reads them"
    );
    let mut problems = Vec::new();
    for Text { file, line, text } in literals::read(root)? {
        if file != GLOSSARY {
            let used = used_words(&text, &words);
            problems.extend(used.map(|word| {
                format!("{file}:{line}: \"{word}\" is replaced by another word in {GLOSSARY}")
            }));
        }
    }
    if problems.is_empty() {
        println!("words: none of {} rejected words is used", words.len());
    }
    Ok(problems)
}

/// Returns the words with an asterisk in the last column of the glossary's tables, in lower case.
fn rejected_words(glossary: &str) -> Vec<String> {
    let rows = glossary.lines().filter_map(|line| line.trim().strip_prefix('|')?.strip_suffix('|'));
    let cells = rows.filter_map(|row| row.rsplit('|').next());
    let entries = cells.flat_map(|cell| cell.split(','));
    entries.filter_map(|entry| entry.trim().strip_suffix('*')).map(str::to_lowercase).collect()
}

/// Returns the words that occur in the text as whole words, in upper or lower case.
fn used_words<'a>(text: &str, words: &'a [String]) -> impl Iterator<Item = &'a str> {
    let text = text.to_lowercase();
    words.iter().map(String::as_str).filter(move |word| {
        text.match_indices(word).any(|(at, _)| {
            let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
            let (before, behind) = (&text[..at], &text[at + word.len()..]);
            !is_letter(before.chars().next_back()) && !is_letter(behind.chars().next())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_an_asterisk_are_rejected() {
        let glossary = "| word | meaning | not |\n| --- | --- | --- |\n\
             | recent | a | lately*, Of late*, now |\n| lock | b | hold, turn |\ntext with lately*\n";
        assert_eq!(rejected_words(glossary), ["lately", "of late"]);
    }

    #[test]
    fn only_whole_words_are_found() {
        let words = ["in hand".to_owned(), "lately".to_owned()];
        let found = |text| used_words(text, &words).collect::<Vec<_>>();
        assert_eq!(found("Jobs in Hand, lately."), ["in hand", "lately"]);
        assert!(found("in handy places, philately").is_empty());
    }
}
