//! Digests that clients check a text with. They can be continued when the text grows.
//!
//! Old clients compare the `ETag` with the MD5 of their copy, new ones the SHA-256 in `Repr-Digest`
//! or `Digest`. Both are always of the whole text, never of a range.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::Md5;
use md5::digest::Digest;
use md5::digest::common::hazmat::SerializableState;
use sha2::Sha256;

/// The digests of a whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digests {
    pub md5: [u8; 16],
    pub sha256: [u8; 32],
}

/// Digests of a text that grows. Their state can be saved, so that a text of 22 MB need not be read
/// again for each appended line.
#[derive(Clone, Debug, Default)]
pub struct RunningDigest {
    md5: Md5,
    sha256: Sha256,
}

/// Error for a saved state that is damaged or of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the saved state of the digests cannot be read; `weir gems verify --fix` recomputes it")]
pub struct StateError;

/// Length of a SHA-256 in `Digest`: the name and the base64 of the digest.
const DIGEST_BYTES: usize = 8 + 44;
/// The first byte of a saved state.
const STATE_VERSION: u8 = 1;

impl Digests {
    /// Computes the digests of `text`.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        Self { md5: Md5::digest(text).into(), sha256: Sha256::digest(text).into() }
    }

    /// Returns a strong `ETag`: the MD5 in quotes, which Bundler 2.3 compares with its own.
    #[must_use]
    pub fn etag(&self) -> String {
        let mut quoted = [b'"'; 34];
        // This can't fail: 32 digits fit between the quotes, and are UTF-8.
        let written = hex::encode_to_slice(self.md5, &mut quoted[1..33]);
        debug_assert!(written.is_ok());
        String::from_utf8_lossy(&quoted).into_owned()
    }

    /// Returns the value of `Repr-Digest` (RFC 9530).
    #[must_use]
    pub fn repr_digest(&self) -> String {
        let mut digest = String::with_capacity(DIGEST_BYTES + 2);
        digest.push_str("sha-256=:");
        BASE64_STANDARD.encode_string(self.sha256, &mut digest);
        digest.push(':');
        digest
    }

    /// Returns the value of `Digest` (RFC 3230), the predecessor of `Repr-Digest`.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut digest = String::with_capacity(DIGEST_BYTES);
        digest.push_str("sha-256=");
        BASE64_STANDARD.encode_string(self.sha256, &mut digest);
        digest
    }
}

impl RunningDigest {
    /// Adds more of the text.
    pub fn update(&mut self, text: &[u8]) {
        self.md5.update(text);
        self.sha256.update(text);
    }

    /// Returns the digests of the text so far.
    #[must_use]
    pub fn digests(&self) -> Digests {
        Digests {
            md5: self.md5.clone().finalize().into(),
            sha256: self.sha256.clone().finalize().into(),
        }
    }

    /// Returns the state for [`RunningDigest::restore`].
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut state = vec![STATE_VERSION];
        state.extend_from_slice(&self.md5.serialize());
        state.extend_from_slice(&self.sha256.serialize());
        state
    }

    /// Continues from a saved state.
    ///
    /// # Errors
    /// Fails if the bytes are not a valid state.
    pub fn restore(state: &[u8]) -> Result<Self, StateError> {
        let Some((&STATE_VERSION, state)) = state.split_first() else { return Err(StateError) };
        let md5_bytes = Md5::default().serialize().len();
        let (md5, sha256) = state.split_at_checked(md5_bytes).ok_or(StateError)?;
        let md5 = md5.try_into().map_err(|_| StateError)?;
        let sha256 = sha256.try_into().map_err(|_| StateError)?;
        Ok(Self {
            md5: Md5::deserialize(md5).map_err(|_| StateError)?,
            sha256: Sha256::deserialize(sha256).map_err(|_| StateError)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_are_what_clients_compare() {
        // Expected values are those of md5sum and openssl.
        let digests = Digests::of(b"---\n");
        assert_eq!(digests.etag(), "\"6105347ebb9825ac754615ca55ff3b0c\"");
        let sha256 = "9S1xEQPVCkN4MMb7zQT7S6tJoPgvbSbRx5HG6EiN0JA=";
        assert_eq!(digests.repr_digest(), format!("sha-256=:{sha256}:"));
        assert_eq!(digests.digest(), format!("sha-256={sha256}"));
    }

    #[test]
    fn a_damaged_state_is_refused() {
        let state = RunningDigest::default().save();
        assert!(RunningDigest::restore(&state).is_ok());
        assert!(RunningDigest::restore(&state[1..]).is_err());
        assert!(RunningDigest::restore(&state[..state.len() - 1]).is_err());
        assert!(RunningDigest::restore(&[]).is_err());
    }

    proptest! {
        #[test]
        fn a_digest_goes_on_from_where_it_was_saved(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8)
        ) {
            let mut running = RunningDigest::default();
            for piece in &pieces {
                running = RunningDigest::restore(&running.save()).unwrap();
                running.update(piece);
            }
            prop_assert_eq!(running.digests(), Digests::of(&pieces.concat()));
        }
    }
}
