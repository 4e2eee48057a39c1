//! `weir init`: a settings file to start from.

mod front;
mod server;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use self::server::AppServer;
use crate::exit::Exit;
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
    /// The app server for the template `front`; it determines the command and how many requests a
    /// process serves at once
    #[arg(long, value_name = "SERVER", default_value = "gunicorn")]
    pub(crate) server: AppServer,
    /// File to write; `-` for standard output
    #[arg(long, value_name = "FILE", default_value = "weir.toml")]
    pub(crate) output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
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
}

pub(crate) fn run(arguments: &InitArguments) -> anyhow::Result<Exit> {
    let text = text(arguments.template, arguments.server);
    let path = &arguments.output;
    if path == Path::new("-") {
        output::raw(&text);
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

/// Returns the text of a template.
pub(super) fn text(template: Template, server: AppServer) -> String {
    match template {
        Template::Default => reference::commented_file(),
        Template::Front => front::text(server),
        Template::Observe => OBSERVE.to_owned(),
        Template::Production => PRODUCTION.to_owned(),
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
