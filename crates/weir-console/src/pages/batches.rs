//! The batches of jobs with callbacks.

use askama::Template;
use serde::Deserialize;
use weir_jobs::view::{BatchListPage, BatchView};

use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::request::{PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::visible::visible;

/// Batches on one page.
const PAGE_BATCHES: usize = 50;

#[derive(Clone, Debug, Default, Deserialize)]
struct BatchesQuery {
    #[serde(default)]
    after: String,
}

#[derive(Template)]
#[template(path = "batches.html")]
struct BatchesPage {
    frame: PageFrame,
    live: LiveSection,
    has_batches: bool,
}

#[derive(Template)]
#[template(path = "batches_live.html")]
struct BatchesLive {
    summary: String,
    rows: Vec<BatchRow>,
    /// The address of the next page.
    next: Option<String>,
}

struct BatchRow {
    bid: String,
    parent: Option<String>,
    description: String,
    state: String,
    /// The style's class of the state.
    class: &'static str,
    age: String,
    total: String,
    succeeded: String,
    pending: String,
    failed: String,
    failed_class: &'static str,
    complete: String,
    success: String,
}

/// `GET /batches?after=..`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let query: BatchesQuery = request.query()?;
    let after = (!query.after.is_empty()).then(|| query.after.clone());
    let page = request.console.jobs()?.handle.batches(after, PAGE_BATCHES).await?;
    let live = BatchesLive::new(&page);
    request.live_response(live.render(), &[("after", &query.after)], |live| {
        Ok(html(&BatchesPage {
            frame: request.frame(Section::Batches, "Batches").refreshed(),
            live,
            has_batches: page.total > 0,
        }))
    })
}

impl BatchesLive {
    fn new(page: &BatchListPage) -> Self {
        let rows: Vec<BatchRow> =
            page.batches.iter().map(|it| BatchRow::new(it, page.now)).collect();
        let all = match page.total {
            1 => "1 batch".to_owned(),
            total => format!("{} batches", figures::count(total)),
        };
        let summary = match page.total {
            0 => "There are no batches.".to_owned(),
            total if total == rows.len() as u64 => all,
            _ => format!("{all}; {} shown", figures::number(rows.len())),
        };
        let next = page.next.as_ref().map(|next| address("/batches", &[("after", next)]));
        Self { summary, rows, next }
    }
}

impl BatchRow {
    fn new(batch: &BatchView, now: f64) -> Self {
        Self {
            bid: batch.bid.clone(),
            parent: batch.parent_bid.clone(),
            description: visible(&batch.description).into_owned(),
            state: batch.state.clone(),
            class: if matches!(&*batch.state, "waiting" | "failed") {
                "tag warning"
            } else {
                "tag"
            },
            age: figures::whole_duration((now - batch.created_at).max(0.0)),
            total: figures::count(batch.total),
            succeeded: figures::count(batch.succeeded),
            pending: figures::count(batch.pending),
            failed: figures::count(batch.failed),
            failed_class: if batch.failed > 0 { "late" } else { "" },
            complete: batch.complete.clone(),
            success: batch.success.clone(),
        }
    }
}
