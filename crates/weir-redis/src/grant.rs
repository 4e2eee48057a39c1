//! Formats commands that grant permissions to a Redis user.

/// The user of clients without a user name.
const NOBODYS: &str = "default";

/// Returns the command in `redis-cli` syntax: `ACL SETUSER weir +zcard`.
#[must_use]
pub fn line(user: Option<&str>, rules: &str) -> String {
    format!("ACL SETUSER {} {rules}", word(user.unwrap_or(NOBODYS)))
}

/// Quotes a word for `redis-cli`, which uses C syntax.
fn word(name: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-.@:/+".contains(letter);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    let escaped = name.bytes().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_user_that_asked_as_redis_cli_reads_it() {
        for (user, expected) in [
            (None, "ACL SETUSER default +zcard"),
            (Some("weir"), "ACL SETUSER weir +zcard"),
            (Some("a@b"), "ACL SETUSER a@b +zcard"),
            (Some("it's \"me\""), r#"ACL SETUSER "it's \"me\"" +zcard"#),
            (Some("a\nb"), r#"ACL SETUSER "a\x0ab" +zcard"#),
        ] {
            assert_eq!(line(user, "+zcard"), expected);
        }
    }
}
