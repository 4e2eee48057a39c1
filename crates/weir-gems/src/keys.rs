//! Creates and hashes API keys. A key is shown once, at its creation; only its digest is stored.

use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};
use weir_base::clock::Timestamp;
use weir_base::secret::Secret;

use crate::store::{GemStore, Key, KeySettings, NewKey, StoreError};

/// Prefix of every key, by which secret scanners recognize a leaked one.
pub(crate) const PREFIX: &str = "weir_";
/// 192 random bits can't be guessed, so a plain digest without salt is enough.
const RANDOM_BYTES: usize = 24;

/// Creates an API key, stores its digest and returns the key's text.
///
/// # Errors
/// Returns the store's error, or an error if the system provides no random bytes.
pub fn create(
    store: &GemStore,
    settings: KeySettings,
    now: Timestamp,
) -> BoxFuture<'_, Result<(Secret, Key), StoreError>> {
    Box::pin(async move {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random)
            .map_err(|error| StoreError::Engine(error.to_string().into()))?;
        let text = format!("{PREFIX}{}", hex::encode(random));
        let key = store.add_key(NewKey { settings, hash: hash(&text), created_at: now }).await?;
        Ok((Secret::new(text), key))
    })
}

/// Returns the digest of a key's text; the store holds only this.
pub(crate) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
