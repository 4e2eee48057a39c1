//! Checks that a request's API key is valid and allows the operation.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, MutexGuard, PoisonError};

use hyper::StatusCode;
use weir_base::failed_attempts::FailedAttempts;
use weir_net::client::ClientAddress;

use super::credentials::key_of;
use super::{Call, Failure, Gems};
use crate::keys::hash;
use crate::metrics::Limit;
use crate::name::GemName;
use crate::store::{Key, Scope};

impl Gems {
    /// Returns the request's key if it allows `scope`. The caller checks whether it is for the gem,
    /// once the gem is known.
    pub(super) async fn authorize(
        &self,
        call: &Call<'_>,
        scope: Scope,
    ) -> Result<Arc<Key>, Failure> {
        let text = key_of(&call.request.headers).ok_or_else(|| without_key(scope))?;
        let hash = hash(&text);
        self.wait_if_guessing(call, hash).await?;
        let key = self.stored_key(call, hash).await?;
        self.check_key(&key, scope)?;
        Ok(key)
    }

    /// Checks that the request's key may read. A key that was checked within the last second is not
    /// looked up again.
    pub(super) async fn authorize_reader(&self, call: &Call<'_>) -> Result<(), Failure> {
        let scope = Scope::IndexRubygems;
        let text = key_of(&call.request.headers).ok_or_else(|| without_key(scope))?;
        let hash = hash(&text);
        let key = match self.known_keys.get(hash, self.clock.now()) {
            Some(key) => key,
            None => {
                self.wait_if_guessing(call, hash).await?;
                self.stored_key(call, hash).await?
            }
        };
        self.check_key(&key, scope)
    }

    /// Looks a key up in the store.
    async fn stored_key(&self, call: &Call<'_>, hash: [u8; 32]) -> Result<Arc<Key>, Failure> {
        let (now, epoch) = (self.clock.now(), self.known_keys.epoch());
        let Some(key) = self.store.key(hash).await?.map(Arc::new) else {
            let client = client_address(call);
            tracing::warn!(%client, "wrong API key");
            self.metrics.wrong_key();
            self.wrong_keys().add(client, now);
            return Err(unknown_key());
        };
        self.known_keys.put(hash, Arc::clone(&key), now, epoch);
        Ok(key)
    }

    /// Delays the check for a client that has sent many wrong keys, whether or not this key is
    /// valid. A key that was valid before is not delayed, since other clients may share the
    /// address.
    async fn wait_if_guessing(&self, call: &Call<'_>, hash: [u8; 32]) -> Result<(), Failure> {
        let limits = &call.settings.limits;
        let wrong = self.wrong_keys().count(client_address(call), self.clock.now());
        if wrong < limits.wrong_keys_max || self.known_keys.was_right(hash) {
            return Ok(());
        }
        self.metrics.limit_hit(Limit::WrongKeysMax);
        self.waiting_keys.set_limit(limits.waiting_keys_max);
        let _permit = self.waiting_keys.try_acquire().map_err(|full| {
            self.metrics.limit_hit(Limit::WaitingKeysMax);
            Failure::new(StatusCode::TOO_MANY_REQUESTS, full)
        })?;
        tokio::time::sleep(limits.wrong_key_delay).await;
        Ok(())
    }

    fn wrong_keys(&self) -> MutexGuard<'_, FailedAttempts> {
        self.wrong_keys.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Returns the client's address. All clients on this machine count as one.
fn client_address(call: &Call<'_>) -> IpAddr {
    let client = call.request.extensions.get::<ClientAddress>();
    client.map_or(Ipv4Addr::LOCALHOST.into(), |client| client.address())
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
