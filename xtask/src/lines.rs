//! Counts the lines of each crate, separately for source and tests.

use std::path::Path;

use crate::metadata;
use crate::sources::{self, CrateSources};

/// Prints the table. It counts all lines of Rust files, including comments and empty lines; [`sources`] defines which
/// are tests.
pub(crate) fn report(root: &Path) -> anyhow::Result<()> {
    let crates = sources::read(&metadata::read(root)?)?;
    println!("{:<18} {:>8} {:>8} {:>6}", "crate", "source", "tests", "files");
    let mut total = Counts::default();
    for sources in &crates {
        let counts = Counts::from_crate(sources);
        counts.print(&sources.name);
        total = total.plus(counts);
    }
    total.print("total");
    Ok(())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    source: usize,
    tests: usize,
    /// Number of files with source.
    files: usize,
}

impl Counts {
    fn from_crate(sources: &CrateSources) -> Self {
        let counts = sources.files.iter().map(|file| Self {
            source: file.source_lines(),
            tests: file.test_lines,
            files: usize::from(!file.is_test()),
        });
        counts.fold(Self::default(), Self::plus)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            source: self.source + other.source,
            tests: self.tests + other.tests,
            files: self.files + other.files,
        }
    }

    fn print(self, name: &str) {
        println!("{name:<18} {:>8} {:>8} {:>6}", self.source, self.tests, self.files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_lines_in_source_files_are_not_counted_as_source() {
        let texts = [
            ("src/lib.rs", "struct A;\n\n#[cfg(test)]\nmod tests {\n}\n"),
            ("src/b/tests.rs", "fn f() {}\n"),
            ("tests/it/main.rs", "fn f() {}\nfn g() {}\n"),
        ];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let files = sources::parse_files(&texts).unwrap();
        let sources = CrateSources { name: "a".to_owned(), files };
        assert_eq!(Counts::from_crate(&sources), Counts { source: 2, tests: 6, files: 1 });
    }
}
