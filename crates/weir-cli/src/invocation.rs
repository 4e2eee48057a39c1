//! How this program was started, for commands that are printed to be typed.

use std::path::{Path, PathBuf};

use weir_config::environment;

const NAME: &str = "weir";

/// Returns what starts this program in a shell: `weir` if PATH leads to it, otherwise the path with which it was started.
#[must_use]
pub fn program() -> String {
    let first = std::env::args_os().next().map(PathBuf::from);
    let current = std::env::current_exe().ok();
    spelling(current.as_deref(), first.as_deref(), environment::search_path())
}

fn spelling(
    current: Option<&Path>,
    first: Option<&Path>,
    folders: impl Iterator<Item = PathBuf>,
) -> String {
    let Some(current) = current else { return NAME.to_owned() };
    let found = folders.map(|folder| folder.join(NAME)).find(|path| path.is_file());
    let is_current = |path: &Path| path.canonicalize().is_ok_and(|path| path == *current);
    if found.is_some_and(|found| is_current(&found)) {
        return NAME.to_owned();
    }
    let typed = first.filter(|path| path.components().count() > 1 && is_current(path));
    quoted(&typed.unwrap_or(current).display().to_string())
}

/// Returns a word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+".contains(character);
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_command_starts_this_program() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let program = folder.join(NAME);
        std::fs::write(&program, "").unwrap();
        let on_path = || [folder.join("none"), folder.clone()].into_iter();
        let current = Some(&*program);
        assert_eq!(spelling(current, Some(Path::new(NAME)), on_path()), "weir");
        // Another program of that name is found first.
        let other = folder.join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join(NAME), "").unwrap();
        let shadowed = || [other.clone(), folder.clone()].into_iter();
        let relative = folder.join("other/../weir");
        let shown = relative.display().to_string();
        assert_eq!(spelling(current, Some(&relative), shadowed()), shown);
        let none = std::iter::empty;
        assert_eq!(spelling(current, Some(Path::new(NAME)), none()), program.display().to_string());
        assert_eq!(spelling(None, None, none()), "weir");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("./weir-0.1.0/weir"), "./weir-0.1.0/weir");
        assert_eq!(quoted("/a b/it's"), "'/a b/it'\\''s'");
    }
}
