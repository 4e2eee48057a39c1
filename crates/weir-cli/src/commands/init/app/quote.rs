//! Texts in TOML and in commands of a shell. All of them may come from files of others.

/// Quotes a text for TOML.
pub(super) fn toml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(letter)));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Quotes texts as a list of TOML.
pub(super) fn toml_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(toml).collect();
    format!("[{}]", quoted.join(", "))
}

/// Doubles braces, which are placeholders in commands and environments.
pub(super) fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// Returns whether a text means the same to a shell, to systemd and in a URL without quotes.
pub(super) fn is_plain(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-/:@+,=".contains(letter);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(plain)
}

/// Returns whether a text is the name of a host, a database, a user or a number.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    !text.is_empty() && !text.starts_with(['-', '.']) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_quoted_text_is_read_as_it_was(text in "\\PC{0,40}|[\\x00-\\x7f]{0,20}") {
            let document = format!("a = {}\n", toml(&text));
            let table: toml::Table = document.parse().expect("TOML");
            proptest::prop_assert_eq!(table["a"].as_str(), Some(text.as_str()));
        }
    }
}
