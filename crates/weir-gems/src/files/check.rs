//! Checks that a stored file is unchanged.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::Files;
use crate::release::Checksum;
use crate::store::StoredFile;

/// Bytes to read at once.
const CHUNK_BYTES: usize = 128 << 10;

/// Problems of a stored file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum FileProblem {
    #[error("its file {0}.gem is missing")]
    Missing(Checksum),
    #[error("its file {checksum}.gem has {found} bytes, not the {expected} that were pushed")]
    Length { checksum: Checksum, found: u64, expected: u64 },
    #[error("its file {0}.gem has other contents than were pushed")]
    Contents(Checksum),
    #[error("its file {checksum}.gem can't be read: {error}")]
    Unreadable { checksum: Checksum, error: io::Error },
}

impl Files {
    /// Reads a file and compares its length and checksum. Blocks.
    ///
    /// # Errors
    /// Returns the problem that was found.
    pub fn check(&self, stored: StoredFile) -> Result<(), FileProblem> {
        let StoredFile { checksum, bytes: expected } = stored;
        let unreadable = |error| FileProblem::Unreadable { checksum, error };
        let mut file = self.get(checksum).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FileProblem::Missing(checksum),
            _ => unreadable(error),
        })?;
        let (mut digest, mut found) = (Sha256::new(), 0);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = file.read(&mut chunk).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            digest.update(&chunk[..read]);
            found += read as u64;
        }
        if found != expected {
            return Err(FileProblem::Length { checksum, found, expected });
        }
        match <[u8; 32]>::from(digest.finalize()) == checksum.0 {
            true => Ok(()),
            false => Err(FileProblem::Contents(checksum)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_has_changed_is_told_from_one_that_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::open(folder.path()).unwrap();
        let checksum = Checksum(Sha256::digest(b"gem").into());
        let stored = StoredFile { checksum, bytes: 3 };
        let problem = || files.check(stored).map_err(|problem| problem.to_string()).unwrap_err();
        assert!(problem().ends_with("is missing"), "{}", problem());
        let mut arriving = files.arrive().unwrap();
        arriving.write(b"gem").unwrap();
        files.keep(arriving, checksum).unwrap();
        files.check(stored).unwrap();
        fs::write(files.path(checksum), b"gen").unwrap();
        assert!(problem().ends_with("other contents than were pushed"), "{}", problem());
        fs::write(files.path(checksum), b"ge").unwrap();
        assert!(problem().ends_with("has 2 bytes, not the 3 that were pushed"), "{}", problem());
    }
}
