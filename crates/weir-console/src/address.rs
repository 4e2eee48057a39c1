//! Addresses of the console's own pages.

use form_urlencoded::Serializer;

/// Formats `path?name=value&..`, escaped. Empty values are omitted, and so is an empty query.
pub(crate) fn address(path: &str, fields: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(fields.iter().filter(|(_, value)| !value.is_empty()));
    match query.finish() {
        empty if empty.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_omitted_and_the_rest_is_escaped() {
        assert_eq!(address("/job", &[("jid", "a&b=c\r\n"), ("x", "")]), "/job?jid=a%26b%3Dc%0D%0A");
        assert_eq!(address("/dead", &[("search", "")]), "/dead");
    }
}
