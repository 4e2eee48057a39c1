//! The addresses of pages. A page is known by its file, such as `reference/settings.md`.

/// The file of the first page of the site, or of a folder.
const INDEX: &str = "README.md";

/// Where the pages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Under `/docs` of the console: `/docs/reference/settings`.
    Console,
    /// As files, with links that are relative to the page: `reference/settings.html`.
    Folder,
}

impl Site {
    /// Returns the address of a page or picture, as the page `from` writes it.
    #[must_use]
    pub fn address(self, from: &str, path: &str) -> String {
        match self {
            Self::Console => match name(path) {
                "" => "/docs".to_owned(),
                name => format!("/docs/{name}"),
            },
            Self::Folder => format!("{}{}", "../".repeat(from.matches('/').count()), file(path)),
        }
    }
}

/// Returns the name of a page: its file without `.md`, and nothing for the first page of a folder.
#[must_use]
pub fn name(path: &str) -> &str {
    let Some(name) = path.strip_suffix(".md") else {
        return path;
    };
    match path.strip_suffix(INDEX) {
        Some(folder) if folder.is_empty() || folder.ends_with('/') => folder.trim_end_matches('/'),
        _ => name,
    }
}

/// Returns the file that a page is written to.
#[must_use]
pub fn file(path: &str) -> String {
    let name = name(path);
    match path.strip_suffix(".md") {
        None => path.to_owned(),
        Some(same) if same == name => format!("{name}.html"),
        Some(_) if name.is_empty() => "index.html".to_owned(),
        Some(_) => format!("{name}/index.html"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_absolute_in_the_console_and_relative_in_a_folder() {
        let console = |path| Site::Console.address("reference/cli.md", path);
        let folder = |path| Site::Folder.address("reference/cli.md", path);
        for (path, in_console, in_folder) in [
            ("README.md", "/docs", "../index.html"),
            ("realtime.md", "/docs/realtime", "../realtime.html"),
            ("coming-from/README.md", "/docs/coming-from", "../coming-from/index.html"),
            ("reference/settings.md", "/docs/reference/settings", "../reference/settings.html"),
            ("pictures/ring.svg", "/docs/pictures/ring.svg", "../pictures/ring.svg"),
        ] {
            assert_eq!((console(path), folder(path)), (in_console.into(), in_folder.into()));
        }
        assert_eq!(Site::Folder.address("README.md", "realtime.md"), "realtime.html");
    }
}
