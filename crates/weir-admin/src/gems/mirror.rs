//! The mirror of the index: its state, and requests to synchronize.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::admin_api::JsonInput;
use weir_gems::mirror::Scope;
use weir_gems::view::{MirrorView, ReplacedView};

use super::errors;
use super::identity::identity;
use crate::response::AdminResult;
use weir_gems::Gems;

/// The body of `POST gems/mirror/sync`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SyncRequest {
    /// Compares everything, not only changes since the last time.
    #[serde(default)]
    pub everything: bool,
}

/// The body of `POST gems/mirror/accept`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Accept {
    pub name: String,
    pub number: String,
    /// None: `ruby`.
    #[serde(default)]
    pub platform: Option<String>,
}

/// The reply to a synchronization request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SyncStarted {
    /// Done when `rounds_done` of `GET gems/mirror` reaches this number.
    pub round: u64,
}

pub(super) async fn state(State(index): State<Arc<Gems>>) -> AdminResult<MirrorView> {
    let mirror = index.mirrored().await.map_err(errors::store_error)?;
    mirror.map(Json).ok_or_else(errors::no_mirror)
}

pub(super) async fn sync(
    State(index): State<Arc<Gems>>,
    JsonInput(request): JsonInput<SyncRequest>,
) -> AdminResult<SyncStarted> {
    let scope = if request.everything { Scope::Everything } else { Scope::Changes };
    let round = index.request_synchronization(scope).ok_or_else(errors::no_mirror)?;
    Ok(Json(SyncStarted { round }))
}

/// Accepts the file that an upstream now has for a release, after its replacement was blocked.
pub(super) async fn accept(
    State(index): State<Arc<Gems>>,
    JsonInput(accept): JsonInput<Accept>,
) -> AdminResult<ReplacedView> {
    let name = accept.name.parse().map_err(errors::invalid_input)?;
    let identity = identity(&accept.number, accept.platform.as_deref())?;
    index.accept_replaced(&name, &identity).await.map(Json).map_err(errors::accept_error)
}
