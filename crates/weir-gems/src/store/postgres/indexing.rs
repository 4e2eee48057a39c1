//! Updates the index for several changed gems, and the texts that list them, in one transaction.

use std::fmt::Display;

use deadpool_postgres::Transaction;

use super::replacing::Replacing;
use crate::index::{names, versions};
use crate::release::Release;
use crate::store::derived::Derived;
use crate::store::statements::gems::Gem;
use crate::store::statements::index::write_names;
use crate::store::statements::texts::TextWriter;
use crate::store::{StoreError, TextKind};

pub(super) struct Indexing<'a> {
    transaction: &'a Transaction<'a>,
    versions: TextWriter,
    names: TextWriter,
    replacing: Replacing<'a>,
    /// Whether a name must be removed from the middle of `/names`.
    has_gone: bool,
}

impl<'a> Indexing<'a> {
    pub(super) async fn begin(transaction: &'a Transaction<'a>) -> Result<Self, StoreError> {
        Ok(Self {
            transaction,
            versions: TextWriter::resume(transaction, TextKind::Versions).await?,
            names: TextWriter::resume(transaction, TextKind::Names).await?,
            replacing: Replacing::default(),
            has_gone: false,
        })
    }

    /// Adds the derived data of a gem's `releases`, which must be in order. `line` lists the
    /// changed versions for `/versions`.
    pub(super) async fn gem(
        &mut self,
        gem: Gem,
        name: &'a str,
        line: impl IntoIterator<Item = impl Display>,
        releases: &[Release],
    ) -> Result<(), StoreError> {
        let derived = Derived::of(releases);
        let md5 = derived.digests.md5;
        self.replacing.add(gem.id, name, derived, releases.len());
        self.versions
            .append(self.transaction, |text| versions::write_gem(text, name, line, md5))
            .await?;
        match (gem.live, releases.len()) {
            (0, 1..) => {
                self.names.append(self.transaction, |text| names::write_line(text, name)).await
            }
            (1.., 0) => {
                self.has_gone = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn finish(self) -> Result<(), StoreError> {
        self.replacing.write(self.transaction).await?;
        self.versions.finish(self.transaction).await?;
        self.names.finish(self.transaction).await?;
        match self.has_gone {
            true => write_names(self.transaction).await,
            false => Ok(()),
        }
    }
}
