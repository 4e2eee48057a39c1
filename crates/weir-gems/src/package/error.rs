//! Reasons why a `.gem` file is rejected.

use std::error::Error;
use std::io;

use super::specification::SpecificationError;
use super::yaml::YamlError;

/// A limit that was exceeded while a member was decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Exceeded {
    #[error("the file is larger than {0} bytes (gems.limits.gem_bytes_max)")]
    File(u64),
    #[error("it unpacks to more than {0} bytes (gems.limits.advanced.unpacked_bytes_max)")]
    Unpacked(u64),
    #[error(
        "it unpacks to more than {0} bytes, which is too much for its size \
         (gems.limits.advanced.unpacked_ratio_max)"
    )]
    Ratio(u64),
    #[error("it unpacks to more than {0} bytes (gems.limits.advanced.metadata_bytes_max)")]
    Metadata(u64),
}

/// Reasons why a `.gem` file is rejected.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PackageError {
    /// The source error quotes the bytes that are not a valid header.
    #[error("this is no .gem file: it is no tar archive, or a damaged one; `gem build` makes one")]
    NotATar(#[source] io::Error),
    #[error("{member}: {exceeded}")]
    Exceeded { member: String, exceeded: Exceeded },
    #[error("the .gem file has {0:?}, which no gem has; build it with `gem build`")]
    UnknownMember(String),
    #[error("the .gem file has {0} twice")]
    DuplicateMember(&'static str),
    #[error("the .gem file has no {0}; build it with `gem build` of RubyGems 2.0 or newer")]
    MissingMember(&'static str),
    #[error("bytes follow the end of {0}")]
    TrailingBytes(&'static str),
    #[error("{member} can't be unpacked: {error}")]
    Unreadable { member: &'static str, error: io::Error },
    #[error("data.tar.gz has more than {0} entries (gems.limits.advanced.entries_max)")]
    Entries(usize),
    #[error("data.tar.gz: the path {path:?} {reason}")]
    Path { path: String, reason: &'static str },
    #[error("data.tar.gz: {path:?} is neither a file, nor a folder, nor a link within the gem")]
    Kind { path: String },
    #[error("checksums.yaml.gz: {0}")]
    Checksums(String),
    #[error("{member} does not have the {algorithm} that checksums.yaml.gz says: it is damaged")]
    Checksum { member: &'static str, algorithm: &'static str },
    #[error("the specification is no YAML that can be read: {0}")]
    Yaml(#[from] YamlError),
    #[error("the specification: {0}")]
    Specification(#[from] SpecificationError),
    #[error("the .gem file can't be read: {0}")]
    Io(io::Error),
}

impl From<Exceeded> for io::Error {
    fn from(exceeded: Exceeded) -> Self {
        Self::other(exceeded)
    }
}

/// Returns the limit that caused an I/O error, even if libraries have wrapped it.
pub(super) fn exceeded_in(error: &io::Error) -> Option<Exceeded> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    // Two libraries wrap the error once each, so 10 levels are plenty.
    for _ in 0..10 {
        let current = cause?;
        if let Some(exceeded) = current.downcast_ref::<Exceeded>() {
            return Some(*exceeded);
        }
        cause = match current.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => current.source(),
        };
    }
    None
}

/// Returns the error of decompressing `member`.
pub(super) fn unpacking(member: &'static str, error: io::Error) -> PackageError {
    match exceeded_in(&error) {
        Some(exceeded) => PackageError::Exceeded { member: member.to_owned(), exceeded },
        None => PackageError::Unreadable { member, error },
    }
}
