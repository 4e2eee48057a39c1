//! Compares the numbers of the data formats in docs/versions.md with the constants in the code.

use std::fs;
use std::path::Path;

use anyhow::Context;

const PAGE: &str = "docs/versions.md";

/// A constant, and where the page has it.
struct Format {
    /// The first cell of its row.
    store: &'static str,
    column: Column,
    file: &'static str,
    /// The text before and after the number.
    before: &'static str,
    after: char,
}

#[derive(Clone, Copy)]
enum Column {
    Written,
    /// `from N`
    OldestRead,
}

const FORMATS: [Format; 12] = [
    Format {
        store: "time index of the job log",
        column: Column::Written,
        file: "crates/weir-log/src/times.rs",
        before: "const MAGIC: &[u8; 8] = b\"",
        after: '"',
    },
    Format {
        store: "backups",
        column: Column::Written,
        file: "crates/weir-cli/src/backup/manifest.rs",
        before: "const FORMAT: u32 = ",
        after: ';',
    },
    Format {
        store: "job log",
        column: Column::Written,
        file: "crates/weir-log/src/format.rs",
        before: "const VERSION: u32 = ",
        after: ';',
    },
    Format {
        store: "job log",
        column: Column::OldestRead,
        file: "crates/weir-log/src/format.rs",
        before: "const VERSION_MIN: u32 = ",
        after: ';',
    },
    Format {
        store: "jobs in Redis",
        column: Column::Written,
        file: "crates/weir-sidekiq/src/store/lease.rs",
        before: "const LAYOUT: &str = \"",
        after: '"',
    },
    Format {
        store: "realtime in Redis",
        column: Column::Written,
        file: "crates/weir-realtime-redis/src/layout.rs",
        before: "const LAYOUT: u32 = ",
        after: ';',
    },
    Format {
        store: "gems in SQLite",
        column: Column::Written,
        file: "crates/weir-gems/src/store/sqlite/schema.rs",
        before: "const FORMAT: i64 = ",
        after: ';',
    },
    Format {
        store: "gems in Postgres",
        column: Column::Written,
        file: "crates/weir-gems/src/store/postgres/prepare.rs",
        before: "const STEPS: [Step; ",
        after: ']',
    },
    Format {
        store: "histories of realtime",
        column: Column::Written,
        file: "crates/weir-realtime/src/saved.rs",
        before: "const MAGIC: &[u8; 8] = b\"",
        after: '"',
    },
    Format {
        store: "metrics history",
        column: Column::Written,
        file: "crates/weir-base/src/history/header.rs",
        before: "const MAGIC: &[u8; 8] = b\"",
        after: '"',
    },
    Format {
        store: "handover of the parent",
        column: Column::Written,
        file: "crates/weir-supervisor/src/carried.rs",
        before: "const VERSION: u32 = ",
        after: ';',
    },
    Format {
        store: "durable histories of realtime",
        column: Column::Written,
        file: "crates/weir-realtime/src/durable/record.rs",
        before: "const VERSION: u32 = ",
        after: ';',
    },
];

/// Returns an error for each number of the page that is not the code's.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let mut problems = Vec::new();
    for format in &FORMATS {
        let source = fs::read_to_string(root.join(format.file)).context(format.file)?;
        problems.extend(compare(format, &source, &page));
    }
    Ok(problems)
}

fn compare(format: &Format, source: &str, page: &str) -> Option<String> {
    let &Format { store, column, file, before, after } = format;
    let in_code = source.split_once(before).and_then(|(_, rest)| rest.split(after).next());
    let Some(in_code) = in_code else {
        return Some(format!(
            "{file}: there is no `{before}..`, the format of {store:?} in {PAGE}"
        ));
    };
    let row = page.lines().find(|line| line.starts_with(&format!("| {store} |")));
    let cells: Vec<&str> = row.unwrap_or_default().split('|').map(str::trim).collect();
    let on_page = match column {
        Column::Written => cells.get(2).copied(),
        Column::OldestRead => cells.get(3).and_then(|cell| cell.strip_prefix("from ")),
    };
    match on_page {
        Some(number) if number == in_code => None,
        Some(number) => Some(format!("{PAGE}: {store} has {number}, but {file} has {in_code}")),
        None => Some(format!("{PAGE}: {store} has no row with {in_code} ({file})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_page_are_those_of_the_code() {
        let log = &FORMATS[2];
        let source = "/// The version.\npub(crate) const VERSION: u32 = 3;\n";
        assert_eq!(compare(log, source, "| job log | 3 | from 1 | here |"), None);
        let found = compare(log, source, "| job log | 2 | from 1 | here |").expect("a problem");
        assert!(found.contains("has 2, but crates/weir-log/src/format.rs has 3"), "{found}");
        assert!(compare(log, source, "| jobs | 3 |").is_some());
        assert!(compare(log, "", "| job log | 3 |").is_some());
        let oldest = &FORMATS[3];
        let source = "const VERSION_MIN: u32 = 1;";
        assert_eq!(compare(oldest, source, "| job log | 3 | from 1 | here |"), None);
        assert!(compare(oldest, source, "| job log | 3 | from 2 | here |").is_some());
    }

    #[test]
    fn every_constant_is_found() {
        let root = crate::root().expect("the repository");
        assert_eq!(check(&root).expect("checked"), Vec::<String>::new());
    }
}
