//! The items that a module declares, imports and names, read from its tokens.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec;

use proc_macro2::{Group, TokenStream, TokenTree};

/// The names from the crate root: `["a", "b"]` is `crate::a::b`.
pub(super) type ModulePath = Vec<String>;

#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) path: ModulePath,
    /// Items of the module itself, without those in its blocks.
    pub(super) declared: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// Paths in its code of two names or more, such as `["super", "b", "C"]`.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// Every single name in its code outside of imports.
    pub(super) names: BTreeSet<String>,
}

/// One name of a `use`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name in the module; `*` for a glob.
    pub(super) name: String,
    /// `pub use`, also `pub(crate) use`.
    pub(super) is_reexport: bool,
}

/// Returns the module of a file and its inline modules.
pub(super) fn read(path: ModulePath, tokens: TokenStream) -> Vec<Module> {
    let mut reader = Reader { module: Module { path, ..Module::default() }, inline: Vec::new() };
    reader.read_block(tokens, true);
    let mut modules = reader.inline;
    modules.push(reader.module);
    modules
}

type Tokens = Peekable<vec::IntoIter<TokenTree>>;

struct Reader {
    module: Module,
    inline: Vec<Module>,
}

impl Reader {
    /// Reads a block; `is_module` if it is the module itself.
    fn read_block(&mut self, tokens: TokenStream, is_module: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut tokens = tokens.into_iter().peekable();
        let mut is_public = false;
        // Behind `::` that no name precedes, as in `<A as B>::c`.
        let mut is_qualified = false;
        while let Some(token) = tokens.next() {
            match token {
                // `impl A + use<'b>` is a type.
                TokenTree::Ident(word)
                    if word == "use"
                        && !tokens.peek().is_some_and(|token| is_punctuation(token, '<')) =>
                {
                    self.imports(&mut tokens, is_public);
                }
                TokenTree::Ident(word) if word == "mod" => self.read_child(&mut tokens),
                TokenTree::Ident(word) if word == "pub" => {
                    is_public = true;
                    // `pub(crate)`
                    tokens.next_if(|token| matches!(token, TokenTree::Group(_)));
                    continue;
                }
                TokenTree::Ident(word) => {
                    let path = path(word.to_string(), &mut tokens);
                    if is_module {
                        self.read_declaration(&path, &mut tokens);
                    }
                    if !is_qualified {
                        self.path(path);
                    }
                }
                TokenTree::Group(group) => self.read_block(group.stream(), false),
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    is_qualified = tokens.next_if(|token| is_punctuation(token, ':')).is_some();
                    continue;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            is_public = false;
            is_qualified = false;
        }
    }

    fn path(&mut self, path: Vec<String>) {
        self.module.names.extend(path.iter().cloned());
        if path.len() > 1 {
            self.module.paths.insert(path);
        }
    }

    fn read_declaration(&mut self, keyword: &[String], tokens: &mut Tokens) {
        const KEYWORDS: [&str; 9] =
            ["struct", "enum", "trait", "type", "union", "fn", "const", "static", "macro_rules"];
        let [keyword] = keyword else { return };
        if KEYWORDS.contains(&keyword.as_str()) {
            // `macro_rules! name`
            tokens.next_if(|token| is_punctuation(token, '!'));
            if let Some(TokenTree::Ident(name)) = tokens.peek() {
                self.module.declared.insert(name.to_string());
            }
        }
    }

    fn read_child(&mut self, tokens: &mut Tokens) {
        let Some(TokenTree::Ident(name)) = tokens.next() else { return };
        if let Some(TokenTree::Group(body)) =
            tokens.next_if(|token| matches!(token, TokenTree::Group(_)))
        {
            let mut path = self.module.path.clone();
            path.push(name.to_string());
            self.inline.extend(read(path, body.stream()));
        }
    }

    fn imports(&mut self, tokens: &mut Tokens, is_reexport: bool) {
        read_import_tree(&[], tokens, &mut |path, name| {
            self.module.imports.push(Import { path, name, is_reexport });
        });
    }
}

fn is_punctuation(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(it) if it.as_char() == mark)
}

