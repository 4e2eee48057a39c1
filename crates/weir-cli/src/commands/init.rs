//! `weir init`: a settings file to start from.

mod app;
mod front;
mod server;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use self::app::{AppKind, AppOptions, Outcome, RunBy};
use self::server::AppServer;
use crate::exit::{Exit, WrongUsage};
use crate::output;
use weir_config::reference;

const OBSERVE: &str = include_str!("init/observe.toml");
const PRODUCTION: &str = include_str!("init/production.toml");

/// `weir init`.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// Template of the file
    #[arg(default_value = "default")]
    pub(crate) template: Template,
    /// The application's folder, for mastodon, rails, django and node [default: .]
    folder: Option<PathBuf>,
    /// The app server for the template `front`; it determines the command and how many requests a
    /// process serves at once
    #[arg(long, value_name = "SERVER", default_value = "gunicorn")]
    pub(crate) server: AppServer,
    /// File to write; `-` for standard output [default: weir.toml, for an application in its folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    app: AppArguments,
}

/// Options for an application.
#[derive(Debug, Args)]
#[command(next_help_heading = "Applications")]
struct AppArguments {
    /// What runs the application's processes today [default: what the files show]
    #[arg(long)]
    from: Option<RunBy>,
    /// The folder of systemd's units
    #[arg(long, value_name = "DIR", default_value = "/etc/systemd/system")]
    units: PathBuf,
    /// Where the front accepts requests from nginx
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Write nothing: list the queues of the application that no process of weir.toml serves; for
    /// mastodon and rails, after each upgrade of the application
    #[arg(long)]
    check: bool,
    /// Options of `weir plan` for mastodon and rails, such as --redis, --web-requests, --max-connections
    #[arg(last = true, value_name = "PLAN OPTIONS")]
    plan: Vec<String>,
}

/// A settings file to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Every setting, commented out, with its default
    Default,
    /// A web app whose processes Weir runs
    Front,
    /// Monitoring of an existing Sidekiq
    Observe,
    /// A server that is reachable from other machines
    Production,
    /// Mastodon in a folder: web, streaming and Sidekiq
    Mastodon,
    /// A Rails application in a folder: Puma and Sidekiq
    Rails,
    /// A Django project in a folder: gunicorn or uvicorn, and Celery
    Django,
    /// A Node application in a folder
    Node,
}

pub(crate) fn run(arguments: &InitArguments) -> anyhow::Result<Exit> {
    let (folder, server) = (arguments.folder.as_deref(), arguments.server);
    match arguments.template.content(server) {
        Content::App(kind) => for_app(kind, folder.unwrap_or(Path::new(".")), arguments),
        Content::Text(_) if folder.is_some() => bail!(WrongUsage::new(
            "a folder needs a template for an application: mastodon, rails, django or node"
        )),
        Content::Text(_) if arguments.app.check || !arguments.app.plan.is_empty() => {
            bail!(WrongUsage::new("--check and options after -- need mastodon or rails"))
        }
        Content::Text(text) => write_text(&text, arguments),
    }
}

fn for_app(kind: AppKind, folder: &Path, arguments: &InitArguments) -> anyhow::Result<Exit> {
    let AppArguments { from, units, listen, check, plan } = &arguments.app;
    let options = AppOptions {
        settings: PathBuf::new(),
        listen: *listen,
        units: units.clone(),
        from: *from,
        plan: plan.clone(),
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/weir")),
    };
    let output = arguments.output.as_deref();
    let is_printed = output == Some(Path::new("-"));
    let outcome = Outcome { is_printed, force: arguments.force, check: *check };
    app::run(kind, folder, output, options, outcome)
}

/// Writes a template to a file.
fn write_text(text: &str, arguments: &InitArguments) -> anyhow::Result<Exit> {
    let path = arguments.output.as_deref().unwrap_or(Path::new("weir.toml"));
    if path == Path::new("-") {
        output::raw(text);
        return Ok(Exit::Fine);
    }
    let mut options = OpenOptions::new();
    options.write(true).mode(0o644);
    if arguments.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let shown = path.display();
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!(
                "{shown} exists; replace it with --force, or print to standard output with --output -"
            )
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {shown}")),
    };
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {shown}"))?;
    output::line(&format!("wrote {shown}; verify it with `weir check`"));
    Ok(Exit::Fine)
}

/// What a template consists of.
enum Content {
    Text(String),
    App(AppKind),
}

impl Template {
    fn content(self, server: AppServer) -> Content {
        match self {
            Self::Default => Content::Text(reference::commented_file()),
            Self::Front => Content::Text(front::text(server)),
            Self::Observe => Content::Text(OBSERVE.to_owned()),
            Self::Production => Content::Text(PRODUCTION.to_owned()),
            Self::Mastodon => Content::App(AppKind::Mastodon),
            Self::Rails => Content::App(AppKind::Rails),
            Self::Django => Content::App(AppKind::Django),
            Self::Node => Content::App(AppKind::Node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use weir_config::Source;

    #[test]
    fn templates_are_valid_settings_files() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["jobs.password", "console.password", "console.token"] {
            let path = folder.path().join("secrets").join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "a secret of enough characters\n").expect("written");
        }
        let others = [Template::Default, Template::Observe, Template::Production];
        let text = |template: Template, server| match template.content(server) {
            Content::Text(text) => text,
            Content::App(kind) => panic!("{kind:?} needs a folder"),
        };
        let others = others.into_iter().map(|template| text(template, AppServer::Gunicorn));
        let fronts = AppServer::value_variants().iter().map(|it| text(Template::Front, *it));
        for text in others.chain(fronts) {
            let source = Source::of(&folder.path().join("weir.toml"), &text, None);
            let loaded = weir_config::parse(&source, &|_| None);
            let loaded = loaded.unwrap_or_else(|mistakes| panic!("{mistakes}"));
            // Warnings about this machine (its limits and programs) do not concern the template.
            let of_the_file = |warning: &&String| {
                let programs = ["was not found in PATH", "is not an executable program"];
                !warning.contains("ulimit") && !programs.iter().any(|it| warning.contains(it))
            };
            let warnings: Vec<&String> = loaded.warnings.iter().filter(of_the_file).collect();
            assert_eq!(warnings, Vec::<&String>::new());
        }
    }
}
