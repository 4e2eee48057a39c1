//! Writes the documentation as a folder of HTML files. They need no server and no script; the search is left to the
//! console, and `headings.html` lists all headings and settings for the browser's own.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use weir_docs::library;
use weir_docs::page::Page;
use weir_docs::site::{self, Site};

const START: &str = "README.md";
const HEADINGS: &str = "headings.html";
const STYLE: &str = "crates/weir-console/style/console.css";

pub(crate) fn write(root: &Path, folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        let is_site = folder.join(HEADINGS).exists();
        ensure!(is_site, "{} exists and is not a site: give a new folder", folder.display());
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let mut count = 0;
    let mut headings = String::from("<h1>All headings</h1>\n");
    for path in library().pages() {
        let page = library().page(path, Site::Folder).context("a page")?;
        let mut content = page.html.clone();
        if path == START {
            content.push_str(&all_pages());
        }
        save(folder, &site::file(path), framed(path, &page.title, &content))?;
        headings.push_str(&headings_of(path, &page));
        count += 1;
    }
    save(folder, HEADINGS, framed(START, "All headings", &headings))?;
    for (path, content) in library().pictures() {
        save(folder, path, content)?;
    }
    let style = fs::read(root.join(STYLE)).context(STYLE)?;
    save(folder, "console.css", style)?;
    println!("site: {count} pages in {}", folder.display());
    Ok(())
}

fn save(folder: &Path, file: &str, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let file = folder.join(file);
    let parent = file.parent().context("a folder")?;
    fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    fs::write(&file, content).with_context(|| file.display().to_string())
}

/// Returns a page with the frame of the site: head, navigation, content.
fn framed(path: &str, title: &str, content: &str) -> String {
    let title = escaped(title);
    let up = "../".repeat(path.matches('/').count());
    let start = Site::Folder.address(path, START);
    format!(
        "<!doctype html>\n<html lang=\"en\" data-theme=\"system\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title} · Weir</title>\n\
         <link rel=\"stylesheet\" href=\"{up}console.css\">\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
         <header class=\"top\"><div class=\"bar\"><a class=\"brand\" href=\"{start}\">Weir</a>\
         <a href=\"{up}{HEADINGS}\">All headings</a></div></header>\n\
         <div class=\"frame\"><div class=\"side\"><nav aria-label=\"Pages\">{}</nav></div>\n\
         <main id=\"main\" tabindex=\"-1\"><article class=\"prose\">\n{content}</article></main></div>\n\
         </body>\n</html>\n",
        navigation(path)
    )
}

fn navigation(from: &str) -> String {
    let mut html = String::new();
    for section in library().sections() {
        html.push_str(&format!("<h2>{}</h2>\n<ul>\n", escaped(&section.title)));
        for entry in &section.entries {
            let current = if entry.path == from { " aria-current=\"page\"" } else { "" };
            let address = Site::Folder.address(from, &entry.path);
            let title = escaped(&entry.title);
            html.push_str(&format!("<li><a href=\"{address}\"{current}>{title}</a></li>\n"));
        }
        html.push_str("</ul>\n");
    }
    html
}

/// Returns the list of pages that ends the first one.
fn all_pages() -> String {
    let mut html = String::new();
    for section in library().sections() {
        html.push_str(&format!("<h2>{}</h2>\n<ul>\n", escaped(&section.title)));
        for entry in &section.entries {
            let address = Site::Folder.address(START, &entry.path);
            let (title, about) = (escaped(&entry.title), escaped(&entry.about));
            html.push_str(&format!("<li><a href=\"{address}\">{title}</a>: {about}</li>\n"));
        }
        html.push_str("</ul>\n");
    }
    html
}

fn headings_of(path: &str, page: &Page) -> String {
    let address = Site::Folder.address(START, path);
    let mut html = format!("<h2><a href=\"{address}\">{}</a></h2>\n<ul>\n", escaped(&page.title));
    for (title, anchor) in page.anchors().skip(1) {
        html.push_str(&format!("<li><a href=\"{address}#{anchor}\">{}</a></li>\n", escaped(title)));
    }
    html.push_str("</ul>\n");
    html
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
