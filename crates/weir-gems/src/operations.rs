//! Actions and queries for operators, used by the console, the admin API and the command line.

mod mirroring;
mod names;
mod releases;

use std::time::Duration;

use futures_util::future::BoxFuture;
use weir_base::clock::Timestamp;
use weir_base::secret::Secret;
use weir_base::switch::Pattern;

pub use self::mirroring::AcceptError;
use crate::Gems;
use crate::index::digest::Digests;
use crate::keys;
use crate::mirror::read::read_info;
use crate::name::GemName;
use crate::release::Identity;
use crate::store::webhooks::EndpointState;
use crate::store::{KeySettings, Scope, StoreError, TextKind, YankError};
use crate::view::{EndpointView, GemView, KeyView, NamePage, Overview};

/// Maximum length of a key's name in characters: it has to fit one line of a table.
pub const KEY_NAME_CHARACTERS_MAX: usize = 100;

/// Parameters of a new key.
#[derive(Clone, Debug)]
pub struct KeyWanted {
    /// A label for people, such as the owner's name.
    pub name: String,
    pub scopes: Vec<Scope>,
    /// Patterns of gems that the key may push and yank; empty for all.
    pub gems: Vec<Pattern>,
    /// Validity of the key; None if it does not expire.
    pub expires_after: Option<Duration>,
}

impl Gems {
    /// Returns a summary of the index.
    pub fn overview(&self) -> BoxFuture<'_, Result<Overview, StoreError>> {
        Box::pin(async move {
            let names = self.store().text(TextKind::Names).await?;
            let versions = self.store().text(TextKind::Versions).await?;
            let Digests { md5, .. } = versions.digests;
            let off = self.switches().list(self.now());
            Ok(Overview {
                gems: names::count(&names),
                versions_bytes: versions.length(),
                versions_md5: hex::encode(md5),
                switched_off: off.iter().map(|off| off.pattern.to_string()).collect(),
            })
        })
    }

    /// Returns up to `names_max` names that contain `search`, ignoring case, starting after the
    /// name `after`, or at the first name if it is None.
    pub fn names<'a>(
        &'a self,
        search: &'a str,
        after: Option<&'a str>,
        names_max: usize,
    ) -> BoxFuture<'a, Result<NamePage, StoreError>> {
        Box::pin(async move {
            let text = self.store().text(TextKind::Names).await?;
            Ok(names::page(&text, search, after, names_max))
        })
    }

    /// Returns a gem with up to `releases_max` of its releases, newest first, or None if it has no
    /// releases.
    pub fn gem<'a>(
        &'a self,
        name: &'a str,
        releases_max: usize,
    ) -> BoxFuture<'a, Result<Option<GemView>, StoreError>> {
        Box::pin(async move {
            let Some(info) = self.store().info(name).await? else { return Ok(None) };
            let damaged = |error| StoreError::Damaged(format!("/info/{name}: {error}"));
            let mut stored = read_info(&info.content).map_err(damaged)?.releases;
            releases::newest_first(&mut stored);
            let mut releases = Vec::with_capacity(stored.len().min(releases_max));
            for release in stored.iter().take(releases_max) {
                let full_name = format!("{name}-{}", release.identity);
                let bytes = self.store().file(&full_name).await?.map(|file| file.bytes);
                releases.push(releases::view(release, bytes));
            }
            let releases_total = stored.len();
            let view = || GemView { name: name.to_owned(), releases, releases_total, downloads: 0 };
            Ok((releases_total > 0).then(view))
        })
    }

    /// Permanently removes a release from all lists.
    ///
    /// # Errors
    /// Fails if there is no such release, or with the store's error.
    pub fn yank_by_operator<'a>(
        &'a self,
        name: &'a GemName,
        identity: &'a Identity,
    ) -> BoxFuture<'a, Result<(), YankError>> {
        Box::pin(async move {
            self.store().yank(name, identity, self.now()).await?;
            tracing::info!(gem = format!("{name}-{identity}"), "a gem was yanked by an operator");
            Ok(())
        })
    }

    /// Rewrites `/versions` and `/names`, so that all clients fetch them completely.
    pub fn rebaseline(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.store().rebaseline(self.now()).await?;
            tracing::info!("/versions has a new baseline: every client fetches all of it once");
            Ok(())
        })
    }

    /// Creates a key and returns its text, which can't be recovered later.
    pub fn create_key(
        &self,
        wanted: KeyWanted,
    ) -> BoxFuture<'_, Result<(Secret, KeyView), StoreError>> {
        Box::pin(async move {
            let now = self.now();
            let KeyWanted { name, scopes, gems, expires_after } = wanted;
            let expires_at_us = expires_after.map(|after| (now + after).as_micros());
            let settings = KeySettings { name, scopes, gems, expires_at_us };
            let (secret, key) = keys::create(self.store(), settings, now).await?;
            tracing::info!(key = key.id, name = key.settings.name, "an API key was made");
            Ok((secret, KeyView::of(&key, now)))
        })
    }

    /// Returns all keys in order of creation.
    pub fn keys(&self) -> BoxFuture<'_, Result<Vec<KeyView>, StoreError>> {
        Box::pin(async move {
            let now = self.now();
            let keys = self.store().keys().await?;
            Ok(keys.iter().map(|key| KeyView::of(key, now)).collect())
        })
    }

    /// Revokes a key. Returns false if there is none.
    pub fn revoke_key(&self, id: u64) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let removed = self.store().remove_key(id).await;
            // Clear the cache even on error: the key may be removed although the store's reply was
            // lost.
            self.forget_keys();
            let is_removed = removed?;
            if is_removed {
                tracing::info!(key = id, "an API key was revoked");
            }
            Ok(is_removed)
        })
    }
}

impl Gems {
    /// Returns the webhook endpoints with their delivery state.
    pub fn webhooks(&self) -> BoxFuture<'_, Result<Vec<EndpointView>, StoreError>> {
        Box::pin(async move {
            let endpoints = self.store().webhook_endpoints().await?;
            Ok(endpoints.into_iter().map(endpoint).collect())
        })
    }
}

fn endpoint(state: EndpointState) -> EndpointView {
    let EndpointState { name, waiting, oldest_at, failures, due_at, held_until: _ } = state;
    let oldest_at = oldest_at.map(Timestamp::as_secs_f64);
    EndpointView { name, waiting, oldest_at, failures, due_at: due_at.as_secs_f64() }
}
