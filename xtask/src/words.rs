//! Words that docs/glossary.md replaces must not be where a user reads them: in the pages, the console's templates
//! and the string literals of the product. (`--help` and the descriptions of settings are pages of docs/reference.)
//!
//! The glossary marks rejected words with an asterisk in the last column of its tables.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use proc_macro2::{TokenStream, TokenTree};

use crate::sources;
use crate::{docs, metadata};

const GLOSSARY: &str = "docs/glossary.md";

/// Crates whose texts no user of the product reads.
const TOOLS: [&str; 2] = ["weir-bench", "xtask"];

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let glossary = fs::read_to_string(root.join(GLOSSARY)).context(GLOSSARY)?;
    let words = rejected(&glossary);
    ensure!(!words.is_empty(), "{GLOSSARY} rejects no word: its tables are not as this check reads them");
    let mut problems = Vec::new();
    for file in docs::tracked(root)?.iter().filter(|file| is_page(file)) {
        // A file that is deleted and not yet removed from the index is not read.
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        for (at, line) in text.lines().enumerate() {
            problems.extend(uses(line, &words).map(|word| problem(file, at + 1, word)));
        }
    }
    for sources in sources::read(&metadata::read(root)?)? {
        if TOOLS.contains(&sources.name.as_str()) {
            continue;
        }
        for file in sources.files {
            let path = format!("crates/{}/{}", sources.name, file.path);
            for (line, text) in literals(file.tokens) {
                problems.extend(uses(&text, &words).map(|word| problem(&path, line, word)));
            }
        }
    }
    if problems.is_empty() {
        println!("words: none of {} rejected words is used", words.len());
    }
    Ok(problems)
}

fn problem(file: &str, line: usize, word: &str) -> String {
    format!("{file}:{line}: \"{word}\" is replaced by another word in {GLOSSARY}")
}

fn is_page(file: &str) -> bool {
    let is_template = file.starts_with("crates/weir-console/templates/");
    (file.ends_with(".md") && file != GLOSSARY) || is_template
}

/// The words with an asterisk in the last column of the glossary's tables, in lower case.
fn rejected(glossary: &str) -> Vec<String> {
    let rows = glossary.lines().filter_map(|line| line.trim().strip_prefix('|')?.strip_suffix('|'));
    let cells = rows.filter_map(|row| row.rsplit('|').next());
    let entries = cells.flat_map(|cell| cell.split(','));
    entries.filter_map(|entry| entry.trim().strip_suffix('*')).map(str::to_lowercase).collect()
}

/// Those of the words that are in the text as whole words, in upper or lower case.
fn uses<'a>(text: &str, words: &'a [String]) -> impl Iterator<Item = &'a str> {
    let text = text.to_lowercase();
    words.iter().map(String::as_str).filter(move |word| {
        text.match_indices(word).any(|(at, _)| {
            let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
            let (before, behind) = (&text[..at], &text[at + word.len()..]);
            !is_letter(before.chars().next_back()) && !is_letter(behind.chars().next())
        })
    })
}

/// String literals with their lines, without comments.
fn literals(tokens: TokenStream) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                // A comment of documentation is an attribute to the compiler.
                let is_comment = |token: &TokenTree| matches!(token, TokenTree::Group(group) if is_doc(group.stream()));
                tokens.next_if(is_comment);
            }
            TokenTree::Group(group) => found.extend(literals(group.stream())),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') {
                    found.push((literal.span().start().line, text));
                }
            }
            _ => {}
        }
    }
    found
}

fn is_doc(attribute: TokenStream) -> bool {
    matches!(attribute.into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_an_asterisk_are_rejected() {
        let glossary = "| word | meaning | not |\n| --- | --- | --- |\n\
             | recent | a | lately*, Of late*, now |\n| lock | b | hold, turn |\ntext with lately*\n";
        assert_eq!(rejected(glossary), ["lately", "of late"]);
    }

    #[test]
    fn only_whole_words_are_found() {
        let words = ["in hand".to_owned(), "lately".to_owned()];
        let found = |text| uses(text, &words).collect::<Vec<_>>();
        assert_eq!(found("Jobs in Hand, lately."), ["in hand", "lately"]);
        assert!(found("in handy places, philately").is_empty());
    }

    #[test]
    fn literals_are_read_and_comments_are_not() {
        let text = "/// doc\n#[error(\"one\")]\nfn a() {\n b(\"two\", 'c', r#\"three\"#); // four\n}";
        let found = literals(text.parse().unwrap());
        assert_eq!(found, [(2, "\"one\"".to_owned()), (4, "\"two\"".to_owned()), (4, "r#\"three\"#".to_owned())]);
    }
}
