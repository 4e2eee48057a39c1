//! `weir gems verify`: recomputes everything derived from the releases, and compares.

mod files;

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use weir_base::clock::Clock;
use weir_gems::store::{Repair, Report};

use self::files::FilesReport;
use super::store;
use crate::exit::Exit;
use crate::output::{self, count};
use crate::target::SettingsArguments;

/// Interval of progress updates.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// `weir gems verify`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Repair what is wrong. Pushes to a running Weir wait during the repair
    #[arg(long)]
    fix: bool,
    /// Also read every .gem file and compare it with its checksum
    #[arg(long)]
    files: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let settings = store::settings(&arguments.settings)?;
    let clock = Clock::system();
    let now = clock.now();
    let store = store::open_existing(&settings, &clock).await?;
    let bar = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} computing the index, {elapsed}")?);
    bar.enable_steady_tick(DRAW_INTERVAL);
    let repair = if arguments.fix { Repair::Fix } else { Repair::Leave };
    let report = store.verify(repair, now).await?;
    bar.finish_and_clear();
    let of_files = match arguments.files {
        true => Some(files::check(&settings, &store, report.releases, repair).await?),
        false => None,
    };
    if arguments.json {
        print_json(&report, of_files.as_ref())?;
    } else {
        print(&report);
        of_files.iter().for_each(print_files);
    }
    let is_sound = report.problems_total == 0 || report.is_fixed;
    let are_sound = of_files.is_none_or(|of_files| of_files.left() == 0);
    Ok(match (is_sound && are_sound, repair) {
        (true, _) => Exit::Fine,
        (false, Repair::Leave) => Exit::FoundProblem,
        // The remaining problems cannot be repaired by this command.
        (false, Repair::Fix) => Exit::Failed,
    })
}

fn print_problems(problems: &[String], total: u64) {
    for problem in problems {
        output::line(problem);
    }
    let unlisted = total - problems.len() as u64;
    if unlisted > 0 {
        output::line(&format!("and {} more", count(unlisted, "problem")));
    }
}

fn print_files(report: &FilesReport) {
    print_problems(&report.problems, report.problems_total);
    let files = count(report.files, "file");
    if report.problems_total == 0 {
        output::line(&format!("sound: {files}"));
    }
    print_absent(report);
    if report.fixed > 0 {
        output::line(&format!(
            "fixed: {} of {files}; they came from upstreams and are fetched again on demand",
            report.fixed
        ));
    }
    if report.mirrored > report.fixed {
        output::line(&format!(
            "WRONG: {} of {files}, which came from upstreams; fetch them again with `weir gems verify --files --fix`",
            report.mirrored - report.fixed
        ));
    }
    if report.problems_total > report.mirrored {
        output::line(&format!(
            "WRONG: {} of {files}; copy them back from a backup into gems.files_dir, or yank these releases and push new ones",
            report.problems_total - report.mirrored
        ));
    }
}

/// Prints absent files, which are no error but are not served from here.
fn print_absent(report: &FilesReport) {
    if report.absent == 0 {
        return;
    }
    let unlisted = report.absent - report.absent_names.len() as u64;
    let more = if unlisted == 0 { String::new() } else { format!(" and {unlisted} more") };
    let way = match report.are_sent_elsewhere {
        true => "clients are sent to gems.files_url",
        false => "clients get 404 unless gems.files_url is set to their address",
    };
    output::line(&format!(
        "not here: {} of imported releases ({}{more}); {way}",
        count(report.absent, "file"),
        report.absent_names.join(", ")
    ));
}

fn print(report: &Report) {
    print_problems(&report.problems, report.problems_total);
    let whole = format!("{}, {}", count(report.gems, "gem"), count(report.releases, "release"));
    let problems = count(report.problems_total, "problem");
    let empty = match report.names_without_releases {
        0 => String::new(),
        names => format!("; {} without a release that is not yanked", count(names, "more name")),
    };
    output::line(&match (report.problems_total, report.is_fixed) {
        (0, _) => format!("sound: {whole}{empty}"),
        (_, true) => {
            format!(
                "fixed: {problems} in {whole}; /versions was rewritten, so every client fetches it in full once"
            )
        }
        (_, false) => {
            format!("WRONG: {problems} in {whole}; repair it with `weir gems verify --fix`")
        }
    });
}

fn print_json(report: &Report, of_files: Option<&FilesReport>) -> anyhow::Result<()> {
    let files = of_files.map(|of_files| {
        json!({
            "files": of_files.files,
            "problems": of_files.problems,
            "problems_total": of_files.problems_total,
            "mirrored": of_files.mirrored,
            "fixed": of_files.fixed,
            "absent": of_files.absent,
        })
    });
    output::json(&json!({
        "gems": report.gems,
        "names_without_releases": report.names_without_releases,
        "releases": report.releases,
        "problems": report.problems,
        "problems_total": report.problems_total,
        "is_fixed": report.is_fixed,
        "files": files,
    }))
}
