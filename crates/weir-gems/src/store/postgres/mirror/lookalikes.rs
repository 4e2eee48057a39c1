//! Finds local names that others could be confused with.

use deadpool_postgres::GenericClient;
use hashbrown::HashMap;

use crate::name::GemName;
use crate::store::StoreError;
use crate::store::column::name;

/// Selects by the skeleton, which is indexed and equal for all names with the same folded form.
const OURS: &str = "SELECT gems.name FROM gems LEFT JOIN origins ON origins.gem = gems.id
     WHERE skeleton = ANY($1) AND origins.gem IS NULL";

/// Names that were pushed or imported here, by their folded form.
#[derive(Default)]
pub(super) struct Ours(HashMap<String, Vec<String>>);

impl Ours {
    /// Returns the local names that one of these names could be confused with.
    pub(super) async fn like(
        client: &impl GenericClient,
        names: impl Iterator<Item = &GemName>,
    ) -> Result<Self, StoreError> {
        let skeletons: Vec<String> = names.map(GemName::skeleton).collect();
        let mut ours = Self::default();
        if skeletons.is_empty() {
            return Ok(ours);
        }
        let statement = client.prepare_cached(OURS).await?;
        for row in client.query(&statement, &[&skeletons]).await? {
            let known = name(row.try_get(0)?)?;
            ours.0.entry(known.folded()).or_default().push(known.to_string());
        }
        Ok(ours)
    }

    /// Returns whether a name could be confused with another local one.
    pub(super) fn resemble(&self, name: &GemName) -> bool {
        let alike = self.0.get(&name.folded());
        alike.is_some_and(|alike| alike.iter().any(|ours| ours != name.as_str()))
    }
}
