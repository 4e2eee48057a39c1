//! Reads the last changes from the end of `/versions`.

use crate::index::text::Text;
use crate::view::ChangeView;

/// Bytes to read at the end of the text.
const TAIL_BYTES: u64 = 64 << 10;
/// Maximum number of versions to return for one line.
const VERSIONS_MAX: usize = 10;

/// Returns the last changes, latest first.
pub(super) fn changes(text: &Text, changes_max: usize) -> Vec<ChangeView> {
    let start = text.length().saturating_sub(TAIL_BYTES);
    let tail: Vec<u8> = text.range(start..text.length()).flatten().collect();
    let tail = String::from_utf8_lossy(&tail);
    // The first line may be truncated, or the header.
    let lines = tail.lines().skip(usize::from(start > 0)).filter_map(change);
    let mut all: Vec<_> = lines.collect();
    all.reverse();
    all.truncate(changes_max);
    all
}

/// Parses a line such as `rack 2.0,-1.0,2.0-java MD5`.
fn change(line: &str) -> Option<ChangeView> {
    let mut words = line.split(' ');
    let (name, versions, _md5) = (words.next()?, words.next()?, words.next()?);
    let (mut pushed, mut yanked) = (Vec::new(), Vec::new());
    for version in versions.split(',').take(VERSIONS_MAX) {
        match version.strip_prefix('-') {
            Some(version) => yanked.push(version.to_owned()),
            None => pushed.push(version.to_owned()),
        }
    }
    let more = versions.split(',').skip(VERSIONS_MAX).count();
    Some(ChangeView { name: name.to_owned(), pushed, yanked, more })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::digest::Digests;

    fn text(lines: &str) -> Text {
        let text = format!("created_at: 2026-11-22T00:00:00Z\n---\n{lines}");
        Text::empty(1).with(text.as_bytes(), Digests::of(text.as_bytes()))
    }

    #[test]
    fn the_latest_is_first() {
        let text = text("a 1.0 ff\nb 1.0,1.1-java ee\na -1.0,2.0 dd\n");
        let told: Vec<_> = changes(&text, 2)
            .into_iter()
            .map(|it| format!("{} +{} -{}", it.name, it.pushed.join(","), it.yanked.join(",")))
            .collect();
        assert_eq!(told, ["a +2.0 -1.0", "b +1.0,1.1-java -"]);
        assert_eq!(changes(&text, 9).len(), 3, "the header is no change");
    }

    #[test]
    fn only_the_end_of_a_long_text_is_read() {
        let versions: Vec<_> = (0..12).map(|number| number.to_string()).collect();
        let lines: String =
            (0..9_000).map(|gem| format!("gem-{gem} {} ff\n", versions.join(","))).collect();
        let changes = changes(&text(&lines), usize::MAX);
        assert_eq!((&*changes[0].name, changes[0].more), ("gem-8999", 2));
        assert!(changes.len() > 1_000 && changes.len() < 9_000);
        assert!(changes.iter().all(|it| it.name.starts_with("gem-") && it.pushed.len() == 10));
    }
}
