//! The application's compose file, and the override that gives its services the plan's values.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::bail;
use serde_json::Value;
use weir_advisor::plan::{Plan, PlannedSetting};

use super::findings::Findings;
use super::folder::AppFolder;
use super::quote::is_name;
use crate::commands::plan::check::foreign::command::Program;
use crate::commands::plan::check::foreign::compose::project::Project;
use crate::commands::plan::check::foreign::environment::{Environment, FileSyntax};
use crate::commands::plan::check::foreign::files::{COMPOSE, OVERRIDES};
use crate::commands::plan::check::foreign::words::split;
use crate::commands::plan::check::foreign::yaml::Yaml;
use crate::commands::plan::files::compose::{ComposeNames, services};

/// The override that is written.
pub(super) const FILE: &str = "docker-compose.weir.yml";
/// Words of a command that may come before a secret.
const SECRETS: [&str; 5] = ["pass", "auth", "secret", "token", "--user"];

/// The services of the application.
pub(super) struct ComposeApp {
    /// The file that docker compose reads, and its override, if there is one.
    pub(super) files: Vec<String>,
    services: Vec<(String, Yaml)>,
}

impl ComposeApp {
    /// Reads the compose file of a folder. None: there is none.
    pub(super) fn read(folder: &AppFolder) -> anyhow::Result<Option<Self>> {
        let Some(first) = folder.first(&COMPOSE) else { return Ok(None) };
        let files: Vec<String> = [Some(first), folder.first(&OVERRIDES)]
            .into_iter()
            .flatten()
            .map(str::to_owned)
            .collect();
        let mut outer = Environment::default();
        if let Some(text) = folder.read(".env", &mut Findings::default()) {
            outer.read_lines(&text, FileSyntax::Compose);
        }
        let paths: Vec<PathBuf> = files.iter().map(|file| folder.path.join(file)).collect();
        let services = Project::read(&paths, &outer)?.services;
        if let Some((name, _)) = services.iter().find(|(name, _)| !is_name(name)) {
            bail!(
                "{first} has a service {name:?}; its name may have only letters, digits, _ . and -"
            );
        }
        let services = services.into_iter().map(|(name, service)| (name, service.yaml)).collect();
        Ok(Some(Self { files, services }))
    }

    /// Returns `docker compose -f .. -f ..` with the files of today.
    pub(super) fn command(&self) -> String {
        let files: String = self.files.iter().map(|file| format!(" -f {file}")).collect();
        format!("docker compose{files}")
    }

    /// Returns the first service whose image has one of these words in its name.
    pub(super) fn with_image(&self, words: &[&str]) -> Option<&str> {
        let is_one = |(_, yaml): &&(String, Yaml)| {
            let image = yaml.get("image").and_then(Yaml::text).unwrap_or_default();
            let name = image.rsplit('/').next().unwrap_or_default();
            let name = name.split([':', '@']).next().unwrap_or_default();
            name.split(['-', '_']).any(|part| words.contains(&part))
        };
        self.services.iter().find(is_one).map(|(name, _)| name.as_str())
    }

    fn service(&self, name: &str) -> Option<&Yaml> {
        self.services.iter().find(|(it, _)| it == name).map(|(_, yaml)| yaml)
    }

    /// Returns the images of all services.
    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        self.services.iter().filter_map(|(_, yaml)| yaml.get("image")?.text())
    }

    /// Returns the image of a service.
    pub(super) fn image(&self, name: &str) -> Option<&str> {
        self.service(name)?.get("image")?.text()
    }

    /// Returns the address on this machine where a port of a service is published.
    pub(super) fn published(&self, name: &str, port: u16) -> Option<String> {
        let ports = self.service(name)?.get("ports")?.items();
        ports.iter().filter_map(Yaml::text).find_map(|text| {
            let (outer, inner) = text.rsplit_once(':')?;
            let (host, published) = outer.rsplit_once(':').unwrap_or(("127.0.0.1", outer));
            let host = if host == "0.0.0.0" { "127.0.0.1" } else { host };
            let published: u16 = published.parse().ok()?;
            let is_it = inner.split('/').next() == Some(port.to_string().as_str());
            (is_it && is_name(host)).then(|| format!("{host}:{published}"))
        })
    }

    /// Returns the words of a service's command as they are in the file, without values of variables.
    fn command_of(&self, name: &str) -> Option<Vec<String>> {
        match self.service(name)?.get("command") {
            None => Some(Vec::new()),
            Some(Yaml::Scalar(line)) => split(line),
            Some(list) => {
                Some(list.items().iter().filter_map(Yaml::text).map(str::to_owned).collect())
            }
        }
    }
}

