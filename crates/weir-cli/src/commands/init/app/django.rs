//! Django with gunicorn or uvicorn, and Celery.

use std::fs;

use anyhow::bail;

use super::draft::{Draft, Step};
use super::findings::Findings;
use super::folder::AppFolder;
use super::options::AppOptions;
use super::quote::{is_name, is_plain};
use super::settings::{FrontApp, JobGroup, SettingsText, fixed};
use super::unit;

/// Files that list what the project depends on.
const DEPENDENCIES: [&str; 6] = [
    "requirements.txt",
    "requirements/production.txt",
    "requirements/base.txt",
    "pyproject.toml",
    "Pipfile",
    "setup.cfg",
];
const FOLDERS_MAX: usize = 1_000;
const WORKERS: u32 = 4;
/// More than the database serves at once: the server is not the bottleneck.
const ASYNC_CONCURRENCY: u32 = 100;
const CELERY_CONCURRENCY: u32 = 4;

/// The modules of the project.
struct Project {
    /// "shop": of `shop/wsgi.py` or `shop/asgi.py`.
    name: String,
    has_asgi: bool,
    has_celery: bool,
}

pub(super) fn draft(folder: &AppFolder, options: &AppOptions) -> anyhow::Result<Draft> {
    if !folder.has("manage.py") {
        bail!(
            "{} has no manage.py; name the folder of the Django project: weir init django FOLDER",
            folder.shown()
        );
    }
    let mut findings = Findings::default();
    findings.read.push("manage.py".to_owned());
    let dependencies = dependencies(folder, &mut findings);
    let has = |name: &str| dependencies.iter().any(|it| it == name);
    let Some(project) = project(folder) else {
        bail!(
            "no folder in {} has a wsgi.py or asgi.py; name the folder of the Django project",
            folder.shown()
        );
    };
    let bin = folder.first(&[".venv/bin/python", "venv/bin/python"]);
    let bin = bin.map(|python| folder.path.join(python).with_file_name("").display().to_string());
    if bin.is_none() {
        findings
            .assumed
            .push("programs are found in PATH, because there is no .venv or venv".to_owned());
    }
    let program = |name: &str| format!("{}{name}", bin.clone().unwrap_or_default());
    let mut settings = SettingsText {
        head: vec![
            "Django. Written by `weir init django`; weir-steps.txt has the steps and the way back."
                .to_owned(),
        ],
        folder: folder.shown(),
        listen: options.listen.to_string(),
        apps: vec![web(&project, &has, &program, &mut findings)],
        ..SettingsText::default()
    };
    if has("celery") {
        settings.groups.push(celery(&project, &program, &mut findings));
    }
    for name in ["django-rq", "django-q2", "dramatiq", "huey"].into_iter().filter(|name| has(name))
    {
        findings
            .not_managed
            .push(format!("jobs of {name}: add a [workers.jobs] with the command that runs them"));
    }
    findings
        .not_managed
        .push("static files and uploads: the proxy in front serves them as before".to_owned());
    let mut draft = Draft {
        title: format!("Django project {} in {}", project.name, folder.shown()),
        settings: settings.text(),
        files: Vec::new(),
        findings,
        tables: String::new(),
        steps: steps(options, !settings.groups.is_empty()),
    };
    draft.add(&unit::file("django"), unit::text("django", "Django", folder, options, &[]));
    Ok(draft)
}

fn web(
    project: &Project,
    has: &impl Fn(&str) -> bool,
    program: &impl Fn(&str) -> String,
    findings: &mut Findings,
) -> FrontApp {
    let Project { name, has_asgi, .. } = project;
    let is_async = has("uvicorn") && *has_asgi && !has("gunicorn");
    if !has("uvicorn") && !has("gunicorn") {
        findings.assumed.push("gunicorn is installed; no file names a server".to_owned());
    }
    findings
        .assumed
        .push(format!("{WORKERS} processes: set `workers` to what the machine can run"));
    let words: Vec<String> = if is_async {
        vec![
            program("uvicorn"),
            "--uds".to_owned(),
            "{socket}".to_owned(),
            format!("{name}.asgi:application"),
        ]
    } else {
        let words = ["--workers", "1", "--bind", "unix:{socket}"].map(str::to_owned);
        let mut all = vec![program("gunicorn")];
        all.extend(words);
        all.push(format!("{name}.wsgi:application"));
        all
    };
    FrontApp {
        name: "web",
        command: words,
        environment: vec![fixed("PYTHONUNBUFFERED", 1)],
        workers: WORKERS,
        concurrency: if is_async { ASYNC_CONCURRENCY } else { 1 },
        is_blocked_by_streams: !is_async,
        ..FrontApp::default()
    }
}

