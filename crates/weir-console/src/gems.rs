//! What the console shows of the index of gems, whatever its store.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use weir_gems::Gems;
use weir_gems::store::{Store, StoreError};
use weir_gems::view::{GemView, KeyView, NamePage, Overview};

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
    /// All API keys, without their texts.
    fn keys(&self) -> Answer<'_, Vec<KeyView>>;
}

impl<S: Store> Index for Gems<S> {
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

    fn keys(&self) -> Answer<'_, Vec<KeyView>> {
        Box::pin(self.keys())
    }
}
