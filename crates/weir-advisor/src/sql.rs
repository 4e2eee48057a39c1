//! Names and values as SQL reads them: statements that can be pasted into psql.

/// A name, whatever its letters and whether it is a word of SQL.
#[must_use]
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_whatever_is_in_it() {
        assert_eq!(identifier("user"), r#""user""#, "a word of SQL");
        assert_eq!(identifier("o\"x; DROP"), r#""o""x; DROP""#);
    }
}
