//! Damage to the job store, until an operator acknowledges it.

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use weir_jobs::view::Damage;

use super::frame::{PageFrame, Section, html};
use super::request::{FormRequest, PageRequest, PageResult};
use crate::figures;

#[derive(Template)]
#[template(path = "damage.html")]
struct DamagePage {
    frame: PageFrame,
    damages: Vec<Damage>,
    /// Damages that are counted but not listed.
    unlisted: u64,
}

/// `GET /damage`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let handle = &request.console.jobs()?.handle;
    let damages = handle.damages().await?;
    let total = handle.overview().await?.log.damages;
    Ok(html(&DamagePage {
        frame: request.frame(Section::None, "Damage"),
        unlisted: total.saturating_sub(damages.len() as u64),
        damages,
    }))
}

/// `POST /damage/acknowledge`
pub(crate) async fn acknowledge(request: FormRequest) -> PageResult {
    let damages = request.console.jobs()?.handle.acknowledge_damages().await?;
    tracing::info!(damages, "console: damage of the job store was acknowledged");
    Ok(Redirect::to("/damage").into_response())
}
