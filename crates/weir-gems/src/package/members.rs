//! Reads the members of a `.gem` file and rejects duplicates.

use std::io::{self, Read};

use tar::{Archive, Entry};

use super::checksums::Checksums;
use super::contents;
use super::counting::{MemberDigests, WholeFile};
use super::error::{Exceeded, PackageError, exceeded_in, unpacking};
use super::gunzip::{Allowance, Gunzip};
use super::limits::PackageLimits;
use crate::release::Checksum;

pub(super) const METADATA: &str = "metadata.gz";
pub(super) const DATA: &str = "data.tar.gz";
pub(super) const CHECKSUMS: &str = "checksums.yaml.gz";

/// Signatures that `gem build` adds to signed gems. They are stored with the file, but not
/// verified.
const SIGNATURES: [&str; 3] = ["metadata.gz.sig", "data.tar.gz.sig", "checksums.yaml.gz.sig"];

/// A decompressed text, with the digests of its compressed form.
pub(super) struct PackedText {
    pub(super) text: Vec<u8>,
    digests: MemberDigests,
}

/// All members of a file.
pub(super) struct Members {
    pub(super) metadata: PackedText,
    data: MemberDigests,
    checksums: PackedText,
    pub(super) checksum: Checksum,
    pub(super) bytes: u64,
}

#[derive(Default)]
struct Found {
    metadata: Option<PackedText>,
    data: Option<MemberDigests>,
    checksums: Option<PackedText>,
}

impl Members {
    pub(super) fn read(file: impl Read, limits: &PackageLimits) -> Result<Self, PackageError> {
        let mut archive = Archive::new(WholeFile::new(file, limits.gem_bytes_max));
        let mut found = Found::default();
        // Raw mode returns extended headers as entries instead of applying them, so that they are
        // rejected by name.
        for entry in archive.entries().map_err(not_a_tar)?.raw(true) {
            found.take(entry.map_err(not_a_tar)?, limits)?;
        }
        let mut file = archive.into_inner();
        check_padding(&mut file)?;
        let (checksum, bytes) = file.finish();
        Ok(Self {
            metadata: found.metadata.ok_or(PackageError::MissingMember(METADATA))?,
            data: found.data.ok_or(PackageError::MissingMember(DATA))?,
            checksums: found.checksums.ok_or(PackageError::MissingMember(CHECKSUMS))?,
            checksum: Checksum(checksum),
            bytes,
        })
    }

    /// Checks the members against their checksums.
    pub(super) fn check(&self) -> Result<(), PackageError> {
        let checksums = Checksums::parse(&self.checksums.text)?;
        checksums.check(METADATA, &self.metadata.digests)?;
        checksums.check(DATA, &self.data)
    }
}

impl Found {
    fn take(
        &mut self,
        entry: Entry<'_, impl Read>,
        limits: &PackageLimits,
    ) -> Result<(), PackageError> {
        let name = String::from_utf8_lossy(&entry.header().path_bytes()).into_owned();
        if !entry.header().entry_type().is_file() {
            return Err(PackageError::UnknownMember(name));
        }
        match name.as_str() {
            METADATA => put(&mut self.metadata, METADATA, || text(METADATA, entry, limits)),
            CHECKSUMS => put(&mut self.checksums, CHECKSUMS, || text(CHECKSUMS, entry, limits)),
            DATA => put(&mut self.data, DATA, || contents::check(entry, limits)),
            other if SIGNATURES.contains(&other) => Ok(()),
            _ => Err(PackageError::UnknownMember(name)),
        }
    }
}

fn put<T>(
    place: &mut Option<T>,
    name: &'static str,
    read: impl FnOnce() -> Result<T, PackageError>,
) -> Result<(), PackageError> {
    if place.is_some() {
        return Err(PackageError::DuplicateMember(name));
    }
    *place = Some(read()?);
    Ok(())
}

/// Reads a member that is small enough for memory.
fn text(
    name: &'static str,
    entry: Entry<'_, impl Read>,
    limits: &PackageLimits,
) -> Result<PackedText, PackageError> {
    let bytes = limits.metadata_bytes_max;
    let allowance = Allowance { bytes, exceeded: Exceeded::Metadata(bytes) };
    let mut unpacked = Gunzip::new(name, entry, allowance);
    let mut text = Vec::new();
    unpacked.read_to_end(&mut text).map_err(|error| unpacking(name, error))?;
    Ok(PackedText { text, digests: unpacked.finish()? })
}

/// Checks that only zeros follow the last member.
fn check_padding(file: &mut impl Read) -> Result<(), PackageError> {
    let mut buffer = [0; 8 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) if buffer[..read].iter().all(|byte| *byte == 0) => {}
            Ok(_) => return Err(PackageError::TrailingBytes("the .gem file")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(not_a_tar(error)),
        }
    }
}

fn not_a_tar(error: io::Error) -> PackageError {
    match exceeded_in(&error) {
        Some(exceeded) => PackageError::Exceeded { member: "the .gem file".to_owned(), exceeded },
        None if error.kind() == io::ErrorKind::Other => PackageError::NotATar(error),
        None => PackageError::Io(error),
    }
}
