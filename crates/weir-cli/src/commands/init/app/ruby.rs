//! Mastodon, and other Rails applications with Sidekiq.

mod commands;
mod layout;
mod ruby_app;
mod settings_of_plan;
mod steps;
mod without_sidekiq;

use weir_advisor::plan::{Plan, redis_container_script, redis_script};

use self::ruby_app::RubyApp;
pub(super) use self::ruby_app::RubyKind;
use super::compose;
use super::draft::Draft;
use super::findings::Findings;
use super::folder::AppFolder;
use super::options::AppOptions;
use super::unit;
use crate::commands::plan::check::foreign::command::Program;
use crate::commands::plan::files::{check_names, postgres_conf};
use crate::commands::plan::planned::{Planned, Present, planned};

/// Web processes that are taken from files; more would be a mistake.
const WEB_PROCESSES_MAX: u32 = 200;

/// Reads the folder and computes the files.
pub(super) fn draft(
    kind: RubyKind,
    folder: &AppFolder,
    options: &AppOptions,
) -> anyhow::Result<Draft> {
    let mut findings = Findings::default();
    let app = RubyApp::read(kind, folder, options, &mut findings)?;
    if !app.has_sidekiq {
        return without_sidekiq::draft(&app, findings);
    }
    let planned = plan(&app, &mut findings)?;
    let mut draft = Draft {
        title: app.title(),
        settings: app.settings(&planned, &mut findings),
        files: Vec::new(),
        findings,
        tables: layout::tables(&app.today, &planned),
        steps: steps::steps(&app, &planned),
    };
    add_files(&app, &mut draft, &planned.plan)?;
    Ok(draft)
}

fn plan(app: &RubyApp<'_>, findings: &mut Findings) -> anyhow::Result<Planned> {
    let mut queues = app.queues.clone();
    if queues.is_empty() {
        queues.push("default".to_owned());
        findings.assumed.push("the queue default, because none was found".to_owned());
    }
    let web = || app.today.services(Program::Puma);
    let present = Present {
        jobs: app.today.jobs(&queues),
        has_streaming: app.kind == RubyKind::Mastodon,
        web_processes: web()
            .map(|it| it.processes)
            .fold(0, u32::saturating_add)
            .min(WEB_PROCESSES_MAX),
    };
    let options = layout::options(app, &queues);
    let planned = planned(&[options, app.options.plan.clone()].concat(), present)?;
    check_names(&planned.input)?;
    if !planned.assumed.is_empty() {
        let assumed = planned.assumed.join(" ");
        findings.assumed.push(format!("{assumed} (give better values after --)"));
    }
    for left_out in &planned.left_out {
        findings.not_managed.push(format!("queue {}: {}", left_out.name, left_out.why));
    }
    Ok(planned)
}

fn add_files(app: &RubyApp<'_>, draft: &mut Draft, plan: &Plan) -> anyhow::Result<()> {
    match &app.today.compose {
        Some(compose_app) => {
            let programs = app.today.deployment.iter().flat_map(|it| it.programs.clone());
            let programs: Vec<_> = programs.collect();
            let text = compose::text(compose_app, plan, &programs, &mut draft.findings)?;
            draft.add(compose::FILE, text);
            if !plan.redis.is_empty() {
                draft.add(steps::REDIS_FILE, redis_container_script(&plan.redis));
            }
        }
        None => {
            if !plan.postgres.is_empty() {
                draft.add(steps::POSTGRES_FILE, postgres_conf(&plan.postgres));
            }
            if !plan.redis.is_empty() {
                draft.add(steps::REDIS_FILE, redis_script(&plan.redis));
            }
        }
    }
    let text =
        unit::text(app.kind.name(), app.kind.title(), app.folder, app.options, &app.today.units);
    draft.add(&unit::file(app.kind.name()), text);
    Ok(())
}
