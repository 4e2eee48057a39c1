//! `weir gems mirror`: synchronizes with upstreams once, through a running Weir that mirrors, or by
//! itself.

mod accept;
mod arguments;
mod bar;
mod in_process;
mod report;
mod running;
mod status;

use anyhow::bail;
use clap::{Args, Subcommand};
use weir_gems::mirror::settings::{FilesWhen, UpstreamSettings};

use self::arguments::SyncArguments;
use super::store;
use crate::admin_client::AdminClient;
use crate::data_dir::handover_lock::{HandoverLock, HeldLock, LockedResource};
use crate::data_dir::{self, lock};
use crate::exit::Exit;
use weir_config::{Mirror, Settings};

/// `weir gems mirror`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<MirrorCommand>,
    #[command(flatten)]
    sync: SyncArguments,
}

/// The verbs of `weir gems mirror`.
#[derive(Debug, Subcommand)]
enum MirrorCommand {
    /// Show the state of each upstream: number of gems, time of the last synchronization, errors
    Status(status::Arguments),
    /// Accept the changed file of a version that the mirror rejects because the upstream replaced
    /// its file
    Accept(accept::Arguments),
}

pub(super) async fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match &arguments.command {
        Some(MirrorCommand::Status(arguments)) => status::run(arguments).await,
        Some(MirrorCommand::Accept(arguments)) => accept::run(arguments).await,
        None => synchronize(&arguments.sync).await,
    }
}

async fn synchronize(arguments: &SyncArguments) -> anyhow::Result<Exit> {
    if arguments.target.url.is_some() {
        let client = AdminClient::connect(&arguments.target).await?;
        return running::synchronize(arguments, client).await;
    }
    let mut settings = data_dir::settings_from_file(&arguments.target.settings)?;
    check(&settings.gems.mirror, arguments)?;
    if arguments.files {
        settings.gems.mirror.settings.files = FilesWhen::Eagerly;
    }
    match acquire_mirror_lock(&settings)? {
        Some(_lock) => in_process::synchronize(arguments, &settings).await,
        None => match AdminClient::connect(&arguments.target).await {
            Ok(client) => running::synchronize(arguments, client).await,
            Err(_) => bail!(
                "another `weir gems mirror` is running in {}; wait until it has finished",
                settings.data_dir.display()
            ),
        },
    }
}

/// Rejects upstreams that are not in the settings.
fn check(mirror: &Mirror, arguments: &SyncArguments) -> anyhow::Result<()> {
    if arguments.policy.is_some() {
        bail!("--policy was removed; set gems.mirror.policy instead");
    }
    if !mirror.is_enabled {
        bail!(
            "weir.toml has no [[gems.mirror.upstreams]]; add one: name = \"rubygems\", url = \"https://rubygems.org\""
        );
    }
    let Some(url) = &arguments.upstream else { return Ok(()) };
    let is_same = |it: &UpstreamSettings| it.url.to_string() == url.to_string();
    if !mirror.settings.upstreams.iter().any(is_same) {
        bail!(
            "{url} is not in gems.mirror.upstreams; add it there, because their order decides which upstream a name comes from"
        );
    }
    Ok(())
}

/// Locks the mirror; None: another process with this data_dir holds the lock.
fn acquire_mirror_lock(settings: &Settings) -> anyhow::Result<Option<HeldLock>> {
    lock::make_folder(&settings.data_dir)?;
    store::reject_other_user(settings)?;
    HandoverLock::open(LockedResource::Mirror, &settings.data_dir)?.try_acquire()
}
