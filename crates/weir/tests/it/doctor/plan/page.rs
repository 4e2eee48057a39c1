//! docs/plan.md: what the page shows as printed is printed by the command above it.

use std::path::{Path, PathBuf};

use crate::process::output_of;
use crate::weir::program;

const HINT: &str = "docs/plan.md is out of date (WEIR_WRITE_DOCS=1 cargo test -p weir --test it doctor::plan::page writes it)";

/// A fenced part of a page.
struct Block<'a> {
    language: &'a str,
    text: &'a str,
    /// Where its text begins.
    at: usize,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut from = 0;
    while let Some(fence) = page[from..].find("```") {
        let opens = from + fence + 3;
        let (language, rest) = page[opens..].split_once('\n').expect("a line behind the fence");
        let end = rest.find("```").expect("the block ends");
        let at = opens + language.len() + 1;
        blocks.push(Block { language, text: &rest[..end], at });
        from = at + end + 3;
    }
    blocks
}

/// Returns the output of `weir plan ..`, in a folder with this layout.toml.
fn plan_output(command: &str, layout: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("layout.toml"), layout).unwrap();
    let words = command.split_whitespace().filter(|word| *word != "\\").skip(1);
    let output = output_of(program().args(words).current_dir(folder.path()));
    assert!(output.stderr.is_empty(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the expected page, and how many commands it shows the output of.
fn expected_page(page: &str) -> (String, usize) {
    let (mut new, mut until, mut count, mut layout) = (String::new(), 0, 0, "");
    let blocks = blocks(page);
    for (block, next) in blocks.iter().zip(blocks.iter().skip(1)) {
        if block.language == "toml" {
            layout = block.text;
        }
        let is_shown = block.language == "sh"
            && block.text.starts_with("weir plan")
            && next.language == "text";
        if is_shown {
            new.push_str(&page[until..next.at]);
            new.push_str(&plan_output(block.text, layout));
            until = next.at + next.text.len();
            count += 1;
        }
    }
    (new + &page[until..], count)
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.md")
}

#[test]
fn page_shows_the_printed_plan() {
    let page = std::fs::read_to_string(path()).unwrap();
    let (new, count) = expected_page(&page);
    assert_eq!(count, 2, "a plan, and a layout that is judged");
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test says so by it")]
    if std::env::var("WEIR_WRITE_DOCS").is_ok() {
        std::fs::write(path(), new).unwrap();
        return;
    }
    for (old, new) in page.lines().zip(new.lines()) {
        assert_eq!(old, new, "{HINT}");
    }
    assert_eq!(page, new, "{HINT}");
}
