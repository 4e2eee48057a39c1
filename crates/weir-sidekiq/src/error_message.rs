//! Shortens the message of a job's error to one line, and masks what may be a password.
//!
//! Clients write messages, and libraries put addresses with passwords into them. Rather too much is
//! masked than too little.

use std::borrow::Cow;

/// Letters of a message that are reported.
const LETTERS_MAX: usize = 120;
/// Bytes of a message that are read. Words that are cut there are left out, because half a word does
/// not show whether it has a password.
const READ_BYTES_MAX: usize = 2_048;
const MASK: &str = "***";
/// Words whose value is masked: "password=hunter2", "token: x".
const SECRETS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "private_key",
    "signature",
    "credential",
];
/// Schemes of the header `Authorization`.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// Returns the first line of the message without control characters and secrets, or `None` if nothing
/// is left. Further lines have the code around the error (Ruby) or the statement and its values
/// (Postgres).
pub(crate) fn shortened(message: &str) -> Option<String> {
    let mut line = String::new();
    let mut is_next_secret = false;
    let first = read(message).lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    for word in first.split_whitespace() {
        let word: String = word.chars().filter(|letter| !is_hidden(*letter)).collect();
        if word.is_empty() {
            continue;
        }
        // "password => hunter2"
        let is_separator = word.chars().all(|letter| "=:>\"'".contains(letter));
        let shown = match is_next_secret && !is_separator {
            true => Cow::Borrowed(MASK),
            false => masked(&word),
        };
        is_next_secret = match is_separator {
            true => is_next_secret || is_name(&line),
            false => is_followed_by_secret(&word),
        };
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&shown);
    }
    let end = line.char_indices().nth(LETTERS_MAX).map(|(end, _)| end);
    if let Some(end) = end {
        line.truncate(end);
        line.push('…');
    }
    (!line.is_empty()).then_some(line)
}

/// Returns the beginning of the message, in whole words.
fn read(message: &str) -> &str {
    if message.len() <= READ_BYTES_MAX {
        return message;
    }
    let end = (0..=READ_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end));
    let beginning = &message[..end.unwrap_or(0)];
    beginning.rfind(char::is_whitespace).map_or("", |end| &beginning[..end])
}

/// Control characters, and those that change the order of a line or are not visible.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn masked(word: &str) -> Cow<'_, str> {
    // First what an `@` ends, which the value of a secret may contain.
    let word = match user_information(word) {
        Some((from, to)) => Cow::Owned(format!("{}{MASK}{}", &word[..from], &word[to..])),
        None => Cow::Borrowed(word),
    };
    match secret_value(&word) {
        Some(from) => Cow::Owned(format!("{}{MASK}", &word[..from])),
        None => word,
    }
}

/// Returns the range of "user:password" before the last `@`. Without a colon, the part before the `@`
/// is a password only in the authority of a URL: that of `https://far.example/@alice` is a path.
fn user_information(word: &str) -> Option<(usize, usize)> {
    let to = word.rfind('@')?;
    let authority = |(at, scheme): (usize, &str)| {
        let from = at + scheme.len();
        let end = word[from..].find(['/', '?', '#']).map_or(word.len(), |end| from + end);
        word[from..end].contains('@').then_some(from)
    };
    let colon = |(at, _): (usize, &str)| (at < to && !is_end_of_scheme(word, at)).then_some(at + 1);
    let authority = word.match_indices("://").find_map(authority);
    let colon = word.match_indices(':').find_map(colon);
    let from = authority.into_iter().chain(colon).min()?;
    (from < to).then_some((from, to))
}

/// Reports whether the colon at `at` ends the scheme of a URL. In the authority of another URL it
/// comes before a password that begins with `//`.
fn is_end_of_scheme(word: &str, at: usize) -> bool {
    let before = word[..at].rsplit_once("://");
    let is_in_authority = before.is_some_and(|(_, authority)| !authority.contains('/'));
    word[at..].starts_with("://") && !is_in_authority
}

/// Returns where the value of "password=hunter2" begins.
fn secret_value(word: &str) -> Option<usize> {
    let lower = word.to_ascii_lowercase();
    // The rest of the name: "password_digest", "tokens".
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-\"']".contains(letter);
    let value = |after: usize| {
        let separator = after + lower[after..].find(|letter| !is_name(letter))?;
        let rest = lower[separator..].trim_start_matches(['=', ':', '>']);
        let from = lower.len() - rest.len();
        (from > separator && !rest.is_empty()).then_some(from)
    };
    let names = SECRETS
        .iter()
        .flat_map(|secret| lower.match_indices(secret).map(|(at, name)| at + name.len()));
    names.filter_map(value).min()
}

