//! One page: HTML, headings, and the texts that are searched. HTML in the Markdown is shown as text; comments were removed before.

use pulldown_cmark::{Alignment, Event, Tag, TagEnd};

use crate::anchors::{self, Anchors};
use crate::files::Files;
use crate::html::{self, Cell, escape_to, escaped};
use crate::links::{self, Target};
use crate::markdown;
use crate::site::{self, Site};

/// A rendered page.
#[derive(Debug)]
pub struct Page {
    /// The text of its first heading, or its name.
    pub title: String,
    pub html: String,
    pub headings: Vec<Heading>,
    pub(crate) passages: Vec<Passage>,
}

/// A heading of a page.
#[derive(Clone, Debug)]
pub struct Heading {
    /// 1: the title of the page.
    pub level: u8,
    pub text: String,
    pub anchor: String,
}

/// What is below a heading up to the next one, or the row of a setting.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    pub(crate) title: String,
    pub(crate) anchor: String,
    pub(crate) text: String,
}

impl Page {
    /// Returns the texts and anchors of all headings and settings.
    pub fn anchors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.passages.iter().map(|passage| (&*passage.title, &*passage.anchor))
    }
}

/// Renders the Markdown of the file `from`.
pub(crate) fn render(files: &Files, from: &str, text: &str, site: Site) -> Page {
    let mut writer = Writer::new(files, from, site);
    for event in markdown::events(text) {
        writer.event(event);
    }
    writer.end_passage();
    let title = writer.headings.first().map_or(site::name(from), |heading| &heading.text);
    Page {
        title: title.to_owned(),
        html: writer.html,
        headings: writer.headings,
        passages: writer.passages,
    }
}

struct Writer<'a> {
    files: &'a Files,
    from: &'a str,
    site: Site,
    html: String,
    /// Of the open heading, or since the last one.
    text: String,
    anchors: Anchors,
    headings: Vec<Heading>,
    passages: Vec<Passage>,
    /// Where the HTML of the open heading, cell or picture begins. They contain none of the others, but a picture.
    starts: Vec<Start>,
    link: Option<Target>,
    table: Table,
}

/// Positions in the HTML and in the text.
#[derive(Clone, Copy, Default)]
struct Start {
    html: usize,
    text: usize,
}

#[derive(Default)]
struct Table {
    alignments: Vec<Alignment>,
    is_head: bool,
    column: usize,
    /// What precedes the names of its settings; None: its rows are not settings.
    settings: Option<String>,
}

impl<'a> Writer<'a> {
    fn new(files: &'a Files, from: &'a str, site: Site) -> Self {
        Self {
            files,
            from,
            site,
            html: String::new(),
            text: String::new(),
            anchors: Anchors::default(),
            headings: Vec::new(),
            passages: Vec::new(),
            starts: Vec::new(),
            link: None,
            table: Table::default(),
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                self.html.push_str("<code>");
                self.text(&text);
                self.html.push_str("</code>");
            }
            Event::SoftBreak => self.text("\n"),
            Event::HardBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>\n"),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.text.push_str(text);
        escape_to(&mut self.html, text);
    }

    fn start(&mut self, tag: Tag<'_>) {
        self.html.push_str(&html::opening(&tag));
        match tag {
            Tag::Heading { .. } => {
                self.end_passage();
                self.mark();
            }
            Tag::Table(alignments) => self.table = Table { alignments, ..Table::default() },
            Tag::TableHead => self.table.is_head = true,
            Tag::TableRow => self.table.column = 0,
            Tag::TableCell => self.mark(),
            Tag::Image { dest_url, .. } => self.start_picture(&dest_url),
            Tag::Link { dest_url, .. } => self.start_link(&dest_url),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => self.end_heading(level as u8),
            TagEnd::TableCell => self.end_cell(),
            TagEnd::TableHead => self.table.is_head = false,
            TagEnd::Image => self.end_picture(),
            TagEnd::Link => self.end_link(),
            _ => {}
        }
        let closing = html::closing(tag);
        self.html.push_str(closing);
        if closing.ends_with('\n') || tag == TagEnd::TableCell {
            self.text.push(' ');
        }
    }

    fn mark(&mut self) {
        self.starts.push(Start { html: self.html.len(), text: self.text.len() });
    }

    /// Returns the HTML and the position of the text since [`Self::mark`].
    fn since_mark(&mut self) -> (String, usize) {
        let start = self.starts.pop().unwrap_or_default();
        (self.html.split_off(start.html), start.text)
    }

    /// Assigns the text since the last heading or setting to it.
    fn end_passage(&mut self) {
        let text = std::mem::take(&mut self.text);
        if let Some(passage) = self.passages.last_mut() {
            passage.text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        }
    }

    fn begin_passage(&mut self, title: String, anchor: String) {
        self.passages.push(Passage { title, anchor, text: String::new() });
    }

    fn end_heading(&mut self, level: u8) {
        let (inner, _) = self.since_mark();
        let text = std::mem::take(&mut self.text);
        let anchor = self.anchors.of_heading(&text);
        let id = escaped(&anchor);
        self.html.push_str(&format!("<h{level} id=\"{id}\">{inner}</h{level}>\n"));
        self.begin_passage(text.clone(), anchor.clone());
        self.headings.push(Heading { level, text, anchor });
    }

