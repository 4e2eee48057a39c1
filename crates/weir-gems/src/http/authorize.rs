//! Who may do it: the key in `Authorization`, bare as `gem` sends it, or behind `Bearer`.

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap};

use super::{Failure, Gems};
use crate::keys::hash;
use crate::name::GemName;
use crate::store::{Key, Scope, Store};

impl<S: Store> Gems<S> {
    /// The key, if it allows `scope`. For which gem is asked once that is known.
    pub(super) async fn authorize(
        &self,
        headers: &HeaderMap,
        scope: Scope,
    ) -> Result<Key, Failure> {
        let unauthorized = |text| Failure::new(StatusCode::UNAUTHORIZED, text);
        let text = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(text) = text.map(str::trim_ascii).filter(|text| !text.is_empty()) else {
            return Err(unauthorized(
                "Access Denied. This needs an API key (GEM_HOST_API_KEY, or gem push --key); \
                 `weir gems key` makes one.",
            ));
        };
        let text = text.strip_prefix("Bearer ").unwrap_or(text);
        let Some(key) = self.store.key(hash(text)).await? else {
            return Err(unauthorized("Access Denied. There is no such API key."));
        };
        if key.is_expired(self.clock.now()) {
            return Err(unauthorized("Access Denied. This API key has expired."));
        }
        match key.has_scope(scope) {
            true => Ok(key),
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
