//! The flood of a running `weir demo`; its button is on the first page.

use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;

use super::request::{FormRequest, PageResult};
use crate::page_error::PageError;

/// What the first page says after the button was pressed.
#[derive(Debug, Deserialize)]
pub(super) struct DemoFlash {
    done: Option<String>,
}

impl DemoFlash {
    /// Returns the flash message.
    pub(super) fn message(&self) -> Option<String> {
        let is_flood = self.done.as_deref() == Some("flood");
        is_flood.then(|| "The flood begins: 50 times the traffic for a minute.".to_owned())
    }
}

/// `POST /demo/flood`
pub(crate) async fn flood(FormRequest { console, .. }: FormRequest) -> PageResult {
    let (jobs, demo) = (console.jobs()?, console.deps.demo);
    if !demo.is_running(&jobs.handle.workers().await?) {
        let reason = "no demo is connected; start one with `weir demo`";
        return Err(PageError::Invalid(reason.to_owned()));
    }
    let pushed = jobs.handle.push(vec![(demo.flood_job)()]).await?;
    if let Some(rejected) = pushed.rejected.first() {
        return Err(PageError::Invalid(rejected.error.clone()));
    }
    tracing::info!("console: asked the demo for a flood");
    Ok(Redirect::to("/?done=flood").into_response())
}
