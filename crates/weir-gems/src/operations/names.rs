//! Counts and searches `/names`.

use std::collections::BinaryHeap;

use crate::index::text::Text;
use crate::view::NamePage;

/// Returns the number of names.
pub(super) fn count(text: &Text) -> u64 {
    let lines: usize = text
        .range(0..text.length())
        .map(|piece| piece.iter().filter(|byte| **byte == b'\n').count())
        .sum();
    // The first line is not a name.
    lines.saturating_sub(1) as u64
}

/// Returns names in order that contain `search` and sort after `after`.
pub(super) fn page(text: &Text, search: &str, after: Option<&str>, names_max: usize) -> NamePage {
    let search = search.to_ascii_lowercase();
    // A heap with the largest of the selected names on top.
    let mut first: BinaryHeap<String> = BinaryHeap::new();
    let (mut total, mut has_more) = (0, false);
    for_each(text, |name| {
        if !name.to_ascii_lowercase().contains(&search) {
            return;
        }
        total += 1;
        if after.is_some_and(|after| name <= after) {
            return;
        }
        if first.len() == names_max {
            has_more = true;
            // The name sorts after all selected ones.
            if first.peek().is_none_or(|last| name > last.as_str()) {
                return;
            }
            first.pop();
        }
        first.push(name.to_owned());
    });
    let names = first.into_sorted_vec();
    let next = names.last().filter(|_| has_more).cloned();
    NamePage { names, total, next }
}

/// Calls `work` for each name. Names may span pieces.
fn for_each(text: &Text, mut work: impl FnMut(&str)) {
    let mut begun: Vec<u8> = Vec::new();
    let mut line = |line: &[u8]| {
        if let Ok(name) = str::from_utf8(line)
            && name != "---"
        {
            work(name);
        }
    };
    for piece in text.range(0..text.length()) {
        let mut rest = &piece[..];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            begun.extend_from_slice(&rest[..end]);
            line(&begun);
            begun.clear();
            rest = &rest[end + 1..];
        }
        begun.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::digest::Digests;

    fn text(names: &[String]) -> Text {
        let lines = format!("---\n{}\n", names.join("\n"));
        Text::empty(1).with(lines.as_bytes(), Digests::of(lines.as_bytes()))
    }

    #[test]
    fn names_are_found_whatever_their_case_page_by_page() {
        let names = ["rack", "Rake", "sinatra", "rack-test", "brakeman"].map(str::to_owned);
        let text = text(&names);
        assert_eq!(count(&text), 5);
        let first = page(&text, "RA", None, 3);
        assert_eq!(first.names, ["Rake", "brakeman", "rack"]);
        assert_eq!((first.total, first.next.as_deref()), (5, Some("rack")));
        let second = page(&text, "RA", first.next.as_deref(), 3);
        assert_eq!((second.names, second.next), (vec!["rack-test".into(), "sinatra".into()], None));
        assert_eq!(page(&text, "rake", None, 3).names, ["Rake", "brakeman"]);
        assert_eq!(page(&text, "", None, 5).next, None);
    }

    #[test]
    fn a_name_that_lies_in_two_pieces_is_one() {
        let names: Vec<String> = (0..60_000).map(|number| format!("gem-{number:07}")).collect();
        let text = text(&names);
        assert_eq!(count(&text), 60_000);
        assert_eq!(page(&text, "", None, 100_000).names, names);
    }
}
