//! Everything that a run starts: the nodes, Redis, Postgres, and the networks and file systems that faults need.

mod commands;
mod disk;
mod network;
mod node;
mod postgres;
mod redis;
mod settings;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use tempfile::TempDir;

use self::disk::Disk;
pub(super) use self::disk::bytes_of;
use self::network::Network;
pub(super) use self::node::{Node, processes_of, wait_until};
use self::postgres::Postgres;
use self::redis::Redis;
use self::settings::{NodeSettings, weir_toml};
use super::fault::Fault;
use super::flags::{Shape, SoakFlags};
use super::shared::Endpoints;
use crate::output::Output;
use crate::weir_process::find_weir_program;

/// Where Debian installs libfaketime.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
pub(super) const REALTIME_SECRET: &str = "soak-realtime-secret";
const CONSOLE_PASSWORD: &str = "soak-console-password";

/// Dropped in this order: the nodes first, then what they use.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) nodes: Vec<Node>,
    pub(super) redis: Option<Redis>,
    pub(super) postgres: Option<Postgres>,
    pub(super) network: Option<Network>,
    /// Of each node, if the data directories are file systems of their own.
    pub(super) disks: Vec<Disk>,
    /// Faults that can be injected.
    pub(super) available: Vec<Fault>,
    /// Faults that can't, and why.
    pub(super) skipped: Vec<(Fault, String)>,
    folder: Folder,
}

/// The folder of all files, which is deleted at the end unless it is to be kept.
#[derive(Debug)]
enum Folder {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    fn new(keep: Option<&Path>) -> Result<Self> {
        let Some(path) = keep else {
            let folder = tempfile::Builder::new().prefix("weir-soak-").tempdir();
            return Ok(Self::Temporary(folder.context("making a temporary folder")?));
        };
        std::fs::create_dir_all(path).with_context(|| path.display().to_string())?;
        let is_empty = std::fs::read_dir(path)?.next().is_none();
        ensure!(is_empty, "--keep {}: the folder is not empty", path.display());
        Ok(Self::Kept(path.canonicalize()?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }
}

impl Site {
    /// Starts everything, and waits until all nodes are ready.
    pub(super) fn start(flags: &SoakFlags, output: &mut Output) -> Result<Self> {
        let folder = Folder::new(flags.keep.as_deref())?;
        let mut site = Self {
            nodes: Vec::new(),
            redis: None,
            postgres: None,
            network: None,
            disks: Vec::new(),
            available: Vec::new(),
            skipped: Vec::new(),
            folder,
        };
        site.start_surroundings(flags.shape)?;
        site.make_disks(flags.shape)?;
        let faketime = site.find_faketime(flags);
        let program = flags.weir.clone().map_or_else(find_weir_program, Ok)?;
        let program = program.canonicalize().unwrap_or(program);
        for number in 0..flags.shape.nodes() {
            let node = site.node(number, flags.shape, &program, faketime.as_deref())?;
            site.nodes.push(node);
        }
        for node in &mut site.nodes {
            node.start().with_context(|| format!("starting {node}"))?;
        }
        site.find_available(flags);
        for (fault, reason) in &site.skipped {
            output.note(&format!("SKIPPED: fault {}: {reason}", fault.name()))?;
        }
        Ok(site)
    }

    /// What several nodes share.
    fn start_surroundings(&mut self, shape: Shape) -> Result<()> {
        if shape == Shape::One {
            self.skip(Fault::RedisPause, "shape one has no Redis");
            self.skip(Fault::RedisKill, "shape one has no Redis");
            self.skip(Fault::PostgresStop, "shape one has no Postgres");
            self.skip(Fault::Partition, "shape one has one node");
            return Ok(());
        }
        match Network::create(shape.nodes()) {
            Ok(network) => self.network = Some(network),
            Err(error) => self.skip(Fault::Partition, &format!("{error:#}")),
        }
        let address = self.network.as_ref().map_or(Ipv4Addr::LOCALHOST, Network::host);
        self.redis = Some(Redis::start(address, &self.folder.path().join("redis"))?);
        match Postgres::start() {
            Ok(postgres) => self.postgres = Some(postgres),
            Err(error) => self.skip(Fault::PostgresStop, &format!("{error:#}")),
        }
        Ok(())
    }

