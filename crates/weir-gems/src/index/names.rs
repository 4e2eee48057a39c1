//! Writes `/names`: `---`, then each gem that has a release. New names are appended.

/// Beginning of the text.
pub const HEADER: &str = "---\n";

/// Appends a name.
pub fn write_line(text: &mut String, name: &str) {
    text.push_str(name);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_line() {
        let mut text = HEADER.to_owned();
        write_line(&mut text, "rails");
        assert_eq!(text, "---\nrails\n");
    }
}
