//! Converts search terms that operators enter into the store's globs.

/// Returns a glob that finds `glob` anywhere in a job's text.
pub(crate) fn anywhere(glob: &str) -> String {
    let front = if glob.starts_with('*') { "" } else { "*" };
    let back = if glob.ends_with('*') && !glob.ends_with("\\*") { "" } else { "*" };
    format!("{front}{glob}{back}")
}

/// Returns the glob for a search term. Plain text is found literally anywhere in the job; text with
/// `*` or `?` is a glob.
pub(crate) fn pattern(text: &str) -> String {
    if text.contains(['*', '?']) { anywhere(text) } else { anywhere(&escape(text)) }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '[' | '\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_get_stars_once() {
        assert_eq!(anywhere("*a*"), "*a*");
        assert_eq!(anywhere("a"), "*a*");
        assert_eq!(anywhere("a\\*"), "*a\\**");
    }

    #[test]
    fn plain_text_is_matched_literally() {
        assert_eq!(pattern("[1,2]"), "*\\[1,2]*");
        assert_eq!(pattern("user ?7"), "*user ?7*");
    }
}
