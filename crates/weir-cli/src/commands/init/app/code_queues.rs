//! Queues that the application's code names: `sidekiq_options queue: 'push'`, `queue_as :low`.
//!
//! Nothing is executed. A name that code computes is not found.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::quote::is_name;
use crate::commands::plan::check::text::read_text;

/// Folders with jobs.
const FOLDERS: [&str; 3] = ["app", "lib", "config"];
const FILES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 12;
/// Calls that choose a queue. Other lines with the word `queue` mean something else.
const CALLS: [&str; 4] = ["sidekiq_options", "queue_as", ".set(", "deliver_later"];

/// Returns the queues, and whether some files were left out for the limit.
pub(super) fn queues(folder: &Path) -> (BTreeSet<String>, bool) {
    let mut search = Search { queues: BTreeSet::new(), files: 0 };
    FOLDERS.iter().for_each(|name| search.folder(&folder.join(name), 0));
    (search.queues, search.files >= FILES_MAX)
}

struct Search {
    queues: BTreeSet<String>,
    files: usize,
}

impl Search {
    fn folder(&mut self, path: &Path, depth: usize) {
        let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
        for entry in entries {
            // Links are not followed, so the search ends.
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() && depth < DEPTH_MAX {
                self.folder(&path, depth + 1);
            } else if kind.is_file() && path.extension().is_some_and(|it| it == "rb") {
                self.files += 1;
                if self.files >= FILES_MAX {
                    return;
                }
                let text = read_text(&path).unwrap_or_default();
                self.queues.extend(text.lines().filter_map(queue_of).map(str::to_owned));
            }
        }
    }
}

/// Returns the queue that a line names.
fn queue_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with('#') || !CALLS.iter().any(|call| line.contains(call)) {
        return None;
    }
    let behind = ["queue_as", "queue:", ":queue =>"].iter().find_map(|key| {
        let (before, behind) = line.split_once(key)?;
        let is_other = before.ends_with(|it: char| it.is_ascii_alphanumeric() || it == '_');
        (!is_other).then_some(behind)
    })?;
    let behind = behind.trim_start_matches(['(', ' ']);
    let name = match behind.chars().next()? {
        ':' => behind[1..].trim_start_matches('"').split(|it: char| !is_word(it)).next()?,
        quote @ ('"' | '\'') => behind[1..].split(quote).next()?,
        _ => return None,
    };
    is_name(name).then_some(name)
}

const fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_calls_that_choose_a_queue() {
        for (line, expected) in [
            ("  sidekiq_options queue: 'ingress', retry: 8", Some("ingress")),
            ("sidekiq_options(:queue => :low, retry: 3)", Some("low")),
            ("  queue_as :mailers", Some("mailers")),
            ("  queue_as 'within_minutes'", Some("within_minutes")),
            ("Work.set(queue: \"pull\").perform_async(1)", Some("pull")),
            ("Mail.x.deliver_later(queue: :mail)", Some("mail")),
            ("  queue_as { name }", None),
            ("  sidekiq_options retry: 0", None),
            ("  sidekiq_options lock_queue: 'x'", None),
            ("  # sidekiq_options queue: 'old'", None),
            ("  json.queue: 'x'", None),
            ("  sidekiq_options queue: \"#{a}\"", None),
            ("  sidekiq_options queue: ':'", None),
            ("queue_as", None),
        ] {
            assert_eq!(queue_of(line), expected, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in "(queue_as|sidekiq_options queue:)?\\PC{0,40}") {
            let _ = queue_of(&line);
        }
    }
}
