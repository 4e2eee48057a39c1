//! Decompresses a member within its limits.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

use super::counting::{Member, MemberDigests};
use super::error::{Exceeded, PackageError, unpacking};

const BUFFER_BYTES: usize = 32 << 10;

/// Limits for the size of a decompressed member; the first that is exceeded is reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub(super) bytes: u64,
    pub(super) exceeded: Exceeded,
}

/// A member that is being decompressed.
pub(super) struct Gunzip<R: Read> {
    name: &'static str,
    decoder: GzDecoder<BufReader<Member<R>>>,
    bytes: u64,
    allowance: Allowance,
}

impl<R: Read> Gunzip<R> {
    pub(super) fn new(name: &'static str, packed: R, allowance: Allowance) -> Self {
        let packed = BufReader::with_capacity(BUFFER_BYTES, Member::new(packed));
        Self { name, decoder: GzDecoder::new(packed), bytes: 0, allowance }
    }

    /// Returns the digests of the compressed member. The remaining bytes are read first, so that an
    /// installer can't find unchecked data.
    pub(super) fn finish(mut self) -> Result<MemberDigests, PackageError> {
        let name = self.name;
        io::copy(&mut self, &mut io::sink()).map_err(|error| unpacking(name, error))?;
        let mut packed = self.decoder.into_inner();
        let rest = packed.fill_buf().map_err(|error| unpacking(name, error))?;
        match rest.is_empty() {
            true => Ok(packed.into_inner().finish()),
            false => Err(PackageError::TrailingBytes(name)),
        }
    }
}

impl<R: Read> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        self.bytes += read as u64;
        match self.bytes > self.allowance.bytes {
            true => Err(self.allowance.exceeded.into()),
            false => Ok(read),
        }
    }
}
