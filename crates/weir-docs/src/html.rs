//! HTML text, tags and cells.

use pulldown_cmark::{Alignment, Tag, TagEnd};

/// Appends `text` so that it is shown as it is, also within an attribute.
pub(crate) fn escape_to(html: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            other => html.push(other),
        }
    }
}

pub(crate) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    escape_to(&mut html, text);
    html
}

/// Returns what begins an element without attributes that depend on the page. What may be wider than a phone can be
/// focused, so that the keyboard scrolls it.
pub(crate) fn opening(tag: &Tag<'_>) -> String {
    let html = match tag {
        Tag::Paragraph => "<p>",
        Tag::BlockQuote(_) => "<blockquote>",
        Tag::CodeBlock(_) => "<pre tabindex=\"0\"><code>",
        Tag::List(None) => "<ul>",
        Tag::List(Some(first)) => return format!("<ol start=\"{first}\">"),
        Tag::Item => "<li>",
        Tag::Table(_) => "<div class=\"scroll\" tabindex=\"0\"><table>",
        Tag::TableHead => "<thead><tr>",
        Tag::TableRow => "<tr>",
        Tag::Emphasis => "<em>",
        Tag::Strong => "<strong>",
        _ => "",
    };
    html.to_owned()
}

pub(crate) const fn closing(tag: TagEnd) -> &'static str {
    match tag {
        TagEnd::Paragraph => "</p>\n",
        TagEnd::BlockQuote(_) => "</blockquote>\n",
        TagEnd::CodeBlock => "</code></pre>\n",
        TagEnd::List(true) => "</ol>\n",
        TagEnd::List(false) => "</ul>\n",
        TagEnd::Item => "</li>\n",
        TagEnd::Table => "</tbody></table></div>\n",
        TagEnd::TableHead => "</tr></thead><tbody>\n",
        TagEnd::TableRow => "</tr>\n",
        TagEnd::Emphasis => "</em>",
        TagEnd::Strong => "</strong>",
        _ => "",
    }
}

/// A cell of a table.
pub(crate) struct Cell {
    pub(crate) is_head: bool,
    pub(crate) alignment: Option<Alignment>,
    pub(crate) anchor: Option<String>,
    pub(crate) html: String,
}

impl Cell {
    pub(crate) fn write(&self, html: &mut String) {
        // An empty heading says nothing to those who hear it.
        let tag = if self.is_head && !self.html.is_empty() { "th" } else { "td" };
        html.push('<');
        html.push_str(tag);
        if self.alignment == Some(Alignment::Right) {
            html.push_str(" class=\"number\"");
        }
        if let Some(anchor) = &self.anchor {
            html.push_str(&format!(" id=\"{}\"", escaped(anchor)));
        }
        html.push_str(&format!(">{}</{tag}>", self.html));
    }
}