/// Returns the override: the processes by plan, and the settings of Postgres and Redis as their commands.
pub(super) fn text(
    app: &ComposeApp,
    plan: &Plan,
    programs: &[(String, Program)],
    findings: &mut Findings,
) -> anyhow::Result<String> {
    let with = |program: Program| {
        let of = programs.iter().filter(move |(_, it)| *it == program);
        of.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let (web, streaming) = (with(Program::Puma), with(Program::Streaming));
    let sidekiq = with(Program::Sidekiq);
    let [first_sidekiq, other_sidekiqs @ ..] = sidekiq.as_slice() else {
        bail!(
            "no service of {} starts Sidekiq; a service without `command` is unknown, because its image \
             determines what it starts: add its command",
            app.files.join(", ")
        );
    };
    let Some(file) = app.files.first() else { bail!("there is no compose file") };
    let names = ComposeNames {
        file,
        web: web.first().copied(),
        streaming: streaming.first().copied(),
        sidekiq: first_sidekiq,
    };
    let mut text = format!(
        "# Written by `weir init`. Use it beside {file}: {} -f {FILE} up -d --remove-orphans\n\
         # The way back is in weir-steps.txt. Values here override env_file.\nservices:\n",
        app.command()
    );
    if let Some(name) = app.with_image(&["postgres", "postgresql", "postgis", "pgvector"]) {
        let flags = |it: &PlannedSetting| {
            ["-c".to_owned(), format!("{}={}", it.name, it.value)].into_iter().collect()
        };
        add_command(&mut text, app, name, "postgres", (&plan.postgres, flags), findings);
    }
    if let Some(name) = app.with_image(&["redis", "valkey"]) {
        let server = if app.image(name).is_some_and(|it| it.contains("valkey")) {
            "valkey-server"
        } else {
            "redis-server"
        };
        let flags = |it: &PlannedSetting| vec![format!("--{}", it.name), it.value.clone()];
        add_command(&mut text, app, name, server, (&plan.redis, flags), findings);
    }
    text.push_str(&services(plan, &names));
    for other in other_sidekiqs {
        let _ = write!(text, "  {other}:\n    deploy:\n      replicas: 0\n");
    }
    Ok(text)
}

/// Adds the command of a database server: what it has now, less the options that the plan sets, and those.
fn add_command(
    text: &mut String,
    app: &ComposeApp,
    name: &str,
    server: &str,
    (settings, flags): (&[PlannedSetting], impl Fn(&PlannedSetting) -> Vec<String>),
    findings: &mut Findings,
) {
    if settings.is_empty() {
        return;
    }
    let options: Vec<String> = settings.iter().flat_map(flags).collect();
    let has_entrypoint = app.service(name).is_some_and(|it| it.get("entrypoint").is_some());
    let today = app.command_of(name).filter(|_| !has_entrypoint);
    let today = today.filter(|words| words.is_empty() || words[0].ends_with(server));
    let Some(today) = today.filter(|words| !holds_secret(words)) else {
        findings.not_managed.push(format!(
            "service {name}: its command is not replaced, because it has a password, an entry point or another \
             program. Add these options to it yourself: {}",
            options.join(" ")
        ));
        return;
    };
    let mut words = without(&today, settings);
    if words.is_empty() {
        words.push(server.to_owned());
    }
    words.extend(options);
    let words = Value::from(words);
    let _ = write!(text, "  {name}:\n    command: {words}\n");
}

/// Returns whether a word may be, or may come before, a secret that stands in the file itself.
fn holds_secret(words: &[String]) -> bool {
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    (0..lower.len()).any(|at| {
        let is_named = SECRETS.iter().any(|secret| lower[at].contains(secret));
        let value = lower.get(at + 1).map_or("", String::as_str);
        is_named && !lower[at].contains('$') && !value.starts_with('$')
    })
}

/// Returns the words without the options that `settings` set: `-c name=value`, `--name value`, `--name=value`.
fn without(words: &[String], settings: &[PlannedSetting]) -> Vec<String> {
    let is_planned = |text: &str| {
        let name = text.trim_start_matches("--").trim_start_matches("-c");
        let name = name.split('=').next().unwrap_or_default();
        settings.iter().any(|setting| setting.name == name)
    };
    let mut kept = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let next_is_planned = rest.peek().is_some_and(|next| is_planned(next));
        if word == "-c" && next_is_planned {
            rest.next();
        } else if word.starts_with('-') && is_planned(word) {
            // The value of `--name value`.
            if !word.contains('=') {
                rest.next();
            }
        } else {
            kept.push(word.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_plan_replace_earlier_ones() {
        let words = |line: &str| split(line).expect("words");
        let setting =
            |name| PlannedSetting { name, value: "1".to_owned(), reason: "", restart: false };
        let settings = [setting("max_connections"), setting("appendonly")];
        for (line, expected) in [
            (
                "postgres -c max_connections=50 -c shared_buffers=1GB",
                "postgres -c shared_buffers=1GB",
            ),
            ("postgres -cmax_connections=50", "postgres"),
            ("postgres --max_connections=50 -c a=b", "postgres -c a=b"),
            ("redis-server --appendonly no --save 60 1", "redis-server --save 60 1"),
            ("redis-server /etc/redis.conf --appendonly", "redis-server /etc/redis.conf"),
        ] {
            assert_eq!(without(&words(line), &settings), words(expected), "{line}");
        }
        for (line, holds) in [
            ("redis-server --requirepass hunter2", true),
            ("redis-server --requirepass ${REDIS_PASSWORD}", false),
            ("redis-server --masterauth $X --requirepass y", true),
            ("redis-server --save 60 1", false),
        ] {
            assert_eq!(holds_secret(&words(line)), holds, "{line}");
        }
    }
}