/// Reads a path such as `a::b::c` after its first name.
fn path(first: String, tokens: &mut Tokens) -> Vec<String> {
    let mut path = vec![first];
    // A lone colon never precedes another one: `a: ::b::C` does not occur in this edition's style.
    while tokens.peek().is_some_and(is_joint_colon) {
        let mut ahead = tokens.clone();
        ahead.nth(1);
        let Some(TokenTree::Ident(name)) = ahead.next() else { break };
        path.push(name.to_string());
        *tokens = ahead;
    }
    path
}

/// Returns whether this is the first colon of `::`.
fn is_joint_colon(token: &TokenTree) -> bool {
    use proc_macro2::Spacing;
    matches!(token, TokenTree::Punct(it) if it.as_char() == ':' && it.spacing() == Spacing::Joint)
}

/// Reads one import, up to the end of the `use` or to the next comma: `a::{b, c as d, e::*}`.
fn read_import_tree(
    prefix: &[String],
    tokens: &mut Tokens,
    on_import: &mut dyn FnMut(Vec<String>, String),
) {
    let mut path = prefix.to_vec();
    let mut name = None;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "as" => {
                name = tokens.next().map(|token| token.to_string());
            }
            // `a::{self}` is `a`.
            TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
            TokenTree::Ident(word) => path.push(word.to_string()),
            TokenTree::Group(group) => return read_import_group(&path, &group, tokens, on_import),
            TokenTree::Punct(mark) if mark.as_char() == '*' => name = Some("*".to_owned()),
            TokenTree::Punct(mark) if mark.as_char() == ',' || mark.as_char() == ';' => break,
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    if let Some(last) = path.last().cloned() {
        on_import(path, name.unwrap_or(last));
    }
}

/// Reads the imports in the braces of a `use`, and the punctuation after them.
fn read_import_group(
    prefix: &[String],
    group: &Group,
    tokens: &mut Tokens,
    on_import: &mut dyn FnMut(Vec<String>, String),
) {
    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
    let mut inner = inner.into_iter().peekable();
    while inner.peek().is_some() {
        read_import_tree(prefix, &mut inner, on_import);
    }
    tokens.next_if(|token| is_punctuation(token, ',') || is_punctuation(token, ';'));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(text: &str) -> Module {
        read(Vec::new(), text.parse().unwrap()).pop().unwrap()
    }

    fn imports(text: &str) -> Vec<String> {
        let imports = read_one(text).imports;
        let shown = imports.iter().map(|it| {
            let face = if it.is_reexport { "pub " } else { "" };
            format!("{face}{} = {}", it.name, it.path.join("::"))
        });
        shown.collect()
    }

    #[test]
    fn import_trees_are_flattened() {
        assert_eq!(
            imports("use crate::a::{self, B, c::{D as E, F}, g::*}; pub(crate) use super::h;"),
            [
                "a = crate::a",
                "B = crate::a::B",
                "E = crate::a::c::D",
                "F = crate::a::c::F",
                "* = crate::a::g",
                "pub h = super::h",
            ]
        );
    }

    #[test]
    fn imports_in_functions_are_read() {
        assert_eq!(imports("fn a() { use super::b; b::c(); }"), ["b = super::b"]);
    }

    #[test]
    fn captured_lifetimes_are_not_imports() {
        let module = read_one("fn a() -> impl B + use<> { c::d(); } use e::F;");
        assert!(module.names.contains("d"));
        assert_eq!(module.imports.len(), 1);
    }

    #[test]
    fn paths_in_code_end_before_other_tokens() {
        let module = read_one(
            "fn a(b: super::c::D) -> e::F<g::H> { i!(crate::j::K::<L>::new()); <M as N>::o::p() }",
        );
        let paths: Vec<String> = module.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["crate::j::K", "e::F", "g::H", "super::c::D"]);
    }

    #[test]
    fn only_items_of_the_module_are_declared() {
        let module = read_one(
            "pub struct A; impl A { fn b() {} const C: D = e; } fn f() {} macro_rules! g {}",
        );
        assert_eq!(module.declared, ["A", "f", "g"].map(str::to_owned).into());
    }

    #[test]
    fn inline_modules_are_separate_modules() {
        let modules = read(vec!["a".to_owned()], "mod b { struct C; } struct D;".parse().unwrap());
        let shown: Vec<String> =
            modules.iter().map(|it| format!("{} {:?}", it.path.join("::"), it.declared)).collect();
        assert_eq!(shown, ["a::b {\"C\"}", "a {\"D\"}"]);
    }
}