fn celery(
    project: &Project,
    program: &impl Fn(&str) -> String,
    findings: &mut Findings,
) -> JobGroup {
    if !project.has_celery {
        findings
            .assumed
            .push(format!("Celery's app is {0}, though there is no {0}/celery.py", project.name));
    }
    findings.not_managed.push(
        "celery beat: exactly one may run. Leave its unit as it is, or add [workers.beat] with processes = 1".to_owned(),
    );
    findings.not_managed.push(
        "Celery's queues: Weir runs the processes and does not observe the broker".to_owned(),
    );
    let words =
        ["-A", &project.name, "worker", "--concurrency", "{concurrency}"].map(str::to_owned);
    let mut command = vec![program("celery")];
    command.extend(words);
    JobGroup {
        name: "celery".to_owned(),
        command,
        environment: vec![fixed("PYTHONUNBUFFERED", 1)],
        processes: 1,
        concurrency: Some(CELERY_CONCURRENCY),
        // Celery's warm shutdown waits for its tasks.
        stop_deadline_seconds: 60,
        comment: Some("Without -Q it serves all queues that the project configures.".to_owned()),
        ..JobGroup::default()
    }
}

/// Returns the folder with wsgi.py or asgi.py.
fn project(folder: &AppFolder) -> Option<Project> {
    let entries = fs::read_dir(&folder.path).into_iter().flatten().filter_map(Result::ok);
    let names = entries.take(FOLDERS_MAX).filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| is_name(name) && !name.contains(['.', '-'])).collect();
    names.sort();
    let is_one = |name: &String| {
        ["wsgi.py", "asgi.py"].iter().any(|file| folder.has(&format!("{name}/{file}")))
    };
    let name = names.into_iter().find(is_one)?;
    let (has_asgi, has_celery) =
        (folder.has(&format!("{name}/asgi.py")), folder.has(&format!("{name}/celery.py")));
    Some(Project { name, has_asgi, has_celery })
}

/// Returns the names of the packages that files name, in lower case.
fn dependencies(folder: &AppFolder, findings: &mut Findings) -> Vec<String> {
    let mut names = Vec::new();
    for file in DEPENDENCIES {
        let Some(text) = folder.read(file, findings) else { continue };
        findings.read.push(file.to_owned());
        let is_end = |letter: char| !(letter.is_ascii_alphanumeric() || "_-.".contains(letter));
        let first = |line: &str| {
            let line = line.trim().trim_start_matches(['"', '\'', '[', ' ']);
            line.split(is_end).next().unwrap_or_default().to_ascii_lowercase().replace('_', "-")
        };
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        // A list on one line has several.
        names.extend(lines.flat_map(|line| line.split(',')).map(|part| {
            first(part.rsplit_once("[\"").or(part.rsplit_once("['")).map_or(part, |(_, rest)| rest))
        }));
    }
    if names.is_empty() {
        findings.not_read.push(format!(
            "dependencies: none of {} is here; assumed: gunicorn, no Celery",
            DEPENDENCIES.join(", ")
        ));
    }
    names.retain(|name| is_plain(name));
    names
}

fn steps(options: &AppOptions, has_jobs: bool) -> Vec<Step> {
    let settings = options.settings.display().to_string();
    let celery = if has_jobs { " the Celery workers (not beat)" } else { " processes of jobs" };
    vec![
        Step::new("Check the settings", &[&format!("weir check --config {settings}")], &[]),
        Step::new(
            "Start Weir beside the servers of before",
            &[
                &format!("# first stop{celery} that run today"),
                &format!("weir up --config {settings}"),
                &format!("weir workers list --config {settings}"),
            ],
            &["# stop `weir up` (Ctrl-C), then start those processes as before"],
        ),
        Step::new(
            "Let the proxy pass requests to Weir",
            &[&format!("# its upstream becomes {}; then reload it", options.listen)],
            &["# the address of before; then reload it"],
        ),
        Step::new(
            "End the servers of before",
            &["# systemctl disable --now, with the name of their unit"],
            &["# systemctl enable --now, with the name of their unit"],
        ),
    ]
}
