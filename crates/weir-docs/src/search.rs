//! Search over the headings, settings and texts of all pages.

use crate::page::{Page, Passage};
use crate::site::Site;

/// Characters of a query that are searched for; the rest is ignored.
pub const QUERY_CHARS_MAX: usize = 200;
/// Words of a query that are searched for; the rest is ignored.
const WORDS_MAX: usize = 8;
/// Results that are returned.
pub const HITS_MAX: usize = 50;
/// Bytes of an excerpt, and those before its first match.
const EXCERPT_BYTES: usize = 240;
const EXCERPT_BYTES_BEFORE: usize = 60;

/// The results of a search.
#[derive(Debug)]
pub struct SearchResults {
    /// The best first, up to [`HITS_MAX`].
    pub hits: Vec<Hit>,
    /// The number of all.
    pub total: usize,
}

/// A section of a page, or a setting, with all words of the query.
#[derive(Debug)]
pub struct Hit {
    pub page: String,
    /// The heading; empty if it is the title of the page.
    pub heading: String,
    /// In the console.
    pub address: String,
    pub excerpt: Vec<Fragment>,
}

/// A part of an excerpt.
#[derive(Debug, PartialEq, Eq)]
pub struct Fragment {
    pub text: String,
    pub is_match: bool,
}

/// The passages of all pages.
#[derive(Debug)]
pub(crate) struct SearchIndex {
    entries: Vec<IndexEntry>,
}

#[derive(Debug)]
struct IndexEntry {
    page: String,
    passage: Passage,
    /// Whether it is what follows the title of the page.
    is_first: bool,
    address: String,
}

impl SearchIndex {
    pub(crate) fn new<'a>(pages: impl Iterator<Item = (&'a str, Page)>) -> Self {
        let mut entries = Vec::new();
        for (path, page) in pages {
            let address = Site::Console.address("", path);
            entries.extend(page.passages.into_iter().enumerate().map(|(at, passage)| IndexEntry {
                page: page.title.clone(),
                address: format!("{address}#{}", passage.anchor),
                passage,
                is_first: at == 0,
            }));
        }
        Self { entries }
    }

    pub(crate) fn search(&self, query: &str) -> SearchResults {
        let words = words(query);
        let scored = self.entries.iter().filter_map(|entry| Some((entry.score(&words)?, entry)));
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let best = scored.iter().take(HITS_MAX);
        SearchResults {
            hits: best.map(|(_, entry)| entry.hit(&words)).collect(),
            total: scored.len(),
        }
    }
}

/// Returns the words of a query in lower case, within the limits.
fn words(query: &str) -> Vec<String> {
    let query: String = query.chars().take(QUERY_CHARS_MAX).collect();
    let has_letter = |word: &&str| word.contains(char::is_alphanumeric);
    let words = query.split_whitespace().filter(has_letter).take(WORDS_MAX);
    words.map(str::to_ascii_lowercase).collect()
}

impl IndexEntry {
    /// Returns how well the words match: in a title better than in a heading, there better than in the text, and a
    /// whole word better than its beginning. None: a word is missing, or all words are only in the page's title.
    fn score(&self, words: &[String]) -> Option<usize> {
        const TITLE: usize = 60;
        const HEADING: usize = 30;
        const EXACT_HEADING: usize = 40;
        const REPETITIONS_MAX: usize = 5;
        let page = self.page.to_ascii_lowercase();
        let heading = self.passage.title.to_ascii_lowercase();
        let text = self.passage.text.to_ascii_lowercase();
        let heading_weight = if self.is_first { TITLE } else { HEADING };
        let (mut score, mut is_here) = (0, false);
        for word in words {
            let in_text = matches(&text, word).count();
            if let Some(quality) = quality(&heading, word) {
                score += heading_weight * quality / 2;
                is_here = true;
            } else if in_text > 0 {
                score += in_text.min(REPETITIONS_MAX) * quality(&text, word)?;
                is_here = true;
            } else {
                quality(&page, word)?;
            }
        }
        let is_exact = heading == words.join(" ");
        is_here.then_some(score + if is_exact { EXACT_HEADING } else { 0 })
    }

    fn hit(&self, words: &[String]) -> Hit {
        Hit {
            page: self.page.clone(),
            heading: if self.is_first { String::new() } else { self.passage.title.clone() },
            address: self.address.clone(),
            excerpt: excerpt(&self.passage.text, words),
        }
    }
}

/// Returns 2 if the word is in the text, 1 if a longer one begins with it.
fn quality(text: &str, word: &str) -> Option<usize> {
    let is_whole = |at: usize| {
        let after = text[at + word.len()..].chars().next();
        !after.is_some_and(char::is_alphanumeric)
    };
    matches(text, word).map(|at| if is_whole(at) { 2 } else { 1 }).max()
}

/// Returns where a word of the text begins with `word`. Both are in lower case.
fn matches<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let starts_inside = |at: usize| {
        let before = text[..at].chars().next_back();
        word.starts_with(char::is_alphanumeric) && before.is_some_and(char::is_alphanumeric)
    };
    text.match_indices(word).map(|(at, _)| at).filter(move |at| !starts_inside(*at))
}

