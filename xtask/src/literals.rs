//! Texts that users of the product read: the lines of pages and of the console's templates, and the string literals
//! of the product's crates. (`--help` and the descriptions of settings are pages of docs/reference.)

use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use crate::{docs, metadata, sources};

/// A line of a page, or a string literal.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Crates whose messages users of the product do not read.
const TOOLS: [&str; 2] = ["weir-bench", "xtask"];

pub(crate) fn read(root: &Path) -> anyhow::Result<Vec<Text>> {
    let mut texts = Vec::new();
    for file in docs::tracked(root)?.into_iter().filter(|file| is_documentation(file)) {
        // A file that is deleted and not yet removed from the index is not read.
        let Ok(page) = fs::read_to_string(root.join(&file)) else { continue };
        texts.extend(page.lines().enumerate().map(|(at, line)| Text {
            file: file.clone(),
            line: at + 1,
            text: line.to_owned(),
        }));
    }
    for sources in sources::read(&metadata::read(root)?)? {
        if TOOLS.contains(&sources.name.as_str()) {
            continue;
        }
        for source in sources.files {
            let file = format!("crates/{}/{}", sources.name, source.path);
            let found = literals(source.tokens).into_iter();
            texts.extend(found.map(|(line, text)| Text { file: file.clone(), line, text }));
        }
    }
    Ok(texts)
}

fn is_documentation(file: &str) -> bool {
    file.ends_with(".md") || file.starts_with("crates/weir-console/templates/")
}

/// Returns the string literals with their lines, without comments.
fn literals(tokens: TokenStream) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                // To the compiler a comment of documentation is an attribute, `#[doc]` or `#![doc]`.
                tokens.next_if(
                    |token| matches!(token, TokenTree::Punct(mark) if mark.as_char() == '!'),
                );
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
    fn literals_are_read_and_comments_ignored() {
        let text = "//! \"zero\"\n/// doc\n#[error(\"one\")]\nfn a() {\n b(\"two\", 'c', r#\"three\"#); // four\n}";
        let found = literals(text.parse().unwrap());
        assert_eq!(
            found,
            [(3, "\"one\"".to_owned()), (5, "\"two\"".to_owned()), (5, "r#\"three\"#".to_owned())]
        );
    }
}
