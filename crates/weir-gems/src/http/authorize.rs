//! Who may do it: whether a request's key is for that.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::HeaderMap;

use super::credentials::key_of;
use super::{Failure, Gems};
use crate::keys::hash;
use crate::name::GemName;
use crate::store::{Key, Scope, Store, StoreError};

impl<S: Store> Gems<S> {
    /// The key, if it allows `scope`. For which gem is asked once that is known.
    pub(super) async fn authorize(
        &self,
        headers: &HeaderMap,
        scope: Scope,
    ) -> Result<Key, Failure> {
        let text = key_of(headers).ok_or_else(|| without_key(scope))?;
        let key = self.store.key(hash(&text)).await?.ok_or_else(unknown_key)?;
        self.check_key(&key, scope)?;
        Ok(key)
    }

    /// Whether the key is one to read with. One that was a moment ago is not looked up again.
    pub(super) async fn authorize_reader(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let scope = Scope::IndexRubygems;
        let text = key_of(headers).ok_or_else(|| without_key(scope))?;
        let key = self.known_key(hash(&text)).await?.ok_or_else(unknown_key)?;
        self.check_key(&key, scope)
    }

    async fn known_key(&self, hash: [u8; 32]) -> Result<Option<Arc<Key>>, StoreError> {
        let now = self.clock.now();
        if let Some(key) = self.known_keys.get(hash, now) {
            return Ok(Some(key));
        }
        let epoch = self.known_keys.epoch();
        let key = self.store.key(hash).await?.map(Arc::new);
        if let Some(key) = &key {
            self.known_keys.put(hash, Arc::clone(key), now, epoch);
        }
        Ok(key)
    }

    fn check_key(&self, key: &Key, scope: Scope) -> Result<(), Failure> {
        if key.is_expired(self.clock.now()) {
            return Err(Failure::unauthorized("Access Denied. This API key has expired."));
        }
        match key.has_scope(scope) {
            true => Ok(()),
            false => Err(Failure::new(
                StatusCode::FORBIDDEN,
                format!(
                    "This API key cannot perform the specified action: it has no scope {}.",
                    scope.name()
                ),
            )),
        }
    }
}

fn without_key(scope: Scope) -> Failure {
    Failure::unauthorized(match scope {
        Scope::IndexRubygems => {
            "Access Denied. Reading this index needs an API key, sent as a password: \
             bundle config set --global HOST USER:KEY, or gem sources --add https://USER:KEY@HOST/, \
             with any name for USER; `weir gems key create NAME --scope index_rubygems` makes one."
        }
        Scope::PushRubygem | Scope::YankRubygem => {
            "Access Denied. This needs an API key (GEM_HOST_API_KEY, or gem push --key); \
             `weir gems key` makes one."
        }
    })
}

fn unknown_key() -> Failure {
    Failure::unauthorized("Access Denied. There is no such API key.")
}

pub(super) fn check_gem(key: &Key, gem: &GemName) -> Result<(), Failure> {
    match key.is_for(gem.as_str()) {
        true => Ok(()),
        false => Err(Failure::new(
            StatusCode::FORBIDDEN,
            format!(
                "This API key cannot perform the specified action on {gem}: it is for {} alone.",
                key.settings.gems.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            ),
        )),
    }
}
