//! Writes `specs.4.8.gz` and its two relatives: every release as `[name, version, platform]`.

use std::io::{self, Write};

use super::Writer;
use crate::dependency_api::Fragment;
use crate::version::Version;

/// Kind of list, which determines its releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SpecList {
    Released,
    /// The newest release of each gem for each platform.
    Latest,
    Prerelease,
}

/// Reasons why a list was not written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SpecListError {
    #[error("a list of releases can't be written: {0}")]
    Io(#[from] io::Error),
    #[error("a list of releases has {written} of the {announced} that it says it has")]
    Count { written: usize, announced: usize },
}

impl SpecList {
    /// Returns the entries of one gem: numbers with platforms.
    #[must_use]
    pub fn of<'a>(self, fragment: &'a Fragment<'a>) -> Vec<(&'a str, &'a str)> {
        let all = fragment.releases().map(|release| (release.number, release.platform));
        let is_prerelease =
            |number: &str| number.contains(|letter: char| letter.is_ascii_alphabetic());
        match self {
            Self::Released => all.filter(|(number, _)| !is_prerelease(number)).collect(),
            Self::Prerelease => all.filter(|(number, _)| is_prerelease(number)).collect(),
            Self::Latest => latest(all.filter(|(number, _)| !is_prerelease(number))),
        }
    }
}

fn latest<'a>(releases: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
    let mut newest: Vec<(Version, &str, &str)> = Vec::new();
    for (number, platform) in releases {
        // Stored numbers are always valid versions.
        let Ok(version) = number.parse::<Version>() else { continue };
        match newest.iter_mut().find(|(_, _, other)| *other == platform) {
            Some(known) if version.compare(&known.0).is_gt() => {
                *known = (version, number, platform)
            }
            Some(_) => {}
            None => newest.push((version, number, platform)),
        }
    }
    newest.into_iter().map(|(_, number, platform)| (number, platform)).collect()
}

/// Bytes to buffer before they are written.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes a list of `count` releases, from each gem's name with its numbers and platforms. Uses
/// constant memory, whatever the count.
///
/// # Errors
/// Returns the sink's error, or an error if the number of releases is not `count`.
pub fn write_specs<N: AsRef<str>, E: From<SpecListError>>(
    mut sink: impl Write,
    count: usize,
    gems: impl Iterator<Item = Result<(N, Vec<(String, String)>), E>>,
) -> Result<(), E> {
    let mut writer = Writer::new();
    writer.array(count);
    let mut written = 0;
    let failed = |error| E::from(SpecListError::Io(error));
    for gem in gems {
        let (name, releases) = gem?;
        written += releases.len();
        for (number, platform) in &releases {
            writer.array(3);
            writer.string(name.as_ref());
            writer.version(number);
            writer.string(platform);
        }
        if writer.len() >= CHUNK_BYTES {
            sink.write_all(&writer.take()).map_err(failed)?;
        }
    }
    if written != count {
        return Err(SpecListError::Count { written, announced: count }.into());
    }
    sink.write_all(&writer.finish()).map_err(failed)?;
    sink.flush().map_err(failed)
}
