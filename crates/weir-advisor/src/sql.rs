//! Names and values as SQL reads them: statements that can be pasted into psql.

/// A name, whatever its letters and whether it is a word of SQL.
#[must_use]
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text.
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
