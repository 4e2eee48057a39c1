//! `.gem` files, which anybody may have written.
//!
//! A `.gem` is a tar of `metadata.gz` (the specification, as YAML), `data.tar.gz` (the files) and
//! `checksums.yaml.gz`. [`read`] goes over it once, in bounded memory, and never builds an object
//! from what it reads: a tag is only a name. What could mean two things (a member twice, bytes
//! behind an end, a key twice, a path that extended headers replace) is refused, because an
//! installer might take the other one.

mod checksums;
mod contents;
mod counting;
mod error;
mod gunzip;
mod limits;
mod members;
#[doc(hidden)]
pub mod sample;
mod specification;
mod yaml;

use std::io::Read;

pub use self::error::{Exceeded, PackageError};
pub use self::limits::PackageLimits;
use self::members::Members;
pub use self::specification::{
    About, Dependency, DependencyKind, Specification, SpecificationError,
};
pub use self::yaml::YamlError;
use crate::release::Checksum;

/// A `.gem` file that is in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub specification: Specification,
    /// Of the whole file.
    pub checksum: Checksum,
    /// Of the whole file, in bytes.
    pub bytes: u64,
}

/// Reads a `.gem` file to its end.
///
/// # Errors
/// It is none, breaks a limit, or its checksums are wrong.
pub fn read(file: impl Read, limits: &PackageLimits) -> Result<Package, PackageError> {
    let members = Members::read(file, limits)?;
    members.check()?;
    let metadata = yaml::Document::parse(&members.metadata.text, limits.yaml())?;
    let specification = Specification::from_yaml(&metadata)?;
    Ok(Package { specification, checksum: members.checksum, bytes: members.bytes })
}
