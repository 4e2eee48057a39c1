//! Checks the documentation as the console renders it: docs/SUMMARY.md lists all pages, and each link and anchor leads
//! somewhere.

use std::collections::{BTreeMap, BTreeSet};

use weir_docs::Library;
use weir_docs::site::Site;
use weir_docs::summary;

/// Returns the pages that the summary does not list or lists without need, and the links and anchors of rendered
/// pages that lead nowhere.
pub(crate) fn check(library: &Library) -> Vec<String> {
    let mut problems = summary_problems(library);
    problems.extend(link_problems(library));
    problems
}

fn summary_problems(library: &Library) -> Vec<String> {
    let file = summary::FILE;
    let mut missing: BTreeSet<&str> = library.pages().filter(|path| *path != "README.md").collect();
    let mut problems = Vec::new();
    for entry in library.sections().iter().flat_map(|section| &section.entries) {
        let path = &*entry.path;
        if !missing.remove(path) {
            problems.push(format!("docs/{file}: {path} is no page, or is listed twice"));
        }
    }
    problems.extend(missing.iter().map(|path| {
        format!("docs/{file}: {path} is missing; add a line `- [Title]({path}): what it is about`")
    }));
    problems
}

fn link_problems(library: &Library) -> Vec<String> {
    let pages = library.pages().filter_map(|path| Some((path, library.page(path, Site::Console)?)));
    let pages: BTreeMap<&str, String> = pages.map(|(path, page)| (path, page.html)).collect();
    let ids = |html: &str| -> Vec<String> { values(html, "id").map(str::to_owned).collect() };
    let ids: BTreeMap<&str, Vec<String>> =
        pages.iter().map(|(path, html)| (*path, ids(html))).collect();
    let mut problems = Vec::new();
    for (path, html) in &pages {
        let links = values(html, "href").chain(values(html, "src"));
        let dead = links.filter(|link| !leads_somewhere(library, &ids, path, link));
        problems.extend(dead.map(|link| format!("docs/{path}: {link} leads nowhere on the site")));
        let unique: BTreeSet<&String> = ids[path].iter().collect();
        if unique.len() < ids[path].len() {
            problems.push(format!("docs/{path}: two headings or settings have the same anchor"));
        }
    }
    problems
}

fn leads_somewhere(
    library: &Library,
    ids: &BTreeMap<&str, Vec<String>>,
    from: &str,
    link: &str,
) -> bool {
    let (address, anchor) = link.split_once('#').unwrap_or((link, ""));
    if address.contains("://") || address.starts_with("mailto:") {
        return true;
    }
    let Some(name) = address.strip_prefix("/docs") else {
        return address.is_empty() && has(ids, from, anchor);
    };
    let name = name.trim_start_matches('/');
    library.find(name).map_or_else(
        || library.pictures().any(|(path, _)| path == name),
        |path| has(ids, path, anchor),
    )
}

fn has(ids: &BTreeMap<&str, Vec<String>>, path: &str, anchor: &str) -> bool {
    anchor.is_empty() || ids.get(path).is_some_and(|ids| ids.iter().any(|id| id == anchor))
}

/// Returns the values of an attribute. Quotes in texts are escaped, so they do not look like one.
fn values<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {name}=\"");
    let positions: Vec<usize> =
        html.match_indices(&start).map(|(at, _)| at + start.len()).collect();
    positions.into_iter().filter_map(|at| html[at..].split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_is_in_order() {
        assert_eq!(check(weir_docs::library()), Vec::<String>::new());
        let settings = weir_docs::library().page("reference/settings.md", Site::Console);
        let html = settings.map(|page| page.html).unwrap_or_default();
        for key in ["data_dir", "jobs.limits.connections_max", "jobs.queues.NAME.fair_by"] {
            assert!(html.contains(&format!("<td id=\"{key}\">")), "{key}");
        }
    }

    #[test]
    fn links_of_the_folder_lead_to_its_files() {
        let library = weir_docs::library();
        let files: BTreeSet<String> = library.pages().map(weir_docs::site::file).collect();
        for path in library.pages() {
            let page = library.page(path, Site::Folder).expect("a page");
            let links = values(&page.html, "href").filter(|link| !link.contains("://"));
            for link in links.filter_map(|link| link.split('#').next().filter(|it| !it.is_empty()))
            {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let file = link.strip_prefix("../").map_or_else(
                    || format!("{folder}/{link}").trim_start_matches('/').to_owned(),
                    str::to_owned,
                );
                assert!(files.contains(&file), "{path}: {link}");
            }
        }
    }

    #[test]
    fn problems_are_found() {
        let pages = [
            ("README.md", "[a](a.md#here) [b](a.md#there) [c](missing.md) ![d](ring.svg)"),
            ("SUMMARY.md", "## One\n- [A](a.md)\n- [A](a.md)\n- [M](missing.md)"),
            ("a.md", "# Here\n[x](#nowhere) \" href=\"/docs/x\""),
            ("b.md", "# B"),
            ("ring.svg", ""),
        ];
        let files = pages.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        let expected = [
            "docs/SUMMARY.md: a.md is no page, or is listed twice",
            "docs/SUMMARY.md: missing.md is no page, or is listed twice",
            "docs/SUMMARY.md: b.md is missing; add a line `- [Title](b.md): what it is about`",
            "docs/README.md: /docs/a#there leads nowhere on the site",
            "docs/a.md: #nowhere leads nowhere on the site",
        ];
        assert_eq!(check(&Library::new(files)), expected);
    }
}
