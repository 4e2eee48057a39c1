//! `weir jobs xray`: what the jobs of a queue or set consist of.

use clap::{Args, value_parser};
use weir_jobs::handle::{SAMPLE_JOBS, SAMPLE_JOBS_MAX, XRAY_TOP, XRAY_TOP_MAX};
use weir_jobs::view::{XrayCoverage, XrayGroup, XrayRow, XrayView};

use super::query;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::output::seconds;
use crate::target::Target;

/// `weir jobs xray`.
#[derive(Debug, Args)]
pub(crate) struct JobsXrayArgs {
    #[command(flatten)]
    target: Target,
    /// A queue, or one of the sets scheduled, retries and dead
    place: String,
    /// Also group by this member of the jobs: custom.NAME, or a JSON pointer such as /args/0/domain
    #[arg(long, value_name = "KEY")]
    by: Option<String>,
    /// Jobs to draw at random. A queue or set with at most four times as many jobs is read completely
    #[arg(long, value_name = "JOBS", default_value_t = SAMPLE_JOBS as u64, value_parser = value_parser!(u64).range(1..=SAMPLE_JOBS_MAX as u64))]
    sample: u64,
    /// Read all jobs instead
    #[arg(long)]
    full: bool,
    /// With --full: stop after this time and show what was read
    #[arg(long, requires = "full")]
    seconds: Option<u32>,
    /// Values to show in each group
    #[arg(long, default_value_t = XRAY_TOP as u64, value_parser = value_parser!(u64).range(1..=XRAY_TOP_MAX as u64))]
    top: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &JobsXrayArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let place = query::place_name(&arguments.place);
    let xray: XrayView = client.get(&path(arguments, &place)).await?;
    if xray.total == 0 {
        query::reject_unknown(&mut client, &place).await?;
    }
    if let Some(missing) = &xray.missing {
        output::note(&format!("not complete: {missing}"));
    }
    if arguments.json {
        output::json(&xray)?;
    } else {
        print(&xray);
    }
    Ok(Exit::Fine)
}

fn path(arguments: &JobsXrayArgs, place: &str) -> String {
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    parameters.append_pair("place", place);
    if let Some(by) = &arguments.by {
        parameters.append_pair("by", by);
    }
    parameters.append_pair("sample", &arguments.sample.to_string());
    parameters.append_pair("top", &arguments.top.to_string());
    if arguments.full {
        parameters.append_pair("full", "true");
    }
    if let Some(seconds) = arguments.seconds {
        parameters.append_pair("seconds", &seconds.to_string());
    }
    format!("/v1/jobs/xray?{}", parameters.finish())
}

fn print(xray: &XrayView) {
    let how = match xray.coverage {
        XrayCoverage::Samples => "drawn at random; RANGE is the 95 % confidence interval",
        XrayCoverage::All => "all",
        XrayCoverage::Part => "the oldest; RANGE is what is certain",
    };
    output::line(&format!(
        "{}: {}, {} read in {} ({how})",
        xray.place,
        output::count(xray.total, "job"),
        xray.read,
        seconds(xray.seconds)
    ));
    for group in xray.groups.iter().filter(|group| is_shown(group)) {
        output::line("");
        let name = match (&*group.by, &xray.by) {
            ("key", Some(by)) => by.to_uppercase(),
            (name, _) => name.to_uppercase(),
        };
        output::table(&[&name, "JOBS", "SHARE", "RANGE"], &rows(group));
    }
}

/// Jobs without an error are no news.
fn is_shown(group: &XrayGroup) -> bool {
    group.by != "error" || !group.rows.is_empty()
}

fn rows(group: &XrayGroup) -> Vec<Vec<String>> {
    let values = group.rows.iter().map(|row| cells(row.value.as_deref().unwrap_or_default(), row));
    let others = match (group.other_values, group.has_more_values) {
        (0, _) => "(others)".to_owned(),
        (1, false) => "(1 other)".to_owned(),
        (count, false) => format!("({count} others)"),
        (count, true) => format!("(more than {count} others)"),
    };
    let other = group.other.iter().map(|row| cells(&others, row));
    let without = group.without_value.iter().map(|row| cells("(none)", row));
    values.chain(other).chain(without).collect()
}

fn cells(value: &str, row: &XrayRow) -> Vec<String> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let range = if row.share_low < row.share_high {
        format!("{} - {}", percent(row.share_low), percent(row.share_high))
    } else {
        "exact".to_owned()
    };
    vec![output::printable(value), row.jobs.to_string(), percent(row.share), range]
}
