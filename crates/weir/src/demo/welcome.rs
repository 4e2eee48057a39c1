//! The addresses of a demo, and what to try.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use weir_cli::DemoArguments;
use weir_cli::invocation::program;
use weir_config::Settings;
use weir_demo::config::{APP_ID, APP_KEY};

use super::folder::DemoFolder;

/// The port of the job server that `weir demo flood` uses by default.
const JOBS_PORT: u16 = 7419;

/// Where a demo serves.
#[derive(Debug)]
pub(super) struct Addresses<'a> {
    pub(super) jobs: SocketAddr,
    pub(super) front: SocketAddr,
    pub(super) admin: PathBuf,
    console: SocketAddr,
    failed_apps: Option<String>,
    folder: &'a DemoFolder,
}

impl<'a> Addresses<'a> {
    /// Reads the line that `weir up` prints once it serves.
    pub(super) fn parse(ready_line: &str, folder: &'a DemoFolder) -> anyhow::Result<Self> {
        let field = |name: &str| {
            let prefix = format!("{name}=");
            ready_line.split(' ').find_map(|word| word.strip_prefix(&prefix))
        };
        let address = |name: &str| {
            let address = field(name).and_then(|address| address.parse().ok());
            address.with_context(|| format!("Weir's ready line has no {name}: {ready_line}"))
        };
        Ok(Self {
            jobs: address("jobs")?,
            front: address("front")?,
            admin: Settings::in_data_dir(&folder.path).admin_socket(),
            console: address("console")?,
            failed_apps: field("failed").map(str::to_owned),
            folder,
        })
    }

    /// Returns what is printed before the first figures.
    pub(super) fn welcome(&self, arguments: &DemoArguments, secret: &str) -> String {
        match arguments.json {
            true => self.to_json(secret),
            false => self.to_text(arguments, secret, &program()),
        }
    }

    fn realtime_url(&self) -> String {
        format!("ws://{}/app/{APP_KEY}?protocol=7", self.front)
    }

    fn to_json(&self, secret: &str) -> String {
        let Self { jobs, front, console, admin, folder, .. } = self;
        let realtime = self.realtime_url();
        let app = json!({ "id": APP_ID, "key": APP_KEY, "secret": secret });
        let ready = json!({
            "ready": {
                "jobs": jobs, "front": front, "console": console, "admin": admin, "folder": folder.path,
                "realtime": realtime, "app": app,
            }
        });
        format!("{ready}\n")
    }

    /// `weir`: what starts the program.
    fn to_text(&self, arguments: &DemoArguments, secret: &str, weir: &str) -> String {
        let Self { jobs, front, console, admin, folder, failed_apps } = self;
        let (path, realtime) = (folder.path.display(), self.realtime_url());
        let kept = if folder.is_temporary { "removed at the end" } else { "kept" };
        let flood = match jobs.port() {
            JOBS_PORT => format!("{weir} demo flood"),
            _ => format!("{weir} demo flood --jobs {jobs}"),
        };
        let clients = arguments.clients;
        let mut text = format!(
            "Weir runs with a sample app, workers and clients.\n\
             \n\
             console    http://{console}\n\
             front      http://{front}      an app with 3 processes, and /slow\n\
             jobs       tcp://{jobs}       4 queues, and weir-demo for floods; a worker that runs 16 jobs at once\n\
             realtime   {realtime}      {clients} clients on 10 channels\n\
             \x20          app id {APP_ID}, key {APP_KEY}, secret {secret}\n\
             admin API  unix:{}\n\
             data       {path} ({kept}), with weir.toml and weir.log\n\
             \n\
             Try in another terminal:\n\
             \n\
             {flood}      multiplies the traffic by 50 for a minute (also a button in the console)\n\
             {weir} status --data-dir {path}\n\
             {weir} jobs list --data-dir {path}\n\
             {weir} workers list --data-dir {path}\n\
             {weir} docs --page demo      explains what a flood shows, and where\n\
             \n\
             A flood is more than the app and the worker can do. Some requests get 503: what the app cannot serve in time\n\
             (queue full), and /inbox while jobs of ingress are late (shed). New jobs of feed start before its backlog. The\n\
             flood of imports comes from one tenant, and the others hardly wait. A few jobs fail, and are retried.\n\
             \n\
             Ctrl-C stops everything.\n\n",
            admin.display()
        );
        if let Some(failed) = failed_apps {
            text += &format!("The app {failed} does not run: see weir.log.\n\n");
        }
        text
    }
}
