//! What the console shows of the index of gems, whatever its store.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use weir_gems::Gems;
use weir_gems::mirror::Scope;
use weir_gems::store::StoreError;
use weir_gems::view::{
    ChangeView, Dependents, EndpointView, GemView, KeyView, MirrorView, NamePage, Overview,
};

/// An answer of the store.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The index.
pub trait Index: fmt::Debug + Send + Sync {
    /// As a whole.
    fn overview(&self) -> Answer<'_, Overview>;
    /// Names that hold `search`, behind the name `after`.
    fn names<'a>(
        &'a self,
        search: &'a str,
        after: Option<&'a str>,
        names_max: usize,
    ) -> Answer<'a, NamePage>;
    /// A gem with its newest releases; None: there is none with releases.
    fn gem<'a>(&'a self, name: &'a str, releases_max: usize) -> Answer<'a, Option<GemView>>;
    /// The gems that need a gem.
    fn dependents<'a>(&'a self, name: &'a str, names_max: usize) -> Answer<'a, Dependents>;
    /// What changed last.
    fn latest(&self, changes_max: usize) -> Answer<'_, Vec<ChangeView>>;
    /// Who is told of changes.
    fn webhooks(&self) -> Answer<'_, Vec<EndpointView>>;
    /// What comes from elsewhere; None: nothing.
    fn mirrored(&self) -> Answer<'_, Option<MirrorView>>;
    /// Has all upstreams looked at; false: there are none.
    fn look_at_upstreams(&self) -> bool;
    /// All API keys, without their texts.
    fn keys(&self) -> Answer<'_, Vec<KeyView>>;
}

impl Index for Gems {
    fn overview(&self) -> Answer<'_, Overview> {
        Box::pin(self.overview())
    }

    fn names<'a>(
        &'a self,
        search: &'a str,
        after: Option<&'a str>,
        names_max: usize,
    ) -> Answer<'a, NamePage> {
        Box::pin(self.names(search, after, names_max))
    }

    fn gem<'a>(&'a self, name: &'a str, releases_max: usize) -> Answer<'a, Option<GemView>> {
        Box::pin(self.gem(name, releases_max))
    }

    fn dependents<'a>(&'a self, name: &'a str, names_max: usize) -> Answer<'a, Dependents> {
        Box::pin(self.dependents(name, names_max))
    }

    fn latest(&self, changes_max: usize) -> Answer<'_, Vec<ChangeView>> {
        Box::pin(self.latest(changes_max))
    }

    fn webhooks(&self) -> Answer<'_, Vec<EndpointView>> {
        Box::pin(self.webhooks())
    }

    fn mirrored(&self) -> Answer<'_, Option<MirrorView>> {
        Box::pin(self.mirrored())
    }

    fn look_at_upstreams(&self) -> bool {
        self.look_at_upstreams(Scope::Changes).is_some()
    }

    fn keys(&self) -> Answer<'_, Vec<KeyView>> {
        Box::pin(self.keys())
    }
}
