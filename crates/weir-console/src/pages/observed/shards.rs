//! The selection of one of several Redis servers.

use weir_advisor::Observation;

use super::displayable;
use crate::figures;
use crate::observed::ObservedSnapshot;
use crate::page_error::PageError;

/// A Redis server to choose.
pub(super) struct ShardOption {
    pub(super) name: String,
    /// The name for display.
    pub(super) display_name: String,
    pub(super) is_chosen: bool,
}

/// Returns the requested Redis, or the first one. None: there is only one.
pub(super) fn chosen<'a>(
    observation: &'a Observation,
    requested: Option<&str>,
) -> Result<Option<&'a str>, PageError> {
    let mut names = observation.shards.iter().map(|shard| shard.name.as_str());
    let Some(requested) = requested.filter(|requested| !requested.is_empty()) else {
        return Ok(names.next());
    };
    if observation.shards.is_empty() {
        return Ok(None);
    }
    names.find(|name| *name == requested).map(Some).ok_or_else(|| {
        let requested = figures::shortened(requested, 100);
        PageError::NotFound(format!("there is no Redis server {requested:?}"))
    })
}

/// Returns all Redis servers to choose from.
pub(super) fn options(snapshot: Option<&ObservedSnapshot>, chosen: &str) -> Vec<ShardOption> {
    let shards =
        snapshot.map(|snapshot| snapshot.observation.shards.as_slice()).unwrap_or_default();
    let option = |name: &str| ShardOption {
        name: name.to_owned(),
        display_name: displayable(name),
        is_chosen: name == chosen,
    };
    shards.iter().map(|shard| option(&shard.name)).collect()
}
