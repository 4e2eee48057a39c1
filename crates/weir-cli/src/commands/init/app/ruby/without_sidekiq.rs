//! Rails without Sidekiq: the web processes of today, and job servers that need no queues. There is nothing to plan.

use anyhow::bail;
use weir_advisor::plan::ServiceLayout;

use super::layout::web_threads;
use super::ruby_app::RubyApp;
use super::steps;
use crate::commands::init::app::draft::Draft;
use crate::commands::init::app::findings::Findings;
use crate::commands::init::app::settings::{JobGroup, SettingsText, fixed};
use crate::commands::init::app::today::RunBy;
use crate::commands::init::app::unit;
use crate::commands::plan::check::foreign::command::Program;

/// With one process, a deploy or a crash would interrupt the service.
const WEB_PROCESSES_MIN: u32 = 2;
/// Job servers other than Sidekiq, with the command that runs them.
const OTHER_JOBS: [(&str, &[&str]); 2] =
    [("solid_queue", &["bin/jobs"]), ("good_job", &["bundle", "exec", "good_job", "start"])];
/// Job servers that have no command of their own, or several.
const UNKNOWN_JOBS: [&str; 4] = ["delayed_job", "resque", "que", "sneakers"];

/// Returns the files for an application without Sidekiq, for which there is no plan.
pub(super) fn draft(app: &RubyApp<'_>, mut findings: Findings) -> anyhow::Result<Draft> {
    if app.today.run_by == RunBy::Compose {
        bail!(
            "no service of {} starts Sidekiq, so there is nothing to plan; `weir init front` writes settings for a \
             web app",
            app.folder.shown()
        );
    }
    let today = app.today.services(Program::Puma);
    let processes = today.filter(|it| it.gaps.is_empty()).map(|it| it.processes).sum::<u32>();
    let threads = web_threads(&app.today);
    let service = ServiceLayout {
        name: "web".to_owned(),
        processes: processes.max(WEB_PROCESSES_MIN),
        threads,
        pool: threads,
        ..ServiceLayout::default()
    };
    findings.not_managed.push(
        "no plan was made: there is no Sidekiq. Numbers of processes and threads are those of today".to_owned(),
    );
    let groups = other_jobs(app, &mut findings);
    let settings = SettingsText {
        head: vec![format!(
            "{}. Written by `weir init rails`; weir-steps.txt has the steps and the way back.",
            app.title()
        )],
        folder: app.folder.shown(),
        listen: app.options.listen.to_string(),
        apps: vec![app.web(&service, &mut findings)],
        groups,
        ..SettingsText::default()
    };
    let mut draft = Draft {
        title: app.title(),
        settings: settings.text(),
        files: Vec::new(),
        findings,
        tables: String::new(),
        steps: steps::without_plan(app),
    };
    let name = app.kind.name();
    let text = unit::text(name, "Rails", app.folder, app.options, &app.today.units);
    draft.add(&unit::file(name), text);
    Ok(draft)
}

/// Returns groups for job servers that need no queues.
fn other_jobs(app: &RubyApp<'_>, findings: &mut Findings) -> Vec<JobGroup> {
    for name in UNKNOWN_JOBS.iter().filter(|name| app.gems.has(name)) {
        findings
            .not_managed
            .push(format!("jobs of {name}: add a [workers.jobs] with the command that runs them"));
    }
    let known = OTHER_JOBS.iter().filter(|(name, _)| app.gems.has(name));
    let group = |(name, command): &(&str, &[&str])| JobGroup {
        name: (*name).to_owned(),
        command: command.iter().map(ToString::to_string).collect(),
        environment: vec![fixed("RAILS_ENV", "production")],
        processes: 1,
        stop_deadline_seconds: 35,
        comment: Some("Its own settings decide on threads and queues.".to_owned()),
        ..JobGroup::default()
    };
    known.map(group).collect()
}