/// Reports whether the word after this one is a secret: "password:", "Bearer".
fn is_followed_by_secret(word: &str) -> bool {
    let is_separated = word.ends_with(['=', ':', '>']);
    let lower = word.to_ascii_lowercase();
    let plain = lower.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    SCHEMES.contains(&plain) || is_separated && is_name(&lower)
}

/// Reports whether the last word of `line` names a secret.
fn is_name(line: &str) -> bool {
    let last = line.rsplit(' ').next().unwrap_or_default().to_ascii_lowercase();
    SECRETS.iter().any(|secret| last.contains(secret))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(message: &str) -> String {
        shortened(message).unwrap_or_default()
    }

    #[test]
    fn a_message_is_one_short_line_without_control_characters() {
        assert_eq!(of("could not  connect\tto server"), "could not connect to server");
        let several = "\n ERROR: duplicate key\r\nDETAIL: Key (email)=(alice@far.example) exists.";
        assert_eq!(of(several), "ERROR: duplicate key");
        assert_eq!(of("a\u{1b}[31m \u{202e}b \u{0}"), "a[31m b");
        assert_eq!(shortened(" \n\u{0}"), None);
        let long = of(&"ab ".repeat(100));
        assert_eq!(long.chars().count(), LETTERS_MAX + 1);
        assert!(long.ends_with("ab…") || long.ends_with(" …") || long.ends_with("a…"), "{long}");
        assert_eq!(of(&"ä".repeat(120)), "ä".repeat(120));
        assert_eq!(shortened(&"x".repeat(READ_BYTES_MAX + 1)), None, "a word that was cut");
    }

    #[test]
    fn passwords_of_addresses_are_masked() {
        for (message, expected) in [
            ("redis://:hunter2@10.0.0.1:6379/0 refused", "redis://***@10.0.0.1:6379/0 refused"),
            ("(postgres://shop:hunter2@db/shop)", "(postgres://***@db/shop)"),
            ("postgres://shop:hun/ter2@db/shop", "postgres://shop:***@db/shop"),
            ("postgres://shop:hun@ter2@db", "postgres://***@db"),
            ("redis://shop://hunter2/@db", "redis://shop:***@db"),
            ("https://hunter2@far.example/", "https://***@far.example/"),
            ("https://a.example/,redis://:hunter2@b:1", "https://a.example/,redis://***@b:1"),
            ("https://a.example/?to=b:hunter2@c", "https://a.example/?to=b:***@c"),
            ("shop:hunter2@db", "shop:***@db"),
            ("se://a:hun\u{0}ter2@db", "se://***@db"),
            ("https://far.example/@alice", "https://far.example/@alice"),
            ("https://far.example:8443/inbox", "https://far.example:8443/inbox"),
            ("alice@far.example is taken", "alice@far.example is taken"),
        ] {
            assert_eq!(of(message), expected, "{message}");
        }
    }

    #[test]
    fn values_of_secrets_are_masked() {
        for (message, expected) in [
            ("host=db password=hunter2 port=1", "host=db password=*** port=1"),
            ("password: hunter2", "password: ***"),
            ("{:password => \"hunter2\"}", "{:password => ***"),
            ("{\"api_key\"=>\"hunter2\", :a=>1}", "{\"api_key\"=>*** :a=>1}"),
            ("Authorization: Bearer hunter2", "Authorization: Bearer ***"),
            (
                "https://a.example/x?access_token=hunter2&y=1",
                "https://a.example/x?access_token=***",
            ),
            ("tokens?token=hunter2", "tokens?token=***"),
            ("password=a:hunter2@b", "password=***"),
            ("PGPASSWORD=hunter2 psql", "PGPASSWORD=*** psql"),
            (
                "password authentication failed for user \"shop\"",
                "password authentication failed for user \"shop\"",
            ),
            ("unexpected token at '<html>'", "unexpected token at '<html>'"),
        ] {
            assert_eq!(of(message), expected, "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_message_panics_and_each_line_is_bounded(message in "\\PC{0,300}", bytes: Vec<u8>) {
            for message in [message, String::from_utf8_lossy(&bytes).into_owned()] {
                let line = of(&message);
                prop_assert!(line.chars().count() <= LETTERS_MAX + 1);
                prop_assert!(!line.chars().any(char::is_control));
            }
        }

        #[test]
        fn no_password_of_a_url_is_left(
            before in "[a-z:/@ ]{0,12}",
            password in "[A-Z0-9/?#:@%]{0,9}HUNTER[A-Z0-9/?#:@%]{0,9}",
            rest in "[a-z0-9:/@?. ]{0,20}",
        ) {
            let line = of(&format!("{before} redis://user:{password}@host{rest}"));
            prop_assert!(!line.contains("HUNTER"), "{line}");
        }
    }
}
