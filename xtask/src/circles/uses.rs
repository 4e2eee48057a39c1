//! Finds which file of a crate uses which: for each name in a file, the file that declares it.
//!
//! Names are resolved through re-exports, so a module that only re-exports items of its children is not a use. Method
//! calls name no file and are ignored.

use std::collections::{BTreeMap, BTreeSet};

use super::module::{self, Import, Module, ModulePath};
use crate::sources::SourceFile;

/// For each file, the files that it uses, each with the names that it uses from there.
pub(super) type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Limit of re-exports of re-exports; it also ends loops of globs.
const HOPS_MAX: usize = 8;

pub(super) fn from_files(files: &[SourceFile]) -> Uses {
    let mut modules = BTreeMap::new();
    let sources = files.iter().filter(|file| !file.is_test() && file.path.starts_with("src/"));
    for file in sources.clone() {
        for module in module::read(module_path(&file.path), file.tokens.clone()) {
            modules.insert(module.path.clone(), (file.path.clone(), module));
        }
    }
    let names = Names { modules };
    let mut uses: Uses = sources.map(|file| (file.path.clone(), BTreeMap::new())).collect();
    for (file, module) in names.modules.values() {
        for Item { file: used, name } in names.used_by(module).filter(|item| item.file != *file) {
            let targets = uses.entry(file.clone()).or_default();
            targets.entry(used).or_default().insert(name);
        }
    }
    uses
}

/// Returns `["a", "b"]` for `src/a/b.rs` and `src/a/b/mod.rs`, and nothing for `src/lib.rs`.
fn module_path(file: &str) -> ModulePath {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut names: ModulePath = path.split('/').map(str::to_owned).collect();
    let is_face = |name: &String| ["lib", "main", "mod"].contains(&name.as_str());
    names.pop_if(|name| is_face(name));
    names
}

#[derive(Debug, PartialEq, Eq)]
struct Item {
    file: String,
    name: String,
}

/// What a path of this crate refers to.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Module(ModulePath),
    Item(Item),
}

/// All modules of a crate with their files, by path.
struct Names {
    modules: BTreeMap<ModulePath, (String, Module)>,
}

impl Names {
    fn used_by<'a>(&'a self, module: &'a Module) -> impl Iterator<Item = Item> + 'a {
        let imported = module.imports.iter().flat_map(|import| self.imported(module, import));
        let named = module.paths.iter().filter_map(|path| match self.resolve(module, path, 0)? {
            Target::Item(item) => Some(item),
            Target::Module(_) => None,
        });
        imported.chain(named)
    }

    /// Returns the items that an import uses. An imported module counts only through paths that begin with it; a
    /// re-export counts only if the file also names it.
    fn imported(&self, module: &Module, import: &Import) -> Vec<Item> {
        if import.name == "*" {
            return self.imported_by_glob(module, import);
        }
        if import.is_reexport && !module.names.contains(&import.name) {
            return Vec::new();
        }
        match self.resolve(module, &import.path, 0) {
            Some(Target::Item(item)) => vec![item],
            Some(Target::Module(_)) | None => Vec::new(),
        }
    }

    fn imported_by_glob(&self, module: &Module, import: &Import) -> Vec<Item> {
        match self.resolve(module, &import.path, 0) {
            // The variants of an enum.
            Some(Target::Item(item)) => vec![item],
            Some(Target::Module(source)) => {
                let names = module.names.iter();
                let found = names.filter_map(|name| self.find_name(&source, name, 0));
                let items = found.filter_map(|target| match target {
                    Target::Item(item) => Some(item),
                    Target::Module(_) => None,
                });
                items.collect()
            }
            None => Vec::new(),
        }
    }

