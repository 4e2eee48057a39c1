//! Shell commands that can be pasted safely, whatever names they contain.

use std::fmt::Write;

/// Quotes a word for a shell. Queue names come from clients and may contain commands.
#[must_use]
pub fn word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:=,@%+".contains(letter);
    // Control characters affect terminals, and some monitoring plugins cut a line at `|`.
    let unprintable = |letter: char| letter.is_control() || letter == '|';
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    if !text.contains(unprintable) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => quoted.extend(['\\', letter]),
            _ if unprintable(letter) => {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(quoted, "\\{byte:03o}");
                }
            }
            _ => quoted.push(letter),
        }
    }
    quoted + "'"
}

/// Quotes an SQL statement as a word, with string literals still readable.
pub(crate) fn statement(sql: &str) -> String {
    // Characters special between double quotes, and those that `word` escapes.
    let escaped = |letter: char| "\"$`\\!|".contains(letter) || letter.is_control();
    match sql.contains('\'') && !sql.contains(escaped) {
        true => format!("\"{sql}\""),
        false => word(sql),
    }
}

/// Returns the `redis-cli` call for the Redis named `name`; `master` is its address from Sentinel.
/// Passwords belong in `REDISCLI_AUTH` and are never printed.
pub(crate) fn redis_cli(name: &str, master: Option<&str>) -> String {
    let (address, database) = match name.rsplit_once('/') {
        Some((address, number)) if is_number(number) => (address, format!(" -n {number}")),
        _ => (name, String::new()),
    };
    let address = master.unwrap_or(address);
    match address.rsplit_once(':') {
        Some((host, port)) if is_number(port) => {
            format!("redis-cli -h {} -p {port}{database}", word(host))
        }
        _ if address.starts_with('/') => format!("redis-cli -s {}{database}", word(address)),
        // Without host and port, it would connect to the local Redis. The shell stops if they are unset.
        _ => format!(
            "redis-cli -h \"${{REDIS_HOST:?must be set to the host of this Redis}}\" \
             -p \"${{REDIS_PORT:?must be set to its port}}\"{database}"
        ),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pasted_is_one_word() {
        for (name, expected) in [
            ("default", "default"),
            ("", "''"),
            ("a b", "'a b'"),
            ("x; rm -rf ~", "'x; rm -rf ~'"),
            ("$(id)", "'$(id)'"),
            ("it's", r"'it'\''s'"),
            ("a|b", r"$'a\174b'"),
            ("q\nIN'JECT", r"$'q\012IN\'JECT'"),
            ("\u{1b}[31m\u{85}", r"$'\033[31m\302\205'"),
        ] {
            assert_eq!(word(name), expected, "{name:?}");
        }
    }

    #[test]
    fn a_statement_is_one_word_that_can_be_read() {
        for (sql, expected) in [
            ("SELECT drop('x')", "\"SELECT drop('x')\""),
            ("SELECT 1", "'SELECT 1'"),
            ("SET x = '$(id)'", r"'SET x = '\''$(id)'\'''"),
            (r#"ALTER ROLE "a" SET x = '5min'"#, r#"'ALTER ROLE "a" SET x = '\''5min'\'''"#),
            ("SELECT 'a|b'", r"$'SELECT \'a\174b\''"),
        ] {
            assert_eq!(statement(sql), expected);
        }
    }

    #[test]
    fn a_server_is_asked_where_it_listens() {
        for (name, expected) in [
            ("127.0.0.1:6379", "redis-cli -h 127.0.0.1 -p 6379"),
            ("127.0.0.1:6379/2", "redis-cli -h 127.0.0.1 -p 6379 -n 2"),
            ("/run/redis.sock", "redis-cli -s /run/redis.sock"),
            ("::1:6379", "redis-cli -h ::1 -p 6379"),
            (
                "mymaster (Sentinel)/2",
                "redis-cli -h \"${REDIS_HOST:?must be set to the host of this Redis}\" \
                 -p \"${REDIS_PORT:?must be set to its port}\" -n 2",
            ),
        ] {
            assert_eq!(redis_cli(name, None), expected);
        }
        let seen = redis_cli("mymaster (Sentinel)/2", Some("10.0.0.7:6380"));
        assert_eq!(seen, "redis-cli -h 10.0.0.7 -p 6380 -n 2");
    }
}
