//! `GET /events`: the live stream.

use axum::response::IntoResponse;

use super::request::{PageRequest, PageResult};
use crate::live;
use crate::page_error::PageError;

pub(crate) async fn open(request: PageRequest) -> PageResult {
    let deps = &request.console.deps;
    let permit = deps.live.permit().ok_or(PageError::TooManyStreams)?;
    Ok(live::stream(&deps.live, &deps.clock, permit).into_response())
}