    fn make_disks(&mut self, shape: Shape) -> Result<()> {
        for number in 0..shape.nodes() {
            let data = self.node_folder(number).join("data");
            std::fs::create_dir_all(&data)?;
            match Disk::mount(&data) {
                Ok(disk) => self.disks.push(disk),
                Err(error) => {
                    self.skip(Fault::DiskFull, &format!("{error:#}"));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn find_faketime(&mut self, flags: &SoakFlags) -> Option<PathBuf> {
        let path = flags.faketime.clone().unwrap_or_else(|| PathBuf::from(FAKETIME));
        if path.exists() {
            return path.canonicalize().ok();
        }
        let reason = format!("no {} (apt-get install libfaketime, or --faketime)", path.display());
        self.skip(Fault::ClockStep, &reason);
        None
    }

    fn node_folder(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("node-{number}"))
    }

    fn node(
        &self,
        number: usize,
        shape: Shape,
        program: &Path,
        faketime: Option<&Path>,
    ) -> Result<Node> {
        let folder = self.node_folder(number);
        let address = self.network.as_ref().map_or(Ipv4Addr::LOCALHOST, |it| it.node(number));
        let has_gems = shape == Shape::One || self.postgres.is_some();
        let endpoints = endpoints(address, self.network.is_some(), has_gems)?;
        std::fs::write(folder.join("realtime-secret"), REALTIME_SECRET)?;
        std::fs::write(folder.join("console-password"), CONSOLE_PASSWORD)?;
        let settings = NodeSettings {
            folder: &folder,
            endpoints,
            bench: &std::env::current_exe().context("finding this program")?,
            redis: self.redis.as_ref().map(Redis::url),
            postgres: self.postgres.as_ref().map(Postgres::url),
            gem_files: &self.folder.path().join("gem-files"),
        };
        std::fs::write(folder.join("weir.toml"), weir_toml(&settings))?;
        let namespace = self.network.as_ref().map(|network| network.namespace(number));
        Node::new(number, program, folder, endpoints, namespace, faketime)
    }

    fn skip(&mut self, fault: Fault, reason: &str) {
        self.skipped.push((fault, reason.to_owned()));
    }

    fn find_available(&mut self, flags: &SoakFlags) {
        let all = match flags.faults.as_slice() {
            [] => Fault::value_variants(),
            faults => faults,
        };
        let is_skipped = |fault: &Fault| self.skipped.iter().any(|(skipped, _)| skipped == fault);
        self.available = all.iter().copied().filter(|fault| !is_skipped(fault)).collect();
        // What was not requested is no news.
        self.skipped.retain(|(fault, _)| all.contains(fault));
    }

    pub(super) fn endpoints(&self) -> Vec<Endpoints> {
        self.nodes.iter().map(|node| node.endpoints).collect()
    }

    pub(super) fn data_dirs(&self) -> Vec<PathBuf> {
        (0..self.nodes.len()).map(|number| self.node_folder(number).join("data")).collect()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Returns addresses with ports that are free, or the usual ones where nothing else listens.
fn endpoints(address: Ipv4Addr, is_namespace: bool, has_gems: bool) -> Result<Endpoints> {
    let at = |port: u16| -> Result<SocketAddr> {
        if is_namespace {
            return Ok((address, port).into());
        }
        // The port must stay the same over restarts: one that is free now.
        let listener = TcpListener::bind((address, 0)).context("finding a free port")?;
        Ok(listener.local_addr()?)
    };
    Ok(Endpoints {
        jobs: at(7419)?,
        front: at(8080)?,
        console: at(7420)?,
        gems: has_gems.then(|| at(7422)).transpose()?,
    })
}