    fn end_cell(&mut self) {
        let (html, text_start) = self.since_mark();
        let is_first = self.table.column == 0;
        if self.table.is_head && is_first && html == "setting" {
            let heading = self.headings.last().map_or("", |heading| &heading.text);
            self.table.settings = anchors::setting_prefix(heading);
        }
        let mut cell = Cell {
            is_head: self.table.is_head,
            alignment: self.table.alignments.get(self.table.column).copied(),
            anchor: None,
            html,
        };
        if let Some(prefix) = self.table.settings.as_ref().filter(|_| is_first && !cell.is_head) {
            let key = format!("{prefix}{}", self.text.split_off(text_start));
            self.end_passage();
            self.begin_passage(key.clone(), key.clone());
            cell.anchor = Some(key);
        }
        cell.write(&mut self.html);
        self.table.column += 1;
    }

    fn start_picture(&mut self, link: &str) {
        let address = match links::target(self.files, self.from, link) {
            Target::Site { path, .. } => self.site.address(self.from, &path),
            Target::Elsewhere(address) | Target::Repository(address) => address,
        };
        self.html.push_str(&format!("<img src=\"{}\" alt=\"", escaped(&address)));
        self.mark();
    }

    /// Writes the text of the picture without its tags.
    fn end_picture(&mut self) {
        let (_, text_start) = self.since_mark();
        self.html.push_str(&escaped(&self.text[text_start..]));
        self.html.push_str("\">");
    }

    fn start_link(&mut self, link: &str) {
        let target = links::target(self.files, self.from, link);
        let address = match &target {
            Target::Elsewhere(address) => Some(address.clone()),
            Target::Site { path, fragment } if path == self.from && !fragment.is_empty() => {
                Some(fragment.clone())
            }
            Target::Site { path, fragment } => {
                Some(format!("{}{fragment}", self.site.address(self.from, path)))
            }
            Target::Repository(_) => None,
        };
        if let Some(address) = address {
            self.html.push_str(&format!("<a href=\"{}\">", escaped(&address)));
        }
        self.link = Some(target);
    }

    /// Closes the link, or names the file of the repository that it leads to.
    fn end_link(&mut self) {
        match self.link.take() {
            Some(Target::Repository(path)) if !self.text.ends_with(&*path) => {
                self.html.push_str(" (<code>");
                escape_to(&mut self.html, &path);
                self.html.push_str("</code>)");
            }
            Some(Target::Repository(_)) | None => {}
            Some(_) => self.html.push_str("</a>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(markdown: &str) -> Page {
        let files = ["README.md", "gems.md", "ring.svg", "reference/settings.md"];
        let files = Files::new(files.map(|path| (path.to_owned(), Vec::new())));
        render(&files, "reference/settings.md", markdown, Site::Console)
    }

    #[test]
    fn html_is_shown_as_text() {
        let html = rendered("<script>alert(1)</script>\n\na <b onclick=\"x\">b</b> `<i>`").html;
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{html}");
        assert!(
            html.contains("&lt;b onclick=&quot;x&quot;&gt;b&lt;/b&gt; <code>&lt;i&gt;"),
            "{html}"
        );
        let html = rendered("[a](javascript:alert(1)) ![\"><b>](<x\"onerror=y>)").html;
        assert!(
            !html.contains("<a") && !html.contains("<b>") && !html.contains("\"onerror"),
            "{html}"
        );
    }

    #[test]
    fn links_lead_to_the_addresses_of_the_site() {
        for (markdown, html) in [
            ("[a](../gems.md#x)", "<a href=\"/docs/gems#x\">a</a>"),
            ("[a](#here)", "<a href=\"#here\">a</a>"),
            ("<https://example.org/?a&b>", "<a href=\"https://example.org/?a&amp;b\">"),
            ("![a *b*](../ring.svg)", "<img src=\"/docs/ring.svg\" alt=\"a b\">"),
            ("[the unit](../../deploy/w.service)", "the unit (<code>deploy/w.service</code>)"),
            ("[deploy/a](../../deploy/a)", "<p>deploy/a</p>"),
        ] {
            let page = rendered(markdown);
            assert!(page.html.contains(html), "{}", page.html);
        }
    }

    #[test]
    fn settings_have_anchors_and_are_passages() {
        let page = rendered(
            "# Settings\nintro\n## `[jobs.limits]`\n\n| setting | default |\n| --- | ---: |\n\
             | `a_max` | one\\|two |\n| `b_max` | 2 |\n",
        );
        assert_eq!(page.title, "Settings");
        assert!(page.html.contains("<h2 id=\"jobslimits\"><code>[jobs.limits]</code></h2>"));
        assert!(page.html.contains("<td id=\"jobs.limits.a_max\"><code>a_max</code></td>"));
        assert!(page.html.contains("<td class=\"number\">one|two</td>"), "{}", page.html);
        let passages: Vec<_> = page.passages.iter().map(|it| (&*it.anchor, &*it.text)).collect();
        let expected = [
            ("settings", "intro"),
            ("jobslimits", "setting default"),
            ("jobs.limits.a_max", "one|two"),
            ("jobs.limits.b_max", "2"),
        ];
        assert_eq!(passages, expected);
    }
}
