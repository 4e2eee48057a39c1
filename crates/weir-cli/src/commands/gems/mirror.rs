//! `weir gems mirror`: synchronizes with upstreams once, through a running Weir that mirrors, or by
//! itself.

mod accept;
mod arguments;
mod bar;
mod in_process;
mod policy;
mod report;
mod running;
mod status;

use anyhow::bail;
use clap::{Args, Subcommand};
use weir_gems::index::digest::Digests;
use weir_gems::mirror::settings::{FilesWhen, UpstreamSettings, UpstreamUrl};
use weir_gems::mirror::upstream_name::{UPSTREAM_NAME_BYTES_MAX, UpstreamName};

use self::arguments::{KnownUpstream, SyncArguments};
use super::store;
use crate::admin_client::AdminClient;
use crate::data_dir::handover_lock::{HandoverLock, HeldLock, LockedResource};
use crate::data_dir::lock;
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
    let mut settings = policy::settings(&arguments.target.settings)?;
    let known_upstream = select_upstreams(&mut settings.gems.mirror, arguments)?;
    match acquire_mirror_lock(&settings)? {
        Some(_lock) => in_process::synchronize(arguments, &settings, known_upstream).await,
        None => match AdminClient::connect(&arguments.target).await {
            Ok(client) => running::synchronize(arguments, client).await,
            Err(_) => bail!(
                "another `weir gems mirror` is running in {}; wait until it has finished",
                settings.data_dir.display()
            ),
        },
    }
}

/// Bytes of an address's digest in a name.
const DIGEST_BYTES: usize = 4;

/// Selects what to synchronize: the upstreams in the settings, or the named one.
fn select_upstreams(
    mirror: &mut Mirror,
    arguments: &SyncArguments,
) -> anyhow::Result<KnownUpstream> {
    if arguments.policy.is_some() && mirror.is_enabled {
        bail!(
            "--policy cannot be used with the upstreams of weir.toml; set gems.mirror.policy instead"
        );
    }
    if arguments.files {
        mirror.settings.files = FilesWhen::Eagerly;
    }
    let upstreams = &mut mirror.settings.upstreams;
    match (&arguments.upstream, mirror.is_enabled) {
        (None, true) => Ok(KnownUpstream::Yes),
        (None, false) => bail!(
            "weir.toml has no [[gems.mirror.upstreams]]; name an index: weir gems mirror https://rubygems.org"
        ),
        (Some(url), true) => {
            let is_same = |it: &UpstreamSettings| it.url.to_string() == url.to_string();
            if upstreams.iter().any(is_same) {
                return Ok(KnownUpstream::Yes);
            }
            bail!(
                "{url} is not in gems.mirror.upstreams; add it there, because their order decides which upstream a name comes from"
            )
        }
        (Some(url), false) => {
            upstreams.push(UpstreamSettings {
                name: upstream_name(url)?,
                url: url.clone(),
                credentials: None,
                redirect_hosts: Vec::new(),
                hook_secret: None,
            });
            Ok(KnownUpstream::No)
        }
    }
}

/// Returns a name such as `rubygems.org`, `127.0.0.1-7422`. An address with more parts, or a long
/// one, is truncated and gets a digest, so that two indexes are not taken for one.
fn upstream_name(url: &UpstreamUrl) -> anyhow::Result<UpstreamName> {
    let url = url.to_string();
    let rest = url.split_once("://").map_or(&*url, |(_, rest)| rest).trim_end_matches('/');
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' }
    };
    let name: String = rest.chars().map(letter).collect();
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | ':');
    if rest.len() <= UPSTREAM_NAME_BYTES_MAX && rest.chars().all(is_host) {
        return Ok(name.parse()?);
    }
    let digest = Digests::of(url.as_bytes()).sha256;
    let digest: String =
        digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let beginning: String = name.chars().take(UPSTREAM_NAME_BYTES_MAX - 1 - digest.len()).collect();
    Ok(format!("{}-{digest}", beginning.trim_matches('-')).parse()?)
}

/// Locks the mirror; None: another process with this data_dir holds the lock.
fn acquire_mirror_lock(settings: &Settings) -> anyhow::Result<Option<HeldLock>> {
    lock::make_folder(&settings.data_dir)?;
    store::reject_other_user(settings)?;
    HandoverLock::open(LockedResource::Mirror, &settings.data_dir)?.try_acquire()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnamed_index_is_named_after_its_address() {
        for (url, name) in [
            ("https://rubygems.org", "rubygems.org"),
            ("http://127.0.0.1:7422/", "127.0.0.1-7422"),
            ("http://[::1]:7422/private/", "1--7422-private-4986f1d4"),
        ] {
            let url: UpstreamUrl = url.parse().expect("an address");
            assert_eq!(upstream_name(&url).expect("a name").as_str(), name);
        }
    }

    #[test]
    fn different_addresses_get_different_upstream_names() {
        let long = "a".repeat(60);
        let urls = [
            format!("https://{long}.example"),
            format!("https://{long}.org"),
            format!("https://gems.example/{long}/a"),
            format!("https://gems.example/{long}/b"),
            "https://gems.example/a/b".to_owned(),
            "https://gems.example/a-b".to_owned(),
            "https://gems.example".to_owned(),
            "https://gems.example:8443".to_owned(),
            "https://gems-example:8443".to_owned(),
            "https://gems-example-8443".to_owned(),
        ];
        let names = urls.iter().map(|url| {
            let url: UpstreamUrl = url.parse().expect("an address");
            upstream_name(&url).expect("a name").as_str().to_owned()
        });
        let names: std::collections::BTreeSet<_> = names.collect();
        assert_eq!(names.len(), urls.len(), "{names:?}");
    }
}
