//! The texts of the requests, from the tables of `admin-api.txt`: the only place where they are written.

use std::collections::BTreeMap;

/// The page without what is generated.
pub(super) const TEMPLATE: &str = include_str!("admin-api.txt");

/// The text of a request, and the heading above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestText {
    pub(super) section: String,
    pub(super) text: String,
}

/// A request: its method in lower case, and its path.
pub(super) type RequestKey = (String, String);

/// Returns the texts of all requests.
///
/// # Panics
/// If two rows describe the same request.
pub(super) fn texts() -> BTreeMap<RequestKey, RequestText> {
    let (mut texts, mut section) = (BTreeMap::new(), String::new());
    for line in TEMPLATE.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        }
        let Some((requests, text)) = row(line) else { continue };
        for request in requests {
            let text = RequestText { section: section.clone(), text: text.to_owned() };
            let earlier = texts.insert(request.clone(), text);
            assert!(earlier.is_none(), "admin-api.txt describes {request:?} twice");
        }
    }
    texts
}

/// Returns the requests and the text of a row. None: the line is none.
pub(super) fn row(line: &str) -> Option<(Vec<RequestKey>, &str)> {
    let (requests, text) = line.strip_prefix("| ")?.split_once(" | ")?;
    let requests: Vec<RequestKey> = requests.split('`').filter_map(parse_request).collect();
    (!requests.is_empty()).then(|| (requests, text.trim_end_matches(" |")))
}

fn parse_request(text: &str) -> Option<RequestKey> {
    let (method, target) = text.split_once(' ')?;
    let is_method = ["GET", "POST"].contains(&method);
    (is_method && target.starts_with('/')).then(|| (method.to_lowercase(), target.to_owned()))
}

/// Returns the text without links, which lead to other pages.
pub(super) fn without_links(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        let link = after.split_once("](").and_then(|(label, target)| {
            let (target, behind) = target.split_once(')')?;
            let is_link = !label.contains('[') && !target.contains(' ');
            is_link.then_some((label, behind))
        });
        match link {
            Some((label, behind)) => {
                plain.push_str(label);
                rest = behind;
            }
            None => {
                plain.push('[');
                rest = after;
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_requests() {
        let line = "| `GET /v1/a`, `POST /v1/a/{id}` | says `{}` or 404 |";
        let key = |method: &str, path: &str| (method.to_owned(), path.to_owned());
        let keys = vec![key("get", "/v1/a"), key("post", "/v1/a/{id}")];
        assert_eq!(row(line), Some((keys, "says `{}` or 404")));
        assert_eq!(row("| request | response |"), None);
        assert_eq!(row("| --- | --- |"), None);
    }

    #[test]
    fn links_become_their_labels() {
        assert_eq!(without_links("a [b](../c.md#d), `[..]` and [e](f.md)."), "a b, `[..]` and e.");
        assert_eq!(without_links("a [b"), "a [b");
    }
}
