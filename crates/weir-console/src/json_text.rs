//! Formats JSON without parsing it: only white space outside of strings changes, so every digit,
//! escape and duplicate key is shown as it was pushed.

const INDENT: &str = "  ";
/// Limit of indented levels: a hostile job cannot create a page of blanks.
const INDENT_LEVELS_MAX: usize = 24;

/// Truncated text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// Whether the text was truncated.
    pub(crate) is_cut: bool,
}

/// Formats `json` over several lines, truncated to about `bytes_max` bytes. Invalid JSON is shown
/// too.
pub(crate) fn pretty(json: &str, bytes_max: usize) -> Shown {
    let mut printer = Printer { text: String::new(), depth: 0 };
    let mut rest = json.trim();
    while let Some(next) = rest.chars().next() {
        if printer.text.len() >= bytes_max {
            return Shown { text: printer.text, is_cut: true };
        }
        let room = bytes_max - printer.text.len();
        let token_bytes = match next {
            '"' => string_bytes(rest),
            _ => next.len_utf8(),
        };
        let token = &rest[..token_bytes];
        if token.len() > room {
            printer.text.push_str(cut(token, room));
            return Shown { text: printer.text, is_cut: true };
        }
        rest = &rest[token_bytes..];
        printer.print(token, rest);
        if matches!(token, "{" | "[") {
            rest = printer.close_empty(rest);
        }
    }
    Shown { text: printer.text, is_cut: false }
}

/// Returns the first `bytes_max` bytes of `text`, at a character boundary.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the bytes of the string literal at the start of `text`, with quotes; all of it without a
/// closing quote.
fn string_bytes(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

struct Printer {
    text: String,
    depth: usize,
}

impl Printer {
    fn print(&mut self, token: &str, rest: &str) {
        match token {
            "{" | "[" => {
                self.text.push_str(token);
                self.depth += 1;
                self.break_line();
            }
            "}" | "]" => {
                self.depth = self.depth.saturating_sub(1);
                self.break_line();
                self.text.push_str(token);
            }
            "," => {
                self.text.push(',');
                self.break_line();
            }
            ":" => self.text.push_str(": "),
            " " | "\t" | "\r" | "\n" => self.separate(rest),
            other => self.text.push_str(other),
        }
    }

    /// Removes white space except between two words: `1 2` (invalid JSON) must not become `12`.
    fn separate(&mut self, rest: &str) {
        let is_word = |character: char| !"{}[],: \t\r\n\"".contains(character);
        let before = self.text.chars().next_back().is_some_and(is_word);
        if before && rest.chars().next().is_some_and(is_word) {
            self.text.push(' ');
        }
    }

    /// Keeps `{}` and `[]` on one line.
    fn close_empty<'a>(&mut self, rest: &'a str) -> &'a str {
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if !trimmed.starts_with(['}', ']']) {
            return rest;
        }
        self.depth = self.depth.saturating_sub(1);
        let line_end = self.text.rfind('\n').unwrap_or(self.text.len());
        self.text.truncate(line_end);
        self.text.push_str(&trimmed[..1]);
        &trimmed[1..]
    }

    fn break_line(&mut self) {
        self.text.push('\n');
        for _ in 0..self.depth.min(INDENT_LEVELS_MAX) {
            self.text.push_str(INDENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(json: &str) -> String {
        pretty(json, usize::MAX).text
    }

    #[test]
    fn numbers_keep_every_digit() {
        let text = shown(r#"{"id":109326485893512345,"x":[1e400,-0.0,1.10]}"#);
        let expected =
            "{\n  \"id\": 109326485893512345,\n  \"x\": [\n    1e400,\n    -0.0,\n    1.10\n  ]\n}";
        assert_eq!(text, expected);
    }

    #[test]
    fn strings_are_unchanged() {
        let text = shown(r#"{ "a" : "{ \"x\" : [ ] , }" , "b":"\\" }"#);
        assert_eq!(text, "{\n  \"a\": \"{ \\\"x\\\" : [ ] , }\",\n  \"b\": \"\\\\\"\n}");
    }

    #[test]
    fn empty_brackets_stay_on_one_line() {
        assert_eq!(shown(r#"{"a":[ ],"b":{}}"#), "{\n  \"a\": [],\n  \"b\": {}\n}");
        assert_eq!(shown("[[]]"), "[\n  []\n]");
    }

    #[test]
    fn duplicate_keys_are_both_shown() {
        assert_eq!(shown(r#"{"a":1,"a":2}"#), "{\n  \"a\": 1,\n  \"a\": 2\n}");
    }

    #[test]
    fn a_long_payload_is_cut_at_a_character_boundary() {
        let shown = pretty("[\"ääää\"]", 8);
        assert!(shown.is_cut);
        assert!(shown.text.len() <= 8, "{}", shown.text);
        assert!(!pretty("[1]", 100).is_cut);
    }

    proptest! {
        /// Nothing panics, and only white space comes or goes.
        #[test]
        fn only_white_space_changes(text in "[\\[\\]{}:, \\n\"\\\\a1ä]{0,200}", bytes_max in 0_usize..400) {
            let solid = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(solid(&shown(&text)), solid(&text));
            let deep = "[".repeat(3_000);
            prop_assert!(pretty(&deep, bytes_max).text.len() <= bytes_max + INDENT_LEVELS_MAX * 2 + 2);
        }
    }
}
