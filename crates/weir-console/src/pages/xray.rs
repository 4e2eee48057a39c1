//! What the jobs of a queue or set consist of.

use askama::Template;
use serde::Deserialize;
use weir_jobs::handle::{HandleError, XrayQuery};
use weir_jobs::view::{XrayCoverage, XrayGroup, XrayRow, XrayView};

use super::frame::{PageFrame, Section, html};
use super::request::{PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::job_location::JobLocation;
use crate::visible::visible;

/// Rows of a group on the page.
const TOP: usize = 10;

#[derive(Deserialize)]
struct XrayPageQuery {
    place: JobLocation,
    #[serde(default)]
    by: String,
}

#[derive(Template)]
#[template(path = "xray.html")]
struct XrayPage {
    frame: PageFrame,
    location: JobLocation,
    by: String,
    /// Why `by` can't be used.
    error: Option<String>,
    summary: String,
    missing: Option<String>,
    groups: Vec<GroupTable>,
}

struct GroupTable {
    title: String,
    rows: Vec<ShareRow>,
}

struct ShareRow {
    value: String,
    /// The list of jobs with this value.
    address: Option<String>,
    jobs: String,
    share: String,
    range: String,
}

/// Returns the address of the page for a queue or set.
pub(crate) fn xray_address(location: &JobLocation) -> String {
    address("/xray", &[("place", &location.name())])
}

/// `GET /xray?place=..&by=..`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let XrayPageQuery { place, by } = request.query()?;
    let handle = &request.console.jobs()?.handle;
    let query = |by: Option<String>| XrayQuery {
        place: place.name(),
        by,
        top: Some(TOP),
        ..XrayQuery::default()
    };
    let by = by.trim().to_owned();
    let (xray, error) = match handle.xray(query((!by.is_empty()).then(|| by.clone()))).await {
        Err(HandleError::Invalid(text)) if !by.is_empty() => {
            (handle.xray(query(None)).await?, Some(visible(&text).into_owned()))
        }
        xray => (xray?, None),
    };
    let shown = xray.groups.iter().filter(|group| !group.rows.is_empty());
    Ok(html(&XrayPage {
        frame: request.frame(Section::None, format!("X-ray: {}", place.title())),
        summary: summary(&xray),
        missing: xray.missing.as_deref().map(|missing| visible(missing).into_owned()),
        groups: shown.map(|group| GroupTable::new(group, &place, &by)).collect(),
        location: place,
        error,
        by,
    }))
}

fn summary(xray: &XrayView) -> String {
    let total = figures::counted(xray.total, "job");
    let read = figures::count(xray.read);
    match xray.coverage {
        XrayCoverage::All => format!("{total}, all of them read."),
        XrayCoverage::Part => format!("{total}; the oldest {read} were read."),
        XrayCoverage::Samples => format!(
            "{total}; {read} of them were drawn at random. The range of a share is its 95 % confidence interval."
        ),
    }
}

impl GroupTable {
    fn new(group: &XrayGroup, location: &JobLocation, by: &str) -> Self {
        let title = match &*group.by {
            "jobtype" => "Job type".to_owned(),
            "queue" => "Queue".to_owned(),
            "key" => visible(by).into_owned(),
            "error" => "Last error".to_owned(),
            "age" => "Age".to_owned(),
            "due" => "Due in".to_owned(),
            _ => "Size".to_owned(),
        };
        let address = |row: &XrayRow| {
            let value = row.value.as_deref().filter(|_| group.by == "jobtype")?;
            Some(location.address(&[("jobtype", value)]))
        };
        let named = group.rows.iter().map(|row| {
            let value = visible(row.value.as_deref().unwrap_or_default()).into_owned();
            ShareRow { address: address(row), ..ShareRow::new(value, row) }
        });
        let other = group.other.iter().map(|row| ShareRow::new("others".to_owned(), row));
        let without = group.without_value.iter().map(|row| ShareRow::new("none".to_owned(), row));
        Self { title, rows: named.chain(other).chain(without).collect() }
    }
}

impl ShareRow {
    fn new(value: String, row: &XrayRow) -> Self {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let is_exact = row.share_low >= row.share_high;
        let range = || format!("{} to {}", percent(row.share_low), percent(row.share_high));
        Self {
            value,
            address: None,
            jobs: figures::count(row.jobs),
            share: percent(row.share),
            range: if is_exact { "exact".to_owned() } else { range() },
        }
    }
}