    fn resolve(&self, module: &Module, path: &[String], hops: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Target::Module(Vec::new()),
            "self" => Target::Module(module.path.clone()),
            "super" => Target::Module(parent(&module.path)?),
            name => self.find_name(&module.path, name, hops)?,
        };
        self.descend(start, rest, hops)
    }

    fn descend(&self, start: Target, path: &[String], hops: usize) -> Option<Target> {
        let mut at = start;
        for name in path {
            let Target::Module(module) = at else { break };
            at = match name.as_str() {
                "super" => Target::Module(parent(&module)?),
                name => self.find_name(&module, name, hops)?,
            };
        }
        Some(at)
    }

    /// Resolves a name in a module: a child, an item of its own, or an import.
    fn find_name(&self, path: &ModulePath, name: &str, hops: usize) -> Option<Target> {
        let child: ModulePath = path.iter().cloned().chain([name.to_owned()]).collect();
        if self.modules.contains_key(&child) {
            return Some(Target::Module(child));
        }
        let (file, module) = self.modules.get(path)?;
        if module.declared.contains(name) {
            return Some(Target::Item(Item { file: file.clone(), name: name.to_owned() }));
        }
        if hops == HOPS_MAX {
            return None;
        }
        let direct = module.imports.iter().find(|import| import.name == name);
        if let Some(import) = direct {
            // `use a;` of another crate names itself.
            let is_itself = import.path.first().is_some_and(|first| first == name);
            return if is_itself { None } else { self.resolve(module, &import.path, hops + 1) };
        }
        let mut globs = module.imports.iter().filter(|import| import.name == "*");
        globs.find_map(|glob| match self.resolve(module, &glob.path, hops + 1)? {
            Target::Module(source) if source != *path => self.find_name(&source, name, hops + 1),
            Target::Module(_) | Target::Item(_) => None,
        })
    }
}

fn parent(path: &ModulePath) -> Option<ModulePath> {
    let (_, parent) = path.split_last()?;
    Some(parent.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources;

    /// Checks the edges, written as `a -> b: Names`, of files given as path and text.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let texts: Vec<(String, String)> = files
            .iter()
            .map(|(path, text)| (format!("src/{path}.rs"), (*text).to_owned()))
            .collect();
        let uses = from_files(&sources::parse_files(&texts).unwrap());
        let edges = uses.iter().flat_map(|(user, targets)| {
            targets.iter().map(move |(used, names)| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let [user, used] = [user, used].map(|file| &file[4..file.len() - 3]);
                format!("{user} -> {used}: {}", names.join(", "))
            })
        });
        assert_eq!(edges.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn unused_reexport_is_not_a_use() {
        let files = [
            ("lib", "pub mod a;\npub use a::B;"),
            ("a", "mod b; mod c; pub use b::B; pub use c::*;"),
            ("a/b", "use super::C; pub struct B(C);"),
            ("a/c", "pub struct C;"),
            ("d", "use crate::B; use crate::a; struct D(B, a::C);"),
        ];
        check(&files, &["a/b -> a/c: C", "d -> a/b: B", "d -> a/c: C"]);
    }

    #[test]
    fn used_reexport_is_a_use() {
        check(
            &[("a", "mod b; pub use b::B; fn c(b: B) {}"), ("a/b", "pub struct B;")],
            &["a -> a/b: B"],
        );
    }

    #[test]
    fn paths_in_code_count_like_imports() {
        let files = [
            ("lib", "mod a; mod b;"),
            ("a", "fn c() { crate::b::d(); super::b::E::f(); b(); }"),
            ("b", "pub fn d() {} pub enum E { G } fn h() { use super::a; a::c(); }"),
        ];
        check(&files, &["a -> b: E, d", "b -> a: c"]);
    }

    #[test]
    fn parent_uses_child_by_name() {
        check(&[("a", "mod b; fn c() { b::d(); }"), ("a/b", "pub fn d() {}")], &["a -> a/b: d"]);
        check(&[("a", "mod b; fn c() {}"), ("a/b", "pub fn d() {}")], &[]);
    }

    #[test]
    fn items_of_other_crates_and_tests_are_ignored() {
        let files = [
            ("a", "use bytes::Bytes; use serde::{self}; struct A(Bytes, serde::X);"),
            ("b", "use super::a::Bytes; #[cfg(test)] mod tests { use crate::a::A; }"),
            ("lib", "mod a; mod b;"),
        ];
        check(&files, &[]);
    }

    #[test]
    fn glob_import_counts_the_names_used() {
        let files = [
            ("a", "use super::*; struct A(B);"),
            ("lib", "mod a; mod b; use b::B; struct C;"),
            ("b", "pub struct B;"),
        ];
        check(&files, &["a -> b: B", "lib -> b: B"]);
    }

    #[test]
    fn circular_globs_terminate() {
        let files = [
            ("a", "pub use crate::b::*; struct C(D);"),
            ("b", "pub use crate::a::*; struct E(D);"),
            ("lib", "mod a; mod b;"),
        ];
        check(&files, &[]);
    }

    #[test]
    fn mod_file_is_the_module_of_its_folder() {
        check(
            &[("a/mod", "pub fn b() {}"), ("c", "fn d() { crate::a::b(); }")],
            &["c -> a/mod: b"],
        );
    }
}
