//! Services of docker compose.

pub(in crate::commands) mod project;

use std::path::Path;

use self::project::{Project, Service};
use super::environment::{Environment, FileSyntax};
use super::files::Folder;
use super::idle::is_other_image;
use super::process::StartedProcess;
use super::words::split;
use super::yaml::Yaml;

/// The file from which compose reads variables for its own files.
const DOTENV: &str = ".env";
const PROFILES: &str = "COMPOSE_PROFILES";

/// Returns all services that `docker compose up` starts; adds the others to `not_counted`.
pub(super) fn started(
    folder: &Folder,
    not_counted: &mut Vec<String>,
) -> anyhow::Result<Vec<StartedProcess>> {
    let mut outer = Environment::default();
    if let Some(text) = folder.find(DOTENV) {
        outer.read_lines(&text, FileSyntax::Compose);
    }
    let project = Project::read(&folder.files, &outer)?;
    let mut all = Vec::new();
    for (name, service) in &project.services {
        match inactive_profiles(&outer, &service.yaml) {
            None => all.push(start_service(folder, &outer, name, service)),
            Some(profiles) if !is_other_image(&image(&outer, &service.yaml)) => {
                not_counted.push(format!("{name}: runs only with the profile {profiles}"));
            }
            Some(_) => {}
        }
    }
    all.extend(project.missing.into_iter().map(|file| StartedProcess {
        name: format!("include {file}"),
        unread: Some("this file is missing or cannot be read".to_owned()),
        ..StartedProcess::default()
    }));
    Ok(all)
}

/// Returns the profiles of a service that does not run. None: it runs by default or by an active
/// profile.
fn inactive_profiles(outer: &Environment, service: &Yaml) -> Option<String> {
    let active: Vec<&str> =
        outer.get(PROFILES).unwrap_or_default().split(',').map(str::trim).collect();
    let own: Vec<&str> = service.get("profiles")?.items().iter().filter_map(Yaml::text).collect();
    let is_active = own.iter().any(|it| active.contains(it)) || active.contains(&"*");
    (!own.is_empty() && !is_active).then(|| own.join(" or "))
}

fn image(outer: &Environment, service: &Yaml) -> String {
    service.get("image").and_then(Yaml::text).map(|it| outer.substitute(it)).unwrap_or_default()
}

fn start_service(
    folder: &Folder,
    outer: &Environment,
    name: &str,
    service: &Service,
) -> StartedProcess {
    let Service { yaml, unread } = service;
    let replicas = yaml.get("deploy").and_then(|it| it.get("replicas")?.text());
    let processes = match replicas.or_else(|| yaml.get("scale")?.text()) {
        Some(said) => outer.substitute(said).parse().ok(),
        None => Some(1),
    };
    // The entry point may be the program itself, with the command as its arguments.
    let mut words = command_words(outer, yaml.get("entrypoint"));
    words.extend(self::command_words(outer, yaml.get("command")));
    // A path in the container: only its last component is a folder here, too.
    let directory = yaml.get("working_dir").and_then(Yaml::text).map(|it| outer.substitute(it));
    let directory = directory.and_then(|it| Some(Path::new(&it).file_name()?.to_str()?.to_owned()));
    StartedProcess {
        name: name.to_owned(),
        processes,
        words,
        environment: environment(folder, outer, yaml),
        image: image(outer, yaml),
        is_container: true,
        directory,
        unread: unread.clone(),
        is_unit: false,
    }
}

/// Splits a text like a shell, or returns a list of words.
fn command_words(outer: &Environment, command: Option<&Yaml>) -> Vec<String> {
    match command {
        Some(Yaml::Scalar(line)) => split(&substitute_outer(outer, line)).unwrap_or_default(),
        Some(Yaml::List(words)) => {
            let texts = words.iter().filter_map(Yaml::text);
            texts.map(|word| substitute_outer(outer, word)).collect()
        }
        _ => Vec::new(),
    }
}

/// Fills in variables. `$$` is a literal dollar for the container.
fn substitute_outer(outer: &Environment, text: &str) -> String {
    let parts: Vec<String> = text.split("$$").map(|part| outer.substitute(part)).collect();
    parts.join("$")
}

/// Reads `env_file` in order, then `environment`, which takes precedence.
fn environment(folder: &Folder, outer: &Environment, service: &Yaml) -> Environment {
    let mut environment = Environment::default();
    for file in service.get("env_file").map(Yaml::items).unwrap_or_default() {
        // "FILE", or `path: FILE`.
        let Some(path) = file.text().or_else(|| file.get("path")?.text()) else { continue };
        let is_optional = file.get("required").and_then(Yaml::text) == Some("false");
        let path = outer.substitute(path);
        if !is_optional || folder.find(&path).is_some() {
            environment.read(folder, &path, FileSyntax::Compose);
        }
    }
    for (name, value) in service.get("environment").map(Yaml::pairs).unwrap_or_default() {
        if let Some(value) = value.text() {
            environment.set(name, &substitute_outer(outer, value));
        }
    }
    environment
}
