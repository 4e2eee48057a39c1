//! Quotes names and values in SQL statements for psql.

/// Quotes an identifier, including keywords and special characters.
#[must_use]
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a string literal.
#[must_use]
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_text_are_one_whatever_is_in_them() {
        assert_eq!(identifier("user"), r#""user""#, "a word of SQL");
        assert_eq!(identifier("o\"x; DROP"), r#""o""x; DROP""#);
        assert_eq!(literal("o'x; DROP"), "'o''x; DROP'");
    }
}
