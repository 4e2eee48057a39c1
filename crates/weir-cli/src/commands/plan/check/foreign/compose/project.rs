//! The services of compose files with their overrides, `include` and `extends`.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::super::super::text::read_text;
use super::super::environment::Environment;
use super::super::yaml::Yaml;

/// Limit of nested includes and extends.
const DEPTH_MAX: usize = 8;
const SERVICES: &str = "services";

/// A service, merged from all files.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Service {
    pub(in crate::commands) yaml: Yaml,
    /// Why a part of it is not known.
    pub(in crate::commands) unread: Option<String>,
}

#[derive(Debug, Default)]
pub(in crate::commands) struct Project {
    pub(in crate::commands) services: Vec<(String, Service)>,
    /// Files that are included and not here.
    pub(in crate::commands) missing: Vec<String>,
}

impl Project {
    /// # Errors
    /// One of `files` is not valid YAML.
    pub(in crate::commands) fn read(
        files: &[PathBuf],
        outer: &Environment,
    ) -> anyhow::Result<Self> {
        let mut project = Self::default();
        for file in files {
            let Some(yaml) = Yaml::parse(&read_text(file)?) else {
                bail!("{} is not valid YAML", file.display());
            };
            project.add(file, &yaml, outer, 0);
        }
        Ok(project)
    }

    fn add(&mut self, file: &Path, yaml: &Yaml, outer: &Environment, depth: usize) {
        for name in included_files(yaml) {
            let path = sibling_path(file, &outer.substitute(&name));
            let text = read_text(&path).ok().filter(|_| depth < DEPTH_MAX);
            match text.and_then(|text| Yaml::parse(&text)) {
                Some(yaml) => self.add(&path, &yaml, outer, depth + 1),
                None => self.missing.push(name),
            }
        }
        for (name, service) in yaml.get(SERVICES).map(Yaml::pairs).unwrap_or_default() {
            let service = resolve_extends(file, yaml, service, 0);
            match self.services.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => {
                    known.yaml = merge(&known.yaml, &service.yaml);
                    known.unread = known.unread.take().or(service.unread);
                }
                None => self.services.push((name.clone(), service)),
            }
        }
    }
}

/// Returns the files of `include: [a.yml, {path: b.yml}, {path: [c.yml, d.yml]}]`.
fn included_files(yaml: &Yaml) -> Vec<String> {
    let texts = |it: &Yaml| {
        let one = it.text().map(str::to_owned);
        one.into_iter()
            .chain(it.items().iter().filter_map(Yaml::text).map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let entries = yaml.get("include").map(Yaml::items).unwrap_or_default();
    entries.iter().flat_map(|entry| texts(entry.get("path").unwrap_or(entry))).collect()
}

fn sibling_path(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}

/// Returns a service with what it extends: `extends: base`, or `extends: {service: base, file:
/// other.yml}`.
fn resolve_extends(file: &Path, yaml: &Yaml, service: &Yaml, depth: usize) -> Service {
    let own = normalize(service);
    let Some(extends) = service.get("extends") else {
        return Service { yaml: own, unread: None };
    };
    let name = extends.text().or_else(|| extends.get("service")?.text()).unwrap_or_default();
    let from = extends.get("file").and_then(Yaml::text);
    let path = from.map_or_else(|| file.to_owned(), |from| sibling_path(file, from));
    let other = from.and_then(|_| Yaml::parse(&read_text(&path).ok()?));
    let other = if from.is_some() { other.as_ref() } else { Some(yaml) };
    match other.and_then(|other| Some((other, other.get(SERVICES)?.get(name)?))) {
        Some((other, base)) if depth < DEPTH_MAX => {
            let base = resolve_extends(&path, other, base, depth + 1);
            Service { yaml: merge(&base.yaml, &own), unread: base.unread }
        }
        _ => {
            let from = from.unwrap_or("this file");
            let reason = format!("it extends {name} of {from}, which is missing or extends itself");
            Service { yaml: own, unread: Some(reason) }
        }
    }
}

/// Converts `environment` to a mapping and `env_file` to a list.
fn normalize(service: &Yaml) -> Yaml {
    let pairs = service.pairs().iter().filter(|(key, _)| key != "extends").map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("environment", Yaml::List(words)) => {
                Yaml::Map(words.iter().filter_map(Yaml::text).map(parse_variable).collect())
            }
            ("env_file", file) if file.items().is_empty() => Yaml::List(vec![file.clone()]),
            (_, value) => value.clone(),
        };
        (key.clone(), value)
    });
    Yaml::Map(pairs.collect())
}

/// A name without a value takes its value from the shell that runs compose.
fn parse_variable(word: &str) -> (String, Yaml) {
    match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), Yaml::Scalar(value.to_owned())),
        None => (word.to_owned(), Yaml::Scalar(format!("${{{word}-}}"))),
    }
}

/// Merges two definitions of a service like compose: mappings by key, environment files in order, and for everything
/// else the later.
fn merge(base: &Yaml, own: &Yaml) -> Yaml {
    let mut pairs = base.pairs().to_vec();
    for (key, value) in own.pairs() {
        match pairs.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) if key == "env_file" => {
                *known = Yaml::List([known.items(), value.items()].concat());
            }
            Some((_, known)) => {
                let before = std::mem::replace(known, Yaml::List(Vec::new()));
                *known = before.merged(value.clone());
            }
            None => pairs.push((key.clone(), value.clone())),
        }
    }
    Yaml::Map(pairs)
}
