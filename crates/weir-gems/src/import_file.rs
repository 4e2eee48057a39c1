//! Reads a file of releases to import: JSON lines, one gem in each.
//!
//! `{"name":"rack","versions":[{"number":"3.0","platform":"ruby","sha256":"HEX",
//! "dependencies":[["rake",">= 13, < 14"]],"ruby":">= 2.4","rubygems":">= 0",
//! "created_at":"2026-11-22T06:20:58Z"}]}`
//!
//! `platform`, `dependencies`, `ruby`, `rubygems` and `created_at` may be omitted. Their defaults
//! are: any Ruby, none, any, any, the time of the import. A gem may have several lines.

use std::io::{self, BufRead, Read};

use serde::Deserialize;
use weir_base::clock::Timestamp;
use weir_settings::Section;

use crate::name::{GemName, NameError};
use crate::platform::Platform;
use crate::release::{Checksum, Dependencies, Identity, Release, RequirementLine};
use crate::requirement::{Requirement, RequirementError};
use crate::store::ImportedGem;
use crate::version::VersionError;

/// `[gems.limits]`, as far as an import runs into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "gems.limits")]
pub struct ImportLimits {
    /// Bytes of one line of an imported file, which is a gem with its versions. The largest gem of
    /// rubygems.org takes 1.5MB.
    #[setting(advanced, size, key = "import_line_bytes_max", range = 1 << 10..=1 << 32, default = 16 << 20)]
    pub line_bytes_max: u64,
}

/// Errors in a line of the file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ImportFileError {
    #[error("line {line}: {error}")]
    Io { line: u64, error: io::Error },
    #[error("line {line} has more than {max} bytes (gems.limits.advanced.import_line_bytes_max)")]
    TooLong { line: u64, max: u64 },
    #[error("line {line}: {problem}")]
    Wrong { line: u64, problem: String },
}

/// Iterates over the gems of a file, line by line.
#[derive(Debug)]
pub struct ImportFile<R> {
    input: R,
    limits: ImportLimits,
    now: Timestamp,
    line: u64,
    buffer: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    versions: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    number: String,
    platform: Option<String>,
    sha256: String,
    #[serde(default)]
    dependencies: Vec<(String, String)>,
    ruby: Option<String>,
    rubygems: Option<String>,
    created_at: Option<String>,
}

impl<R: BufRead> ImportFile<R> {
    /// Creates a reader of `input`. Releases without a time get `now`.
    pub fn new(input: R, limits: ImportLimits, now: Timestamp) -> Self {
        Self { input, limits, now, line: 0, buffer: Vec::new() }
    }

    /// Reads the next line that is not empty. Returns None at the end.
    fn next_gem(&mut self) -> Result<Option<ImportedGem>, ImportFileError> {
        loop {
            self.line += 1;
            self.buffer.clear();
            let (line, max) = (self.line, self.limits.line_bytes_max);
            let mut limited = self.input.by_ref().take(max + 1);
            let read = limited.read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|error| ImportFileError::Io { line, error })?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 > max {
                return Err(ImportFileError::TooLong { line, max });
            }
            if !self.buffer.trim_ascii().is_empty() {
                let gem = gem(&self.buffer, self.now);
                return gem.map(Some).map_err(|problem| ImportFileError::Wrong { line, problem });
            }
        }
    }
}

impl<R: BufRead> Iterator for ImportFile<R> {
    type Item = Result<ImportedGem, ImportFileError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_gem().transpose()
    }
}

fn gem(line: &[u8], now: Timestamp) -> Result<ImportedGem, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let name: GemName = line.name.parse().map_err(|error: NameError| error.to_string())?;
    name.check_for_push().map_err(|error| error.to_string())?;
    let mut releases = Vec::with_capacity(line.versions.len());
    for row in line.versions {
        let of = |error: String| format!("{} {}: {error}", line.name, row.number);
        releases.push(release(&row, now).map_err(of)?);
    }
    Ok(ImportedGem { name, releases })
}

fn release(row: &Row, now: Timestamp) -> Result<Release, String> {
    let platform = row.platform.as_deref().map_or_else(|| Ok(Platform::ruby()), str::parse);
    let mut checksum = Checksum([0; 32]);
    hex::decode_to_slice(&row.sha256, &mut checksum.0)
        .map_err(|_| "sha256 has to be 64 hex digits: of the .gem file".to_owned())?;
    Ok(Release {
        identity: Identity {
            number: row.number.parse().map_err(|error: VersionError| error.to_string())?,
            platform: platform.map_err(|error| error.to_string())?,
        },
        dependencies: dependencies(&row.dependencies)?,
        checksum,
        ruby: requirement(row.ruby.as_deref())?,
        rubygems: requirement(row.rubygems.as_deref())?,
        created_at: row.created_at.as_deref().map_or(Ok(now), timestamp)?,
    })
}

