//! `GET /chart?series=a,b&seconds=900`: points for a chart, as columns.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use weir_base::history;

use super::PageError;
use crate::console::Console;

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    /// Names, separated by commas.
    series: String,
    /// How far back from now.
    seconds: u64,
    points: Option<usize>,
}

/// Times in seconds since the Unix epoch; a gap is null.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    times: Vec<f64>,
    /// Means, one list per series in the order asked for.
    means: Vec<Vec<Option<f64>>>,
    /// Greatest values.
    peaks: Vec<Vec<Option<f64>>>,
}

pub(crate) async fn points(
    State(console): State<Arc<Console>>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Chart>, PageError> {
    let history = Arc::clone(&console.jobs()?.history);
    read(&console, history, wanted).await.map(Json)
}

/// Reads a history on a thread that may wait for the disk.
pub(crate) async fn read(
    console: &Console,
    history: Arc<history::MetricsHistory>,
    wanted: Wanted,
) -> Result<Chart, PageError> {
    let series: Vec<String> = wanted.series.split(',').map(str::to_owned).collect();
    let known = history.columns();
    if let Some(unknown) = series.iter().find(|name| !known.contains(name)) {
        return Err(PageError::Invalid(format!("there is no series {unknown:?}")));
    }
    if series.len() > known.len() {
        return Err(PageError::Invalid("a series is named twice".to_owned()));
    }
    let points_max = console.deps.settings.limits.chart_points_max;
    let points_max = wanted.points.unwrap_or(points_max).clamp(1, points_max);
    // The second that isn't over has no row yet.
    let to = console.deps.clock.now();
    let from = to - Duration::from_secs(wanted.seconds);
    let read = tokio::task::spawn_blocking(move || {
        let names: Vec<&str> = series.iter().map(String::as_str).collect();
        history.query(&history::HistoryQuery { series: &names, from, to, points_max })
    });
    let table = read.await.map_err(|error| PageError::Invalid(error.to_string()))?;
    let pick = |value: fn(&history::Band) -> f64| {
        let column = |points: &Vec<Option<history::Band>>| {
            points.iter().map(|point| point.as_ref().map(value)).collect()
        };
        table.columns.iter().map(column).collect()
    };
    Ok(Chart {
        times: table.times.iter().map(|at| at.as_secs_f64()).collect(),
        means: pick(|band| band.mean),
        peaks: pick(|band| band.max),
    })
}
