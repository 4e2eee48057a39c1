//! How Weir runs the sample workers, and its settings file.

use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::weir_process::toml_string;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Requests go through Weir.
    Proxy,
    /// Weir hands its listening sockets to the workers.
    Sockets,
}

/// How a worker is selected for a connection in sockets mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Selection {
    Kernel,
    Random,
    RoundRobin,
    JoinIdle,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct HostingFlags {
    /// Start a Weir with --workers sample workers on free ports, load it, and stop it. Its CPU time is the workers'
    /// too.
    #[arg(long, requires = "workers", conflicts_with_all = ["target", "server_pids"])]
    pub(crate) self_hosted: bool,
    #[arg(long, value_enum, default_value = "proxy")]
    mode: Mode,
    /// Sockets mode: who gets a connection. Weir's default without it.
    #[arg(long, value_enum)]
    selection: Option<Selection>,
    /// Sockets mode: listening sockets. Weir's default without it.
    #[arg(long)]
    queues: Option<usize>,
    /// Sockets mode: how many of them a worker accepts on. Weir's default without it.
    #[arg(long)]
    queues_per_worker: Option<usize>,
}

/// Validated flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hosting {
    mode: Mode,
    selection: Option<Selection>,
    queues: Option<usize>,
    queues_per_worker: Option<usize>,
}

impl HostingFlags {
    pub(crate) fn validate(&self) -> Result<Hosting> {
        let Self { mode, selection, queues, queues_per_worker, .. } = *self;
        for (flag, is_set) in [
            ("--selection", selection.is_some()),
            ("--queues", queues.is_some()),
            ("--queues-per-worker", queues_per_worker.is_some()),
        ] {
            ensure!(!is_set || mode == Mode::Sockets, "{flag} belongs to --mode sockets");
        }
        Ok(Hosting { mode, selection, queues, queues_per_worker })
    }
}

/// `proxy`, or `sockets[:SELECTION[:QUEUES[:QUEUES_PER_WORKER]]]`.
impl FromStr for Hosting {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split(':');
        let mode = parts.next().unwrap_or_default();
        let mode = Mode::from_str(mode, false).map_err(anyhow::Error::msg)?;
        let selection = parts.next().map(|name| Selection::from_str(name, false));
        let mut number = || parts.next().map(|number| number.parse().context("a number of queues"));
        let (queues, queues_per_worker) = (number().transpose()?, number().transpose()?);
        let flags = HostingFlags {
            self_hosted: true,
            mode,
            selection: selection.transpose().map_err(anyhow::Error::msg)?,
            queues,
            queues_per_worker,
        };
        ensure!(parts.next().is_none(), "{text}: sockets:SELECTION:QUEUES:QUEUES_PER_WORKER");
        flags.validate()
    }
}

/// Paths and the port for a settings file.
#[derive(Debug)]
pub(crate) struct HostingPaths {
    pub(crate) folder: PathBuf,
    /// The program of the workers: this one.
    pub(crate) program: PathBuf,
    /// The port of sockets mode.
    pub(crate) free_port: u16,
}

impl Hosting {
    pub(crate) fn is_proxy(&self) -> bool {
        self.mode == Mode::Proxy
    }

    /// Returns the text of `weir.toml`.
    pub(crate) fn settings(&self, workers: usize, paths: &HostingPaths) -> String {
        let mut text = format!("data_dir = {}\n", toml_string(&paths.folder.join("data")));
        text.push_str("[console]\nlisten = \"127.0.0.1:0\"\n[front]\nlisten = \"127.0.0.1:0\"\n");
        let program = toml_string(&paths.program);
        let socket_arguments = if self.is_proxy() { ", \"--socket\", \"{socket}\"" } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "[[front.apps]]\nname = \"bench\"\nworkers = {workers}\n\
             command = [{program}, \"front-worker\"{socket_arguments}]\n"
        );
        if !self.is_proxy() {
            self.append_sockets(paths.free_port, &mut text);
        }
        text
    }

    fn append_sockets(&self, port: u16, text: &mut String) {
        let _ = writeln!(text, "mode = \"sockets\"\nlisten = \"127.0.0.1:{port}\"");
        if let Some(selection) = self.selection.and_then(|selection| selection.to_possible_value())
        {
            let _ = writeln!(text, "selection = \"{}\"", selection.get_name());
        }
        let numbers = [("queues", self.queues), ("queues_per_worker", self.queues_per_worker)];
        for (name, number) in numbers {
            if let Some(number) = number {
                let _ = writeln!(text, "{name} = {number}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(hosting: &str) -> String {
        let (folder, program) = ("/f".into(), "/p \"q\"".into());
        let paths = HostingPaths { folder, program, free_port: 81 };
        hosting.parse::<Hosting>().expect("valid").settings(3, &paths)
    }

    #[test]
    fn proxied_workers_get_their_own_socket() {
        let text = settings("proxy");
        let command = r#"command = ["/p \"q\"", "front-worker", "--socket", "{socket}"]"#;
        assert!(text.contains(command) && text.contains("workers = 3\n"), "{text}");
        assert!(!text.contains("mode"), "{text}");
    }

    #[test]
    fn sockets_mode_writes_only_the_given_settings() {
        let text = settings("sockets:join-idle:16:2");
        let end = "mode = \"sockets\"\nlisten = \"127.0.0.1:81\"\nselection = \"join-idle\"\n\
                   queues = 16\nqueues_per_worker = 2\n";
        assert!(text.ends_with(end), "{text}");
        assert!(settings("sockets").ends_with("listen = \"127.0.0.1:81\"\n"));
    }

    #[test]
    fn invalid_hosting_is_rejected() {
        for text in
            ["", "x", "proxy:random", "sockets:x", "sockets:random:x", "sockets:random:1:2:3"]
        {
            assert!(text.parse::<Hosting>().is_err(), "{text}");
        }
    }
}
