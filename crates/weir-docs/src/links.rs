//! Where a link of a page leads.

use crate::files::Files;
use crate::summary;

/// The target of a link or picture.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An address on the internet.
    Elsewhere(String),
    /// A page or picture of the site, by its file, and its heading with `#`.
    Site { path: String, fragment: String },
    /// A file of the repository that the site does not have, by its path there.
    Repository(String),
}

/// Resolves a link of the page `from`.
pub(crate) fn target(files: &Files, from: &str, link: &str) -> Target {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
        return Target::Elsewhere(link.to_owned());
    }
    let (path, fragment) = link.split_at(link.find('#').unwrap_or(link.len()));
    let fragment = fragment.to_owned();
    if path.is_empty() {
        return Target::Site { path: from.to_owned(), fragment };
    }
    let in_repository = joined("docs/", from, path);
    match in_repository.strip_prefix("docs/") {
        // The site's first page lists all pages.
        Some(summary::FILE) => Target::Site { path: "README.md".to_owned(), fragment },
        Some(path) if files.has(path) => Target::Site { path: path.to_owned(), fragment },
        _ => Target::Repository(in_repository),
    }
}

/// Resolves `.` and `..` in `path`, which starts at the folder of the file `root` + `from`.
fn joined(root: &str, from: &str, path: &str) -> String {
    let file = format!("{root}{from}");
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_site_the_repository_or_elsewhere() {
        let files = ["README.md", "gems.md", "reference/cli.md", "reference/ring.svg"];
        let files = Files::new(files.map(|path| (path.to_owned(), Vec::new())));
        let site = |path: &str, fragment: &str| Target::Site {
            path: path.to_owned(),
            fragment: fragment.to_owned(),
        };
        let repository = |path: &str| Target::Repository(path.to_owned());
        for (link, expected) in [
            ("../gems.md#push", site("gems.md", "#push")),
            ("#here", site("reference/cli.md", "#here")),
            ("./ring.svg", site("reference/ring.svg", "")),
            ("../SUMMARY.md", site("README.md", "")),
            ("../../deploy/weir.service", repository("deploy/weir.service")),
            ("weir.schema.json", repository("docs/reference/weir.schema.json")),
            ("javascript:alert(1)", repository("docs/reference/javascript:alert(1)")),
            ("https://example.org/a.md", Target::Elsewhere("https://example.org/a.md".to_owned())),
        ] {
            assert_eq!(target(&files, "reference/cli.md", link), expected, "{link}");
        }
    }
}