fn dependencies(list: &[(String, String)]) -> Result<Dependencies, String> {
    let mut all = Vec::with_capacity(list.len());
    for (name, requirement) in list {
        let of = |error: String| format!("the dependency on {name}: {error}");
        let parsed = requirement.parse::<Requirement>().map_err(|error| of(error.to_string()))?;
        let name = name.parse().map_err(|error: NameError| of(error.to_string()))?;
        all.push((name, parsed));
    }
    Dependencies::new(&all).map_err(|error| error.to_string())
}

fn requirement(text: Option<&str>) -> Result<Option<RequirementLine>, String> {
    let Some(text) = text else { return Ok(None) };
    let requirement: Requirement =
        text.parse().map_err(|error: RequirementError| error.to_string())?;
    Ok(RequirementLine::unless_any(&requirement))
}

/// Parses a time. Times before 1970 become 1970.
fn timestamp(text: &str) -> Result<Timestamp, String> {
    let at: jiff::Timestamp =
        text.parse().map_err(|error| format!("created_at {text:?}: {error}"))?;
    Ok(Timestamp::from_micros(u64::try_from(at.as_microsecond()).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn read(text: &str) -> Vec<Result<ImportedGem, String>> {
        let file = ImportFile::new(text.as_bytes(), ImportLimits { line_bytes_max: 400 }, NOW);
        file.map(|gem| gem.map_err(|error| error.to_string())).collect()
    }

    #[test]
    fn a_line_is_a_gem() {
        let sum = "ab".repeat(32);
        let text = format!(
            "{{\"name\":\"rack\",\"versions\":[{{\"number\":\"3.0\",\"platform\":\"java\",\
             \"sha256\":\"{sum}\",\"dependencies\":[[\"rake\",\">= 13, < 14\"]],\"ruby\":\">= 2.4\",\
             \"rubygems\":\">= 0\",\"created_at\":\"1970-01-01T00:00:02Z\"}}]}}\n\n\
             {{\"name\":\"b\",\"versions\":[{{\"number\":\"1\",\"sha256\":\"{sum}\"}}]}}"
        );
        let gems: Vec<_> = read(&text).into_iter().map(Result::unwrap).collect();
        let [rack, b] = &gems[..] else { panic!("two gems: {gems:?}") };
        let release = &rack.releases[0];
        assert_eq!(release.identity.to_string(), "3.0-java");
        assert_eq!(release.dependencies.as_str(), "rake:< 14&>= 13");
        assert_eq!(release.ruby.as_ref().map(RequirementLine::as_str), Some(">= 2.4"));
        assert_eq!((release.rubygems.as_ref(), release.checksum.0), (None, [0xab; 32]));
        assert_eq!(release.created_at, Timestamp::from_millis(2_000));
        let other = &b.releases[0];
        assert_eq!((other.identity.to_string().as_str(), other.created_at), ("1", NOW));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        let sum = "ab".repeat(32);
        let row = |rest: &str| {
            format!(
                "\n{{\"name\":\"a\",\"versions\":[{{\"number\":\"1\",\"sha256\":\"{sum}\"{rest}}}]}}"
            )
        };
        for (text, expected) in [
            ("{".to_owned(), "line 1: EOF"),
            (row(",\"x\":1"), "line 2: unknown field"),
            (row(",\"ruby\":\"=>\""), "line 2: a 1: the requirement"),
            (row(",\"platform\":\"a b\""), "line 2: a 1: \"a b\" is no platform"),
            (row(",\"dependencies\":[[\"b c\",\">= 0\"]]"), "line 2: a 1: the dependency on b c"),
            (row("").replace("ab", "x"), "line 2: a 1: sha256 has to be 64 hex digits"),
            (row("").replace(&sum, "HEX"), "line 2: a 1: sha256 has to be 64 hex digits"),
            (row("").replace("\"a\"", "\"..\""), "line 2: the name \"..\" must begin with"),
            (row("").replace("\"a\"", "\"-x\""), "line 2: the name \"-x\" must begin with"),
            (row("").replace("\"a\"", "\"123\""), "line 2: the name \"123\" needs a letter"),
            (format!("\n\n{}", "x".repeat(401)), "line 3 has more than 400 bytes"),
        ] {
            let error = read(&text)[0].clone().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
