//! Makes characters visible that hide or reorder the text beside them.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns `text` with control characters and bidirectional marks escaped as in JSON (`\u202e`), so
/// that client input cannot change how a page reads.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(hides) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if hides(character) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a character is a control character, except for tab and line ends, or a mark of
/// Unicode's bidirectional algorithm.
fn hides(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidirectional_characters_are_escaped() {
        assert_eq!(visible("\u{202e}gnp.exe"), "\\u202egnp.exe");
        assert_eq!(
            visible("a\u{2066}b\u{2069}\u{0}\u{1b}[0m"),
            "a\\u2066b\\u2069\\u0000\\u001b[0m"
        );
        for plain in ["", "äöü 日本語 👍🏽", "עברית", "two\nlines\tand a tab"] {
            assert!(matches!(visible(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }
}
