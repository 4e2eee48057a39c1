//! Handlers of `specs.4.8.gz` and its relatives. A list is built on request if the index has
//! changed, by one task at a time, and cached. Current clients never request them.

use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::StatusCode;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::representation::{BINARY, Described, bytes};
use super::{Answer, Call, Failure, Gems};
use crate::blocking::blocking;
use crate::dependency_api::Fragment;
use crate::index::digest::Digests;
use crate::marshal::{SpecList, SpecListError, write_specs};
use crate::store::{GemStore, StoreError, TextKind};

/// Number of gems to read at once.
const PAGE_GEMS: usize = 500;
/// Maximum number of attempts to build a list while the store is changing.
const ATTEMPTS_MAX: usize = 5;

/// A list that was built.
#[derive(Clone, Debug)]
struct Built {
    /// Digests of the `/versions` that it was built from.
    from: Digests,
    digests: Digests,
    content: Bytes,
}

/// Cached lists. A tokio mutex: requests for a list that is being built wait for it.
#[derive(Debug, Default)]
pub(super) struct SpecLists([Mutex<Option<Built>>; 3]);

#[derive(Debug, thiserror::Error)]
enum BuildError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    List(#[from] SpecListError),
}

impl Gems {
    pub(super) async fn spec_list(&self, call: &Call<'_>, list: SpecList) -> Answer {
        let built = self.built(list).await?;
        let described = Described::by(&built.digests, built.content.len() as u64, BINARY);
        Ok(bytes(call.request, described, &built.content))
    }

    async fn built(&self, list: SpecList) -> Result<Built, Failure> {
        let mut place = self.specs.0[list as usize].lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let from = self.store.text(TextKind::Versions).await?.digests;
            if let Some(built) = place.as_ref().filter(|built| built.from == from) {
                return Ok(built.clone());
            }
            match self.build(list).await {
                Ok(content) => {
                    let digests = Digests::of(&content);
                    *place = Some(Built { from, digests, content });
                    // Changes arrived while the list was built, so check once more.
                }
                // The number of releases changed between counting and writing. Try again.
                Err(BuildError::List(SpecListError::Count { .. })) => {}
                Err(error) => {
                    tracing::error!(%error, "a list of all gems could not be built");
                    break;
                }
            }
        }
        // A busy store changes all the time; a slightly outdated list is better than none.
        place.clone().ok_or_else(|| {
            let text = "the list of all gems can't be built now; use the compact index";
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    /// Builds a list on a blocking thread, so that no other request waits for it.
    async fn build(&self, list: SpecList) -> Result<Bytes, BuildError> {
        let gems =
            |store: &Arc<GemStore>| GemsOfList::all(Arc::clone(store), Handle::current(), list);
        let (first, second) = (gems(&self.store), gems(&self.store));
        let building = blocking(move || {
            let mut count = 0;
            for gem in first {
                count += gem?.1.len();
            }
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            write_specs(&mut packed, count, second)?;
            Ok(packed.finish().map_err(SpecListError::Io)?.into())
        });
        building.await.map_err(|error| StoreError::Abandoned(error.to_string()))?
    }
}

/// A gem with its entries in the list.
type Listed = (String, Vec<(String, String)>);

/// All gems of a store, read page by page from a blocking thread.
struct GemsOfList {
    store: Arc<GemStore>,
    runtime: Handle,
    list: SpecList,
    page: std::vec::IntoIter<(String, Vec<u8>)>,
    next: Option<u64>,
}

impl GemsOfList {
    fn all(store: Arc<GemStore>, runtime: Handle, list: SpecList) -> Self {
        Self { store, runtime, list, page: Vec::new().into_iter(), next: Some(0) }
    }

    fn read(&mut self) -> Result<Option<Listed>, BuildError> {
        loop {
            if let Some((name, bytes)) = self.page.next() {
                let fragment = Fragment::read(&bytes).map_err(StoreError::from)?;
                let listed = self.list.of(&fragment).into_iter();
                let owned = |(number, platform): (&str, &str)| (number.into(), platform.into());
                return Ok(Some((name, listed.map(owned).collect())));
            }
            let Some(from) = self.next else { return Ok(None) };
            let page = self.runtime.block_on(self.store.fragment_page(from, PAGE_GEMS))?;
            (self.page, self.next) = (page.gems.into_iter(), page.next);
        }
    }
}

impl Iterator for GemsOfList {
    type Item = Result<Listed, BuildError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
