//! Text from a client in an error: one line of limited length.

use std::fmt::{self, Write};

/// The most characters shown. Most signed texts (socket, channel, user data) fit.
const CHARACTERS_MAX: usize = 500;

/// Displays the beginning of a text, with control characters escaped.
#[derive(Debug)]
pub(super) struct Excerpt<'a>(pub(super) &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.0.chars();
        for character in characters.by_ref().take(CHARACTERS_MAX) {
            match character.is_control() {
                true => write!(formatter, "{}", character.escape_default())?,
                false => formatter.write_char(character)?,
            }
        }
        match characters.next() {
            Some(_) => formatter.write_str("..."),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_one_line_of_bounded_length() {
        assert_eq!(Excerpt("POST\n/apps\u{7}").to_string(), "POST\\n/apps\\u{7}");
        let long = Excerpt(&"é".repeat(501)).to_string();
        assert_eq!(long, "é".repeat(500) + "...");
        assert_eq!(Excerpt(&"é".repeat(500)).to_string(), "é".repeat(500));
    }
}
