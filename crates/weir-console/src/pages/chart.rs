//! `GET /chart?series=a,b&seconds=900`: points for a chart, as columns.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use weir_base::history;

use super::request::{PageRequest, PageResult};
use crate::console::Console;
use crate::page_error::PageError;

#[derive(Debug, Deserialize)]
struct ChartQuery {
    /// Names, separated by commas.
    series: String,
    /// The time span up to now.
    seconds: u64,
    points: Option<usize>,
}

/// Times in seconds since the Unix epoch; a gap is null.
#[derive(Debug, Serialize)]
pub(super) struct ChartPoints {
    pub(super) times: Vec<f64>,
    /// Means, one list per series in the requested order.
    pub(super) means: Vec<Vec<Option<f64>>>,
    /// Maximums.
    pub(super) peaks: Vec<Vec<Option<f64>>>,
}

pub(crate) async fn points(request: PageRequest) -> PageResult {
    let history = Arc::clone(&request.console.jobs()?.history);
    read(&request, history).await
}

/// Reads the requested series of a history, on a thread that may block on the disk.
pub(crate) async fn read(
    request: &PageRequest,
    history: Arc<history::MetricsHistory>,
) -> PageResult {
    let points = read_points(&request.console, history, request.query()?).await?;
    Ok(Json(points).into_response())
}

async fn read_points(
    console: &Console,
    history: Arc<history::MetricsHistory>,
    query: ChartQuery,
) -> Result<ChartPoints, PageError> {
    let series: Vec<String> = query.series.split(',').map(str::to_owned).collect();
    let known = history.columns();
    if let Some(unknown) = series.iter().find(|name| !known.contains(name)) {
        return Err(PageError::Invalid(format!("there is no series {unknown:?}")));
    }
    if series.len() > known.len() {
        return Err(PageError::Invalid("a series is named twice".to_owned()));
    }
    let points_max = console.deps.settings.limits.chart_points_max;
    let points_max = query.points.unwrap_or(points_max).clamp(1, points_max);
    // The current second has no row yet.
    let to = console.deps.clock.now();
    let from = to - Duration::from_secs(query.seconds);
    let read = tokio::task::spawn_blocking(move || {
        let names: Vec<&str> = series.iter().map(String::as_str).collect();
        history.query(&history::HistoryQuery { series: &names, from, to, points_max })
    });
    let table = read.await.map_err(|error| PageError::Unavailable(error.to_string()))?;
    let values_of = |value: fn(&history::Band) -> f64| {
        let column = |points: &Vec<Option<history::Band>>| {
            points.iter().map(|point| point.as_ref().map(value)).collect()
        };
        table.columns.iter().map(column).collect()
    };
    Ok(ChartPoints {
        times: table.times.iter().map(|at| at.as_secs_f64()).collect(),
        means: values_of(|band| band.mean),
        peaks: values_of(|band| band.max),
    })
}
