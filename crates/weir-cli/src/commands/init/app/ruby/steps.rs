//! The steps from today's processes to Weir's, each with its way back.

use weir_advisor::plan::PlannedSetting;

use super::ruby_app::{RubyApp, RubyKind};
use crate::commands::init::app::addresses::RedisPlace;
use crate::commands::init::app::compose;
use crate::commands::init::app::draft::Step;
use crate::commands::init::app::today::RunBy;
use crate::commands::init::app::unit;
use crate::commands::plan::check::foreign::command::Program;
use crate::commands::plan::planned::Planned;

pub(super) const POSTGRES_FILE: &str = "postgresql-weir.conf";
pub(super) const REDIS_FILE: &str = "redis-weir.sh";
const BEFORE_FILE: &str = "redis-before.txt";

pub(super) fn steps(app: &RubyApp<'_>, planned: &Planned) -> Vec<Step> {
    let mut steps = vec![check(app)];
    match &app.today.compose {
        Some(_) => steps.extend(in_compose(app, planned)),
        None => {
            steps.extend(postgres(app, planned));
            steps.extend(redis(app, &planned.plan.redis));
            steps.extend(processes(app));
        }
    }
    steps
}

/// Returns the steps of an application without a plan.
pub(super) fn without_plan(app: &RubyApp<'_>) -> Vec<Step> {
    let mut steps = vec![check(app)];
    steps.extend(processes(app));
    steps
}

fn settings(app: &RubyApp<'_>) -> String {
    app.options.settings.display().to_string()
}

/// Returns the path of a file beside weir.toml.
fn beside(app: &RubyApp<'_>, name: &str) -> String {
    app.options.settings.with_file_name("").join(name).display().to_string()
}

fn check(app: &RubyApp<'_>) -> Step {
    Step::new("Check the settings", &[&format!("weir check --config {}", settings(app))], &[])
}

fn postgres(app: &RubyApp<'_>, planned: &Planned) -> Option<Step> {
    let plan = &planned.plan;
    if plan.postgres.is_empty() {
        return None;
    }
    let needed = plan.layout.connections().saturating_add(u64::from(plan.layout.reserve));
    Some(Step::new(
        "Give Postgres the settings of the plan",
        &[
            "# psql -Atc 'SHOW config_file' names postgresql.conf. Copy this file beside it:",
            &format!("#   {}", beside(app, POSTGRES_FILE)),
            "# and add as its last line:  include 'postgresql-weir.conf'",
            &format!(
                "# Then restart Postgres. Without it, max_connections must be at least {needed}."
            ),
        ],
        &["# remove that line, and restart Postgres"],
    ))
}

/// Returns the options with which `redis-cli` connects.
fn redis_options(place: &RedisPlace) -> String {
    let (scheme, rest) = place.url.split_once("://").unwrap_or(("redis", "127.0.0.1:6379"));
    if scheme == "unix" {
        return format!("-s {rest}");
    }
    let address = rest.split('/').next().unwrap_or(rest);
    let (host, port) = address.split_once(':').unwrap_or((address, "6379"));
    let tls = if scheme == "rediss" { " --tls" } else { "" };
    format!("-h {host} -p {port}{tls}")
}

fn redis(app: &RubyApp<'_>, settings: &[PlannedSetting]) -> Option<Step> {
    let place = app.redis.as_ref().ok().filter(|_| !settings.is_empty())?;
    let options = redis_options(place);
    let cli = format!("redis-cli {options}");
    let names: Vec<&str> = settings.iter().map(|it| it.name).collect();
    let (before, script) = (beside(app, BEFORE_FILE), beside(app, REDIS_FILE));
    let password = "# REDISCLI_AUTH must have the password of Redis";
    let mut lines = vec![
        format!("for name in {}; do {cli} CONFIG GET $name; done > {before}", names.join(" ")),
        format!("sh {script} {options}"),
    ];
    let mut back = vec![
        format!(
            "while read -r name && read -r value; do {cli} CONFIG SET \"$name\" \"$value\"; done < {before}"
        ),
        format!("{cli} CONFIG REWRITE"),
    ];
    if place.has_password {
        lines.insert(0, password.to_owned());
        back.insert(0, password.to_owned());
    }
    let title = "Give Redis the settings of the plan, while it runs".to_owned();
    Some(Step { title, lines, back })
}

/// Returns the steps that hand over the processes.
fn processes(app: &RubyApp<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let unit = unit::file_name(app.kind.name());
    let service = unit.trim_end_matches(".service");
    if app.today.run_by == RunBy::Systemd {
        steps.push(Step::new(
            "Install the unit of Weir",
            &[
                &format!(
                    "install -m 644 {} {}/",
                    beside(app, &unit::file(app.kind.name())),
                    app.options.units.display()
                ),
                "systemctl daemon-reload",
            ],
            &[&format!("rm {}/{unit}", app.options.units.display()), "systemctl daemon-reload"],
        ));
    }
    let (jobs, others) = unit_names(app);
    steps.push(match app.today.run_by {
        RunBy::Systemd => start_units(app, service, &jobs),
        _ => start_by_hand(app),
    });
    steps.push(nginx(app));
    steps.push(match app.today.run_by {
        RunBy::Systemd if others.is_empty() => return steps,
        RunBy::Systemd => Step::new(
            "End the web processes of before",
            &[&format!("systemctl disable --now {}", others.join(" "))],
            &[&format!("systemctl enable --now {}", others.join(" "))],
        ),
        _ => Step::new(
            "End the web processes of before",
            &["# stop them where you started them"],
            &["# start them as before"],
        ),
    });
    steps
}

