//! Services of docker compose.

use super::super::read_text;
use super::command::split;
use super::environment::Environment;
use super::files::Folder;
use super::process::Started;
use super::yaml::Yaml;
use anyhow::bail;

/// What compose itself reads variables of its files from.
const DOTENV: &str = ".env";

/// All services, and what is assumed of them.
pub(super) fn started(folder: &Folder) -> anyhow::Result<(Vec<Started>, Vec<String>)> {
    let mut whole: Option<Yaml> = None;
    for file in &folder.files {
        let Some(yaml) = Yaml::parse(&read_text(file)?) else {
            bail!("{} is no YAML that can be read", file.display());
        };
        whole = Some(match whole {
            Some(before) => before.merged(yaml),
            None => yaml,
        });
    }
    let mut outer = Environment::default();
    if let Some(text) = folder.find(DOTENV) {
        outer.read_lines(&text);
    }
    let services = whole.as_ref().and_then(|it| it.get("services"));
    let services = services.map(Yaml::pairs).unwrap_or_default();
    let of = |(name, service): &(String, Yaml)| one(folder, &outer, name, service);
    Ok((services.iter().map(of).collect(), Vec::new()))
}

fn one(folder: &Folder, outer: &Environment, name: &str, service: &Yaml) -> Started {
    let text = |key: &str| Some(outer.fill_in(service.get(key)?.text()?));
    let replicas = service.get("deploy").and_then(|it| it.get("replicas")?.text());
    let processes = replicas.or_else(|| service.get("scale")?.text());
    let words = words(outer, service.get("command"));
    let words =
        if words.is_empty() { self::words(outer, service.get("entrypoint")) } else { words };
    Started {
        name: name.to_owned(),
        processes: processes
            .map(|it| outer.fill_in(it))
            .and_then(|it| it.parse().ok())
            .unwrap_or(1),
        words,
        environment: environment(folder, outer, service),
        image: text("image").unwrap_or_default(),
        is_template: false,
        has_ports: service.get("ports").or_else(|| service.get("expose")).is_some(),
    }
}

/// A text as a shell would part it, or a list of words.
fn words(outer: &Environment, command: Option<&Yaml>) -> Vec<String> {
    match command {
        Some(Yaml::Scalar(line)) => split(&outer_filled(outer, line)).unwrap_or_default(),
        Some(Yaml::List(words)) => {
            let texts = words.iter().filter_map(Yaml::text);
            texts.map(|word| outer_filled(outer, word)).collect()
        }
        _ => Vec::new(),
    }
}

/// `$$` is a dollar for the container; one alone is compose's own.
fn outer_filled(outer: &Environment, text: &str) -> String {
    let parts: Vec<String> = text.split("$$").map(|part| outer.fill_in(part)).collect();
    parts.join("$")
}

/// `env_file` in its order, then `environment`, which wins.
fn environment(folder: &Folder, outer: &Environment, service: &Yaml) -> Environment {
    let mut environment = Environment::default();
    let files: Vec<&Yaml> = match service.get("env_file") {
        Some(Yaml::List(files)) => files.iter().collect(),
        Some(file) => vec![file],
        None => Vec::new(),
    };
    for file in files {
        // "FILE", or `path: FILE`.
        let path = file.text().or_else(|| file.get("path")?.text());
        if let Some(path) = path {
            environment.read(folder, &outer.fill_in(path));
        }
    }
    let said = service.get("environment");
    for (name, value) in said.map(Yaml::pairs).unwrap_or_default() {
        if let Some(value) = value.text() {
            environment.set(name, &outer_filled(outer, value));
        }
    }
    for word in said.map(Yaml::items).unwrap_or_default().iter().filter_map(Yaml::text) {
        match word.contains('=') {
            true => environment.set_word(&outer_filled(outer, word)),
            // A name alone is that of the shell in which compose runs.
            false => {
                if let Some(value) = outer.get(word) {
                    environment.set(word, value);
                }
            }
        }
    }
    environment
}
