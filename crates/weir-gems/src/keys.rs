//! Texts of API keys. They are shown once, when they are made; only their digests are kept.

use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};
use weir_base::clock::Timestamp;
use weir_base::secret::Secret;

use crate::store::{GemStore, Key, KeySettings, NewKey, StoreError};

/// What every key begins with, so that it is recognised where it should not be.
pub(crate) const PREFIX: &str = "weir_";
/// 192 bits: nobody guesses them, so a plain digest is enough.
const RANDOM_BYTES: usize = 24;

/// Makes a key and keeps its digest.
///
/// # Errors
/// The store's, or the system has no random bytes.
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

/// What is kept of a key's text.
pub(crate) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
