//! Readers that count and digest the bytes that are read through them.

use std::io::{self, Read};

use sha2::{Digest, Sha256, Sha512};

use super::error::Exceeded;

/// Digests a whole file and limits its length.
pub(super) struct WholeFile<R> {
    inner: R,
    sha256: Sha256,
    bytes: u64,
    bytes_max: u64,
}

impl<R: Read> WholeFile<R> {
    pub(super) fn new(inner: R, bytes_max: u64) -> Self {
        Self { inner, sha256: Sha256::new(), bytes: 0, bytes_max }
    }

    pub(super) fn finish(self) -> ([u8; 32], u64) {
        (self.sha256.finalize().into(), self.bytes)
    }
}

impl<R: Read> Read for WholeFile<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.sha256.update(&buffer[..read]);
        self.bytes += read as u64;
        match self.bytes > self.bytes_max {
            true => Err(Exceeded::File(self.bytes_max).into()),
            false => Ok(read),
        }
    }
}

/// Digests of a member, for comparison with `checksums.yaml.gz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemberDigests {
    pub(super) sha256: [u8; 32],
    pub(super) sha512: [u8; 64],
}

/// Digests the compressed bytes of a member.
pub(super) struct Member<R> {
    inner: R,
    sha256: Sha256,
    sha512: Sha512,
}

impl<R: Read> Member<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, sha256: Sha256::new(), sha512: Sha512::new() }
    }

    pub(super) fn finish(self) -> MemberDigests {
        MemberDigests {
            sha256: self.sha256.finalize().into(),
            sha512: self.sha512.finalize().into(),
        }
    }
}

impl<R: Read> Read for Member<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.sha256.update(&buffer[..read]);
        self.sha512.update(&buffer[..read]);
        Ok(read)
    }
}
