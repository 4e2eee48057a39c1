//! The gem index for the console, independent of its store.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use weir_gems::Gems;
use weir_gems::mirror::Scope;
use weir_gems::store::StoreError;
use weir_gems::view::{EndpointView, GemView, KeyView, MirrorView, NamePage, Overview};

/// A query of the index in progress.
pub type IndexFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The gem index.
pub trait GemIndex: fmt::Debug + Send + Sync {
    /// Returns the summary of the index.
    fn overview(&self) -> IndexFuture<'_, Overview>;
    /// Returns the names that contain `search`, after the name `after`.
    fn names<'a>(
        &'a self,
        search: &'a str,
        after: Option<&'a str>,
        names_max: usize,
    ) -> IndexFuture<'a, NamePage>;
    /// Returns a gem with its newest releases; None: no gem with releases has this name.
    fn gem<'a>(&'a self, name: &'a str, releases_max: usize) -> IndexFuture<'a, Option<GemView>>;
    /// Returns the endpoints of webhooks.
    fn webhooks(&self) -> IndexFuture<'_, Vec<EndpointView>>;
    /// Returns the mirror; None: no other index is mirrored.
    fn mirrored(&self) -> IndexFuture<'_, Option<MirrorView>>;
    /// Starts a poll of all upstreams; returns false if there are none.
    fn poll_upstreams(&self) -> bool;
    /// Returns all API keys without their texts.
    fn keys(&self) -> IndexFuture<'_, Vec<KeyView>>;
}

impl GemIndex for Gems {
    fn overview(&self) -> IndexFuture<'_, Overview> {
        self.overview()
    }

    fn names<'a>(
        &'a self,
        search: &'a str,
        after: Option<&'a str>,
        names_max: usize,
    ) -> IndexFuture<'a, NamePage> {
        self.names(search, after, names_max)
    }

    fn gem<'a>(&'a self, name: &'a str, releases_max: usize) -> IndexFuture<'a, Option<GemView>> {
        self.gem(name, releases_max)
    }

    fn webhooks(&self) -> IndexFuture<'_, Vec<EndpointView>> {
        self.webhooks()
    }

    fn mirrored(&self) -> IndexFuture<'_, Option<MirrorView>> {
        self.mirrored()
    }

    fn poll_upstreams(&self) -> bool {
        self.request_synchronization(Scope::Changes).is_some()
    }

    fn keys(&self) -> IndexFuture<'_, Vec<KeyView>> {
        self.keys()
    }
}
