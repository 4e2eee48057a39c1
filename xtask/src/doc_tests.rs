//! Checks that each crate with a tested example in its documentation has doc tests on, and no other: rustdoc compiles a
//! whole crate to find out that it has none.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::metadata::{self, Package};
use crate::sources;

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let metadata = metadata::read(root)?;
    let problems = metadata.members().map(check_crate).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(problems.into_iter().flatten().collect())
}

fn check_crate(package: &Package) -> anyhow::Result<Option<String>> {
    let Some(library) = package.targets.iter().find(|target| target.is_library()) else {
        return Ok(None);
    };
    let has_example = has_example_in(package)?;
    let name = &package.name;
    Ok((library.doctest != has_example).then(|| {
        if has_example {
            format!("{name}: has a doc example that is not tested: remove `doctest = false` from [lib]")
        } else {
            format!("{name}: has no doc example: set `doctest = false` in [lib], so that rustdoc does not compile it")
        }
    }))
}

fn has_example_in(package: &Package) -> anyhow::Result<bool> {
    let folder = package.folder().with_context(|| format!("{} has no folder", package.name))?;
    for path in sources::files(&folder.join("src"))? {
        let text =
            fs::read_to_string(folder.join("src").join(&path)).with_context(|| path.clone())?;
        if has_example(&text) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a doc comment has a code block that rustdoc compiles.
fn has_example(text: &str) -> bool {
    let mut is_in_block = false;
    for line in text.lines() {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            is_in_block = false;
            continue;
        };
        if let Some(language) = comment.trim().strip_prefix("```") {
            if !is_in_block && is_rust(language) {
                return true;
            }
            is_in_block = !is_in_block;
        }
    }
    false
}

/// Returns whether rustdoc compiles a block with this info string: it has no words but rustdoc's own.
fn is_rust(info: &str) -> bool {
    const WORDS: [&str; 6] =
        ["", "rust", "no_run", "should_panic", "compile_fail", "standalone_crate"];
    let mut words = info.split([',', ' ']);
    words.all(|word| WORDS.contains(&word) || word.starts_with("edition"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_of_rust_are_examples() {
        assert!(has_example("//! Text.\n//! ```\n//! let a = 1;\n//! ```\n"));
        assert!(has_example("    /// ```rust,no_run\n"));
        assert!(!has_example("/// ```text\n/// a\n/// ```\nfn a() {}\n"));
        assert!(!has_example("let fence = \"```\";\n"));
        assert!(has_example("/// ```text\n/// a\n/// ```\n/// ```\n"));
    }
}
