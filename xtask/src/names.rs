//! Measures how many type names are declared too often to be specific.
//!
//! The measure is the share of declarations whose name is declared three times or more. Declarations of structs,
//! enums, traits and type aliases count, public or not, in modules of the product's crates, without tests, associated
//! types, and types within functions. The tools (weir-bench, xtask) are counted separately. A crate's name as prefix
//! does not make a new name: `JobsLimits` counts as `Limits`.

use std::collections::BTreeMap;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use crate::metadata;
use crate::sources::{self, CrateSources};

/// A name declared this many times counts as repeated.
const REPEATED_MIN: usize = 3;

/// Places (`crate/path:line`) by name.
type Places = BTreeMap<String, Vec<String>>;

/// Crates that measure and check the product, but are not part of it.
const TOOLS: [&str; 2] = ["weir-bench", "xtask"];

/// Prints the share; with `is_list`, also the repeated names and their places, most frequent first.
pub(crate) fn report(root: &Path, is_list: bool) -> anyhow::Result<()> {
    let crates = sources::read(&metadata::read(root)?)?;
    let prefixes = prefixes(&crates);
    let is_product = |sources: &&CrateSources| !TOOLS.contains(&sources.name.as_str());
    let product: Vec<&CrateSources> = crates.iter().filter(is_product).collect();
    let places = count_places(&product, &prefixes);
    if is_list {
        list(&places);
    }
    let written = self::count_places(&product, &[]);
    let with_tools = self::count_places(&crates.iter().collect::<Vec<_>>(), &prefixes);
    println!("names declared {REPEATED_MIN} times or more (aim: at most 10 %)");
    Share::from_places(&places).print("the product's");
    Share::from_places(&written).print("if a crate's name in front made a new one");
    Share::from_places(&with_tools).print("with weir-bench and xtask");
    Ok(())
}

fn list(places: &Places) {
    let mut repeated: Vec<_> =
        places.iter().filter(|(_, places)| places.len() >= REPEATED_MIN).collect();
    repeated.sort_by_key(|(name, places)| (usize::MAX - places.len(), name.as_str()));
    for (name, places) in repeated {
        println!("{:>4} {name}", places.len());
        for place in places {
            println!("       {place}");
        }
    }
}

/// Returns `Jobs` for `weir-jobs`, and so on for each crate; longer ones first.
fn prefixes(crates: &[CrateSources]) -> Vec<String> {
    let names = crates.iter().map(|sources| {
        let words = sources.name.strip_prefix("weir-").unwrap_or(&sources.name).split('-');
        words.map(capitalised).collect::<String>()
    });
    let mut prefixes: Vec<String> = names.collect();
    prefixes.sort_by_key(|prefix| usize::MAX - prefix.len());
    prefixes
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn count_places(crates: &[&CrateSources], prefixes: &[String]) -> Places {
    let mut places = Places::new();
    for sources in crates {
        for file in &sources.files {
            for declaration in declarations(file.tokens.clone()) {
                let name = without_prefix(&declaration.name, prefixes).to_owned();
                let place = format!("{}/{}:{}", sources.name, file.path, declaration.line);
                places.entry(name).or_default().push(place);
            }
        }
    }
    places
}

fn without_prefix<'a>(name: &'a str, prefixes: &[String]) -> &'a str {
    let rests = prefixes.iter().filter_map(|prefix| name.strip_prefix(prefix.as_str()));
    let mut words =
        rests.filter(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()));
    words.next().unwrap_or(name)
}

#[derive(Debug)]
struct Declaration {
    name: String,
    line: usize,
}

/// Returns the declarations of a module and its inline modules.
fn declarations(tokens: TokenStream) -> Vec<Declaration> {
    let mut found = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let TokenTree::Ident(keyword) = token else { continue };
        let keyword = keyword.to_string();
        let Some(TokenTree::Ident(name)) = tokens.peek() else { continue };
        if ["struct", "enum", "trait", "type"].contains(&keyword.as_str()) {
            found.push(Declaration { name: name.to_string(), line: name.span().start().line });
        } else if keyword == "mod"
            && let Some(TokenTree::Group(body)) = tokens.nth(1)
        {
            found.extend(declarations(body.stream()));
        }
    }
    found
}

#[derive(Debug, PartialEq, Eq)]
struct Share {
    declarations: usize,
    repeated_declarations: usize,
    names: usize,
    repeated_names: usize,
}

impl Share {
    fn from_places(places: &Places) -> Self {
        let counts = || places.values().map(Vec::len);
        let repeated = || counts().filter(|count| *count >= REPEATED_MIN);
        Self {
            declarations: counts().sum(),
            repeated_declarations: repeated().sum(),
            names: places.len(),
            repeated_names: repeated().count(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of declarations are far below 2^52")]
    fn print(&self, what: &str) {
        let Self { declarations, repeated_declarations, names, repeated_names } = self;
        let percent = 100.0 * *repeated_declarations as f64 / (*declarations).max(1) as f64;
        println!(
            "{percent:>6.1} % {what}: {repeated_declarations} of {declarations} declarations, \
             {repeated_names} of {names} names"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        declarations(text.parse().unwrap()).into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn types_in_modules_are_counted() {
        let text =
            "pub struct A(B); enum C { D } pub(crate) trait E {} type F = G; mod a { struct H; }";
        assert_eq!(names(text), ["A", "C", "E", "F", "H"]);
    }

    #[test]
    fn types_in_traits_functions_and_macros_are_not_counted() {
        assert_eq!(names("trait A { type B; } impl A for C { type B = D; }"), ["A"]);
        assert!(
            names("fn a() { struct B; } macro_rules! c { ($d:ident) => { struct $d; } }")
                .is_empty()
        );
    }

    #[test]
    fn crate_prefix_does_not_make_a_new_name() {
        let prefixes = ["Jobs".to_owned(), "Front".to_owned()];
        for (name, expected) in [
            ("JobsLimits", "Limits"),
            ("Jobs", "Jobs"),
            ("Jobserver", "Jobserver"),
            ("JobLimits", "JobLimits"),
        ] {
            assert_eq!(without_prefix(name, &prefixes), expected);
        }
    }

    #[test]
    fn share_is_relative_to_declarations() {
        let place = |count: usize| vec!["a".to_owned(); count];
        let counts = [("Wanted", 3), ("Answer", 4), ("Place", 2), ("Queue", 1)];
        let places = counts.map(|(name, count)| (name.to_owned(), place(count))).into();
        assert_eq!(
            Share::from_places(&places),
            Share { declarations: 10, repeated_declarations: 7, names: 4, repeated_names: 2 }
        );
    }
}
