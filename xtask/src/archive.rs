//! The pages of an archive: links to files of the repository that the archive does not have become plain text.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::docs;

/// Rewrites the pages in a folder of scripts/dist-tree. Returns the links that lead nowhere even then.
pub(crate) fn unlink(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in pages(folder)? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let beside = path.parent().unwrap_or(folder);
        let rewritten = without_links(&text, |target| !beside.join(target).exists());
        if rewritten != text {
            fs::write(&path, &rewritten).with_context(|| path.display().to_string())?;
        }
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        problems.extend(docs::dead_links(folder, &name, &rewritten));
    }
    Ok(problems)
}

/// Returns all Markdown files below a folder.
fn pages(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Replaces `[text](target)` by its text where `is_absent` says so of the target's file.
fn without_links(text: &str, is_absent: impl Fn(&str) -> bool) -> String {
    let (mut result, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("](") {
        result.push_str(before);
        let link = after.split_once(')').filter(|(target, _)| is_relative(target));
        let file = |target: &str| target.split('#').next().unwrap_or_default().to_owned();
        match link.filter(|(target, _)| is_absent(&file(target))).zip(opening(&result)) {
            Some(((_, behind), opening)) => {
                result.remove(opening);
                rest = behind;
            }
            None => {
                result.push_str("](");
                rest = after;
            }
        }
    }
    result + rest
}

/// Returns whether this is a link to another file of the same tree.
fn is_relative(target: &str) -> bool {
    let is_elsewhere = target.contains("://") || target.starts_with(['#', '/']);
    !is_elsewhere && !target.starts_with("mailto:") && !target.contains(char::is_whitespace)
}

/// Returns where the text of a link begins that ends at the end of `text`.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices().rev() {
        match character {
            ']' => depth += 1,
            '[' if depth == 0 => return Some(at),
            '[' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_archive_become_text() {
        let is_absent = |target: &str| target.contains("gone");
        for (text, expected) in [
            ("a [b](gone.md) c [d](here.md)", "a b c [d](here.md)"),
            ("[the\n`x[1]` page](../gone.md#part).", "the\n`x[1]` page."),
            (
                "[a](https://gone) [b](#gone) [c](mailto:gone)",
                "[a](https://gone) [b](#gone) [c](mailto:gone)",
            ),
            ("call](gone) and [x](gone)", "call](gone) and x"),
        ] {
            assert_eq!(without_links(text, is_absent), expected);
        }
    }

    #[test]
    fn pages_of_a_folder_have_no_dead_links_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("docs/a.md");
        fs::create_dir(folder.path().join("docs")).unwrap();
        fs::write(folder.path().join("README.md"), "## Here\n").unwrap();
        fs::write(&page, "[r](../README.md#here) [s](../scripts/gone)").unwrap();
        assert_eq!(unlink(folder.path()).unwrap(), [""; 0]);
        assert_eq!(fs::read_to_string(&page).unwrap(), "[r](../README.md#here) s");
        fs::write(&page, "[r](../README.md#there)").unwrap();
        assert_eq!(
            unlink(folder.path()).unwrap(),
            ["docs/a.md:1: ../README.md#there leads nowhere"]
        );
    }
}