/// Returns the units of Sidekiq, and the others of the application.
fn unit_names(app: &RubyApp<'_>) -> (Vec<String>, Vec<String>) {
    let programs = app.today.deployment.iter().flat_map(|it| &it.programs);
    let is_job = |name: &str| {
        programs.clone().any(|(it, program)| it == name && *program == Program::Sidekiq)
    };
    let has_plain = |template: &str| {
        app.today.units.iter().any(|unit| template.strip_suffix('@') == Some(unit.name.as_str()))
    };
    let (mut jobs, mut others) = (Vec::new(), Vec::new());
    for unit in &app.today.units {
        // Instances end with the unit that wants them.
        if has_plain(&unit.name) {
            continue;
        }
        let names = unit.started();
        if is_job(unit.plain_name()) { jobs.extend(names) } else { others.extend(names) }
    }
    (jobs, others)
}

fn start_units(app: &RubyApp<'_>, service: &str, jobs: &[String]) -> Step {
    let settings = settings(app);
    let mut lines = Vec::new();
    let mut back = vec![format!("systemctl disable --now {service}")];
    if !jobs.is_empty() {
        let jobs = jobs.join(" ");
        lines.push(format!("systemctl disable --now {jobs}"));
        back.push(format!("systemctl enable --now {jobs}"));
    }
    lines.push(format!("systemctl enable --now {service}"));
    lines.push(format!("weir workers list --config {settings}"));
    lines.push(format!(
        "curl -sS -o /dev/null -w '%{{http_code}}\\n' http://{}/health",
        app.options.listen
    ));
    if app.kind == RubyKind::Rails {
        lines.pop();
    }
    let title = match jobs.is_empty() {
        true => "Start Weir: it runs the web processes beside those of before",
        false => {
            "Start Weir: it takes over the queues, and runs web processes beside those of before (the old Sidekiq \
             ends first, so that nothing is scheduled twice)"
        }
    };
    Step { title: title.to_owned(), lines, back }
}

fn start_by_hand(app: &RubyApp<'_>) -> Step {
    let settings = settings(app);
    Step::new(
        "Start Weir: it takes over the queues, and runs web processes beside those of before",
        &[
            "# first stop the Sidekiq that runs today; with two, scheduled jobs may be enqueued twice",
            &format!("weir up --config {settings}"),
            &format!("weir workers list --config {settings}"),
        ],
        &["# stop `weir up` (Ctrl-C), then start Sidekiq as before"],
    )
}

/// Returns the lines of nginx to change.
fn nginx(app: &RubyApp<'_>) -> Step {
    let listen = app.options.listen;
    let mut ports = vec!["127.0.0.1:3000"];
    if app.kind == RubyKind::Mastodon {
        ports.push("127.0.0.1:4000");
    }
    let change = |from: &str, to: &str| {
        format!("#   server {from} fail_timeout=0;  ->  server {to} fail_timeout=0;")
    };
    let title = "Let nginx pass requests to Weir".to_owned();
    let reload = || "nginx -t && systemctl reload nginx".to_owned();
    let mut lines =
        vec!["# in its upstream blocks (with the addresses that yours has):".to_owned()];
    let mut back = lines.clone();
    lines.extend(ports.iter().map(|port| change(port, &listen.to_string())));
    back.extend(ports.iter().map(|port| change(&listen.to_string(), port)));
    lines.push(reload());
    back.push(reload());
    Step { title, lines, back }
}

fn in_compose(app: &RubyApp<'_>, planned: &Planned) -> Vec<Step> {
    let Some(compose_app) = &app.today.compose else { return Vec::new() };
    let folder = app.folder.shown();
    let before = compose_app.command();
    let with = format!("{before} -f {}", compose::FILE);
    let redis =
        compose_app.with_image(&["redis", "valkey"]).filter(|_| !planned.plan.redis.is_empty());
    let mut steps = Vec::new();
    if let Some(name) = redis {
        steps.push(Step::new(
            "Give the running Redis the settings of the plan, before its command has them (with appendonly in the \
             command but no such file, it would start empty)",
            &[&format!("cd {folder}"), &format!("{before} exec -T {name} sh -s < {}", beside(app, REDIS_FILE))],
            &[],
        ));
    }
    let mut back = vec![format!("cd {folder}")];
    // Without its append-only file, Redis starts with the last snapshot.
    back.extend(redis.map(|name| format!("{before} exec -T {name} redis-cli SAVE")));
    back.push(format!("{before} up -d --remove-orphans"));
    steps.push(Step {
        title: "Start the services with the values of the plan (Postgres and Redis restart)"
            .to_owned(),
        lines: vec![
            format!("cd {folder}"),
            format!("{with} config --quiet"),
            format!("{with} up -d --remove-orphans"),
            "# from now on, each command of docker compose for this application needs these -f"
                .to_owned(),
        ],
        back,
    });
    let unit = unit::file_name(app.kind.name());
    let service = unit.trim_end_matches(".service");
    let units = app.options.units.display();
    steps.push(Step::new(
        "Start Weir as the front of the containers",
        &[
            &format!("install -m 644 {} {units}/", beside(app, &unit::file(app.kind.name()))),
            "systemctl daemon-reload",
            &format!("systemctl enable --now {service}"),
        ],
        &[
            &format!("systemctl disable --now {service}"),
            &format!("rm {units}/{unit}"),
            "systemctl daemon-reload",
        ],
    ));
    steps.push(nginx(app));
    steps
}
