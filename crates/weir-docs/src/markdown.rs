//! Markdown, as far as pages use it.

use pulldown_cmark::{Event, Options, Parser};

const COMMENT_BEGINS: &str = "<!--";
const COMMENT_ENDS: &str = "-->";

pub(crate) fn events(markdown: &str) -> impl Iterator<Item = Event<'_>> {
    Parser::new_ext(markdown, Options::ENABLE_TABLES)
}

/// Removes the lines of HTML comments outside of code blocks: what `scripts/trial-docs` reads. Of the
/// empty lines around one, one remains.
pub(crate) fn without_comments(markdown: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let (mut is_code, mut is_comment) = (false, false);
    for line in markdown.lines() {
        let text = line.trim_start();
        is_code ^= text.starts_with("```");
        is_comment |= !is_code && text.starts_with(COMMENT_BEGINS);
        let is_second_empty_line = text.is_empty() && kept.last().is_none_or(|it| it.is_empty());
        if !is_comment && (is_code || !is_second_empty_line) {
            kept.push(line);
        }
        is_comment &= !line.contains(COMMENT_ENDS);
    }
    kept.iter().flat_map(|line| [*line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_removed_outside_of_code() {
        let page = "# A\n\n<!-- needs: nginx -->\n\ntext\n\n1. step\n\n   <!-- file: a -->\n   ```html\n   <!-- kept -->\n\n\n   ```\n<!-- one\ntwo -->\nend\n";
        let expected = "# A\n\ntext\n\n1. step\n\n   ```html\n   <!-- kept -->\n\n\n   ```\nend\n";
        assert_eq!(without_comments(page), expected);
    }
}
