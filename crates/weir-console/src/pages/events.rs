//! `GET /events`: the live stream.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;

use super::PageError;
use crate::console::Console;
use crate::live;

pub(crate) async fn open(
    State(console): State<Arc<Console>>,
) -> Result<impl IntoResponse, PageError> {
    let permit = console.deps.live.permit().ok_or(PageError::TooManyStreams)?;
    Ok(live::stream(&console.deps.live, &console.deps.clock, permit))
}