/// Returns the text around the first match.
fn excerpt(text: &str, words: &[String]) -> Vec<Fragment> {
    let lower = text.to_ascii_lowercase();
    let mut found: Vec<(usize, usize)> = Vec::new();
    for word in words {
        found.extend(matches(&lower, word).map(|at| (at, at + word.len())));
    }
    found.sort_unstable();
    let first = found.first().map_or(0, |(at, _)| *at);
    let start = word_start(text, first.saturating_sub(EXCERPT_BYTES_BEFORE));
    let end = word_start(text, start + EXCERPT_BYTES);
    let mut fragments = Vec::new();
    let mut push = |text: &str, is_match| {
        if !text.is_empty() {
            fragments.push(Fragment { text: text.to_owned(), is_match });
        }
    };
    push(if start > 0 { "… " } else { "" }, false);
    let mut at = start;
    for (from, to) in found.into_iter().filter(|(from, to)| *from >= start && *to <= end) {
        // Of two words that overlap, the first is marked.
        if from >= at {
            push(&text[at..from], false);
            push(&text[from..to], true);
            at = to;
        }
    }
    push(text[at..end].trim_end(), false);
    push(if end < text.len() { " …" } else { "" }, false);
    fragments
}

/// Returns the start of the word at a position, or the end of the text.
fn word_start(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    let at = text.floor_char_boundary(at);
    text[..at].rfind(' ').map_or(0, |space| space + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Library;

    fn library(pages: &[(&str, &str)]) -> Library {
        Library::new(
            pages.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())),
        )
    }

    fn addresses(library: &Library, query: &str) -> Vec<String> {
        library.search(query).hits.into_iter().map(|hit| hit.address).collect()
    }

    #[test]
    fn titles_precede_headings_and_headings_precede_texts() {
        let library = library(&[
            ("a.md", "# One\nA backlog, a backlog, a backlog, a backlog, a backlog, a backlog.\n"),
            ("b.md", "# Two\n## Draining a backlog\ntext\n"),
            ("c.md", "# A backlog\ntext\n## Other\ntext\n"),
        ]);
        let expected = ["/docs/c#a-backlog", "/docs/b#draining-a-backlog", "/docs/a#one"];
        assert_eq!(addresses(&library, "backlog"), expected);
        assert_eq!(addresses(&library, "BACKL"), expected, "a prefix");
        assert!(addresses(&library, "log").is_empty(), "no word begins with it");
        assert_eq!(addresses(&library, "drain backlog"), ["/docs/b#draining-a-backlog"]);
        assert!(addresses(&library, "drain missing").is_empty(), "all words are needed");
    }

    #[test]
    fn whole_words_and_whole_headings_come_first() {
        let library = library(&[("a.md", "# A\n## Jobs at once\n## Job types\n## Job\n")]);
        assert_eq!(
            addresses(&library, "job"),
            ["/docs/a#job", "/docs/a#job-types", "/docs/a#jobs-at-once"]
        );
    }

    #[test]
    fn the_title_of_a_page_counts_for_its_sections() {
        let library = library(&[
            ("a.md", "# Realtime\n## Members\ntext\n## Other\n"),
            ("b.md", "# Gems\n## Members\ntext\n"),
        ]);
        assert_eq!(addresses(&library, "realtime members"), ["/docs/a#members"]);
        assert_eq!(addresses(&library, "realtime"), ["/docs/a#realtime"]);
    }

    #[test]
    fn settings_are_found_by_name_and_by_key() {
        let library = library(&[(
            "reference/settings.md",
            "# Settings\n## `[jobs.limits]`\n\n| setting | default |\n| --- | --- |\n| `a_max` | 1 |\n",
        )]);
        for query in ["a_max", "jobs.limits.a_max", "max jobs", "a_m"] {
            assert_eq!(addresses(&library, query), ["/docs/reference/settings#jobs.limits.a_max"]);
        }
    }

    #[test]
    fn an_excerpt_is_bounded_and_marks_the_words() {
        let long =
            format!("{}The Écluse of a weir {}", "ä before ".repeat(50), "behind ü ".repeat(50));
        let fragments = excerpt(&long, &words("weir écl of"));
        let text: String = fragments.iter().map(|it| &*it.text).collect();
        assert!(text.starts_with("… ") && text.ends_with(" …") && text.len() < 300, "{text}");
        let marked: Vec<_> =
            fragments.iter().filter(|it| it.is_match).map(|it| &*it.text).collect();
        assert_eq!(marked, ["of", "weir"], "letters outside of ASCII are compared as they are");
        assert!(excerpt("", &words("x")).is_empty());
    }

    #[test]
    fn queries_are_bounded() {
        let long = format!("{} {}", "a ".repeat(1_000), "b".repeat(1_000));
        assert_eq!(words(&long), vec!["a"; WORDS_MAX]);
        assert_eq!(words(&"b".repeat(1_000))[0].len(), QUERY_CHARS_MAX);
        assert!(words(" -- \" . ").is_empty());
        assert!(library(&[("a.md", "# A\ntext")]).search(" ").hits.is_empty());
        let many = "## Heading\ntext\n".repeat(60);
        let results = library(&[("a.md", &many)]).search("heading");
        assert_eq!((results.hits.len(), results.total), (HITS_MAX, 60));
    }
}
