//! Every `weir` command that a page of the documentation shows is one that the command line accepts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::Cli;

/// Fewer would mean that the pages are read wrongly.
const COMMANDS_MIN: usize = 150;

#[test]
fn commands_of_all_pages_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs", "examples", "packages", "deploy"] {
        find_pages(&root.join(folder), &mut pages);
    }
    let (mut count, mut problems) = (0, Vec::new());
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for words in shown_lines(&text).iter().flat_map(|line| weir_commands(line)) {
            count += 1;
            if let Err(error) = Cli::parse_words(&words)
                && error.use_stderr()
            {
                problems.push(format!("{}: {}: {error}", page.display(), words.join(" ")));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count >= COMMANDS_MIN, "{count} commands");
}

fn find_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("node_modules") {
            find_pages(&path, pages);
        } else if path.extension().is_some_and(|it| it == "md") {
            pages.push(path);
        }
    }
}

/// Returns the lines that a reader types: those of shell blocks, and those after `$` in a console.
fn shown_lines(text: &str) -> Vec<String> {
    let (mut lines, mut block) = (Vec::new(), None);
    let mut continued = String::new();
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_none() { Some(language.trim()) } else { None };
            continue;
        }
        let typed = match block {
            _ if !continued.is_empty() => Some(line.trim()),
            Some("sh" | "bash") => Some(line.trim()),
            Some("console") => line.trim_start().strip_prefix("$ "),
            _ => None,
        };
        let Some(typed) = typed else { continue };
        match typed.strip_suffix('\\') {
            Some(start) => continued += start,
            None => lines.push(std::mem::take(&mut continued) + typed),
        }
    }
    lines
}

/// Returns the words of each `weir` command in a line of a shell.
fn weir_commands(line: &str) -> Vec<Vec<String>> {
    const ENDS: [&str; 5] = ["|", "&&", "||", ";", "&"];
    // A comment ends the line, and may have an apostrophe.
    let line = line.split(" # ").next().unwrap_or_default().split("  #").next().unwrap_or_default();
    let words = shlex::split(line).unwrap_or_default();
    let commands = words.split(|word| ENDS.contains(&word.as_str()));
    let of_weir = commands.filter_map(|command| {
        let start = command.iter().position(|word| is_weir(word))?;
        let is_start = command[..start].iter().all(|word| word == "sudo" || word.contains('='));
        let words = command[start..].iter().take_while(|word| !is_redirection(word));
        is_start.then(|| words.cloned().collect())
    });
    of_weir.collect()
}

/// `weir`, with or without a folder.
fn is_weir(word: &str) -> bool {
    !word.contains('=') && word.rsplit('/').next() == Some("weir")
}

fn is_redirection(word: &str) -> bool {
    word.trim_start_matches(['1', '2', '&']).starts_with(['<', '>'])
}

#[test]
fn commands_are_found_in_a_line() {
    let found = |line: &str| -> Vec<String> {
        weir_commands(line).iter().map(|words| words.join(" ")).collect()
    };
    assert_eq!(found("A=1 weir up --data-dir 'x y' 2> log # it's up"), ["weir up --data-dir x y"]);
    assert_eq!(
        found("cat jobs | sudo ./weir jobs import - && weir status"),
        ["./weir jobs import -", "weir status"]
    );
    assert!(found("apt-get install weir").is_empty());
}
