//! Reads `.gem` files, which are untrusted.
//!
//! A `.gem` is a tar of `metadata.gz` (the specification, as YAML), `data.tar.gz` (the files) and
//! `checksums.yaml.gz`. [`read`] makes one pass in bounded memory and never instantiates objects
//! from the input: YAML tags are only compared as names. Ambiguous input (a duplicate member or
//! key, bytes after an end, a path that extended headers replace) is rejected, because an installer
//! might interpret it differently.

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

/// A valid `.gem` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub specification: Specification,
    /// Checksum of the whole file.
    pub checksum: Checksum,
    /// Size of the whole file in bytes.
    pub bytes: u64,
}

/// Reads and validates a whole `.gem` file.
///
/// # Errors
/// Fails if the input is not a `.gem` file, exceeds a limit, or has wrong checksums.
pub fn read(file: impl Read, limits: &PackageLimits) -> Result<Package, PackageError> {
    let members = Members::read(file, limits)?;
    members.check()?;
    let metadata = yaml::Document::parse(&members.metadata.text, limits.yaml())?;
    let specification = Specification::from_yaml(&metadata)?;
    Ok(Package { specification, checksum: members.checksum, bytes: members.bytes })
}
