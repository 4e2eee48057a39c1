//! Anchors of headings, as forges generate them, and of settings.

use std::collections::HashMap;

use pulldown_cmark::{Event, Tag, TagEnd};

use crate::markdown;

/// The anchors of one page.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    used: HashMap<String, usize>,
}

impl Anchors {
    /// Returns the anchor of the page's next heading. A repeated one has a number at its end.
    pub(crate) fn of_heading(&mut self, heading: &str) -> String {
        let anchor = anchor(heading);
        let count = self.used.entry(anchor.clone()).or_default();
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    }
}

/// Lower case, spaces as hyphens, without punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect::<String>().to_lowercase()
}

/// Returns the anchors of all headings of a page in Markdown.
#[must_use]
pub fn anchors(text: &str) -> Vec<String> {
    let (mut anchors, mut found, mut open) = (Anchors::default(), Vec::new(), None::<String>);
    for event in markdown::events(text) {
        match (event, &mut open) {
            (Event::Start(Tag::Heading { .. }), _) => open = Some(String::new()),
            (Event::End(TagEnd::Heading(_)), heading) => {
                found.extend(heading.take().map(|text| anchors.of_heading(&text)));
            }
            (Event::Text(more) | Event::Code(more), Some(heading)) => heading.push_str(&more),
            _ => {}
        }
    }
    found
}

/// Returns what precedes the names of the settings below a heading of docs/reference/settings.md: `jobs.limits.` for
/// "[jobs.limits]".
pub(crate) fn setting_prefix(heading: &str) -> Option<String> {
    match heading {
        "Top level" => Some(String::new()),
        table => {
            let name = table.strip_prefix('[')?.strip_suffix(']')?;
            Some(format!("{}.", name.trim_start_matches('[').trim_end_matches(']')))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_forges() {
        let text =
            "# Here: `it` is\n## A_b-c (d)\n```sh\n# no heading\n```\n## Über 2 %\n## A_b-c d\n";
        assert_eq!(anchors(text), ["here-it-is", "a_b-c-d", "über-2-", "a_b-c-d-1"]);
    }

    #[test]
    fn settings_have_the_name_of_their_table() {
        for (heading, prefix) in [
            ("Top level", Some("")),
            ("[jobs.limits]", Some("jobs.limits.")),
            ("[[jobs.cron]]", Some("jobs.cron.")),
            ("Other", None),
        ] {
            assert_eq!(setting_prefix(heading).as_deref(), prefix, "{heading}");
        }
    }
}
