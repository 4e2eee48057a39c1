//! Removes the items under `#[cfg(test)]` from the tokens of a file.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The remaining tokens of a file, and data on the removed items.
#[derive(Debug, Default)]
pub(crate) struct Split {
    pub(crate) remaining: TokenStream,
    /// Lines of the removed items, from their first attribute or doc comment to their end.
    pub(crate) test_lines: usize,
    /// Names of removed modules that are in files of their own.
    pub(crate) test_modules: Vec<String>,
}

pub(crate) fn split(tokens: TokenStream) -> Split {
    let mut split = Split::default();
    split.remaining = strip_tests(tokens, &mut split.test_lines, &mut split.test_modules);
    split
}

fn strip_tests(tokens: TokenStream, lines: &mut usize, modules: &mut Vec<String>) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut remaining = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let attributes = attributes_end(&tokens, at);
        if (at..attributes).any(|at| is_cfg_test(&tokens[at])) {
            let end = item_end(&tokens, attributes);
            let (first, last) = (tokens[at].span(), tokens[end - 1].span());
            *lines += last.end().line - first.start().line + 1;
            modules.extend(module_file(&tokens[attributes..end]));
            at = end;
            continue;
        }
        // At least the token itself, which may be an attribute's mark.
        for token in &tokens[at..attributes.max(at + 1)] {
            remaining.push(match token {
                TokenTree::Group(group) => strip_group(group, lines, modules),
                other => other.clone(),
            });
        }
        at = attributes.max(at + 1);
    }
    remaining.into_iter().collect()
}

fn strip_group(group: &Group, lines: &mut usize, modules: &mut Vec<String>) -> TokenTree {
    let mut remaining = Group::new(group.delimiter(), strip_tests(group.stream(), lines, modules));
    remaining.set_span(group.span());
    TokenTree::Group(remaining)
}

/// Returns the position after the attributes at `at`, or `at` if there are none. Inner attributes (`#!`) do not
/// count.
fn attributes_end(tokens: &[TokenTree], mut at: usize) -> usize {
    while let (Some(TokenTree::Punct(mark)), Some(TokenTree::Group(group))) =
        (tokens.get(at), tokens.get(at + 1))
        && mark.as_char() == '#'
        && group.delimiter() == Delimiter::Bracket
    {
        at += 2;
    }
    at
}

fn is_cfg_test(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.stream().to_string().replace(' ', "") == "cfg(test)")
}

/// Items that end with a block or a semicolon.
const BLOCK_ITEMS: [&str; 10] =
    ["mod", "fn", "struct", "enum", "trait", "impl", "unsafe", "async", "extern", "macro_rules"];
/// Items and statements that end with a semicolon, whatever blocks they hold.
const PLAIN_ITEMS: [&str; 4] = ["use", "static", "type", "let"];

/// Returns the position after the item, field, variant or statement at `at`.
fn item_end(tokens: &[TokenTree], at: usize) -> usize {
    let keyword = first_keyword(tokens, at);
    let is_plain = PLAIN_ITEMS.contains(&keyword.as_str());
    let ends_at_comma = !is_plain && !BLOCK_ITEMS.contains(&keyword.as_str());
    let is_end = |token: &TokenTree| match token {
        TokenTree::Punct(mark) => mark.as_char() == ';' || (ends_at_comma && mark.as_char() == ','),
        TokenTree::Group(group) => !is_plain && group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    let rest = tokens[at..].iter().position(is_end);
    rest.map_or(tokens.len(), |length| at + length + 1)
}

/// Returns the first keyword after the visibility; `let` for a constant and `fn` for a constant function, which end
/// the same way.
fn first_keyword(tokens: &[TokenTree], at: usize) -> String {
    let mut words = tokens[at..].iter().filter_map(|token| match token {
        TokenTree::Ident(word) if *word != "pub" => Some(word.to_string()),
        _ => None,
    });
    let first = words.next().unwrap_or_default();
    if first != "const" {
        return first;
    }
    let is_function = words.next().is_some_and(|second| second == "fn" || second == "unsafe");
    if is_function { "fn".to_owned() } else { "let".to_owned() }
}

/// Returns `simulated` for `pub(crate) mod simulated;`.
fn module_file(item: &[TokenTree]) -> Option<String> {
    let [.., TokenTree::Ident(keyword), TokenTree::Ident(name), TokenTree::Punct(_)] = item else {
        return None;
    };
    (*keyword == "mod").then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, remaining: &str, test_lines: usize) {
        let split = split(text.parse().unwrap());
        let expected: TokenStream = remaining.parse().unwrap();
        assert_eq!(split.remaining.to_string(), expected.to_string(), "{text}");
        assert_eq!(split.test_lines, test_lines, "{text}");
    }

    #[test]
    fn test_items_are_removed() {
        check("fn a() {}\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n", "fn a() {}", 4);
        check("/// Doc.\n#[cfg(test)]\n#[derive(Debug)]\nstruct A;\nfn b() {}", "fn b() {}", 4);
        check("#[cfg(test)]\nuse a::{b, c};\nuse d;", "use d;", 2);
        check("#[cfg(test)]\npub(crate) const A: B = B { c };\nfn d() {}", "fn d() {}", 2);
        check("#[cfg(test)]\nconst fn a() -> B { c }\nfn d() {}", "fn d() {}", 2);
        check("struct A {\n #[cfg(test)]\n b: C,\n d: E,\n}", "struct A { d: E, }", 2);
        check("#[cfg(test)]\nfn a<B, C>(d: B) {}\nfn e() {}", "fn e() {}", 2);
        check("impl A {\n #[cfg(test)]\n fn b() {}\n fn c() {}\n}", "impl A { fn c() {} }", 2);
    }

    #[test]
    fn items_of_other_builds_are_kept() {
        for text in [
            "#[cfg(not(test))] fn a() {}",
            "#[cfg(feature = \"test\")] fn a() {}",
            "#![allow(x)] fn a() {}",
        ] {
            check(text, text, 0);
        }
    }

    #[test]
    fn only_modules_in_files_are_listed() {
        let text = "#[cfg(test)] mod a; #[cfg(test)] pub(crate) mod b; #[cfg(test)] mod c {} #[cfg(test)] use d; mod e;";
        assert_eq!(split(text.parse().unwrap()).test_modules, ["a", "b"]);
    }
}
