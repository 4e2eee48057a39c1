//! Damage to the job store, until somebody acknowledges it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use weir_jobs::view::Damage;

use super::shell::{Section, Shell};
use super::theme::Theme;
use super::{PageError, html};
use crate::console::Console;
use crate::figures;
use crate::guard::form::CheckedForm;
use crate::guard::visitor::Visitor;

#[derive(Template)]
#[template(path = "damage.html")]
struct DamagePage {
    shell: Shell,
    damages: Vec<Damage>,
    /// Some are only counted.
    unlisted: u64,
}

/// `GET /damage`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    let handle = &console.jobs()?.handle;
    let damages = handle.damages().await?;
    let total = handle.overview().await?.log.damages;
    Ok(html(&DamagePage {
        shell: Shell::new(&console, &visitor, Section::None, "Damage"),
        unlisted: total.saturating_sub(damages.len() as u64),
        damages,
    }))
}

/// `POST /damage/acknowledge`
pub(crate) async fn acknowledge(
    State(console): State<Arc<Console>>,
    _form: CheckedForm,
) -> Result<Response, PageError> {
    let places = console.jobs()?.handle.acknowledge_damages().await?;
    tracing::info!(places, "console: damage of the job store was acknowledged");
    Ok(Redirect::to("/damage").into_response())
}
