//! `weir gems mirror`: synchronizes with upstreams once, through a running Weir that mirrors, or by
//! itself.

mod accept;
mod arguments;
mod bar;
mod here;
mod policy;
mod report;
mod running;
mod status;

use anyhow::bail;
use clap::{Args, Subcommand};
use weir_gems::index::digest::Digests;
use weir_gems::mirror::settings::{FilesWhen, UpstreamSettings, UpstreamUrl};
use weir_gems::mirror::upstream_name::{UPSTREAM_NAME_BYTES_MAX, UpstreamName};

use self::arguments::{Known, LookArguments};
use super::store;
use crate::admin_client::AdminClient;
use crate::data_dir::lock;
use crate::data_dir::turn::{Of, Place, Turn};
use crate::exit::Exit;
use weir_config::{Mirror, Settings};

/// `weir gems mirror`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<MirrorCommand>,
    #[command(flatten)]
    look: LookArguments,
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
        None => look(&arguments.look).await,
    }
}

async fn look(arguments: &LookArguments) -> anyhow::Result<Exit> {
    if arguments.target.url.is_some() {
        let client = AdminClient::connect(&arguments.target).await?;
        return running::look(arguments, client).await;
    }
    let mut settings = policy::settings(&arguments.target.settings)?;
    let is_known = choose(&mut settings.gems.mirror, arguments)?;
    match turn(&settings)? {
        Some(_turn) => here::look(arguments, &settings, is_known).await,
        None => match AdminClient::connect(&arguments.target).await {
            Ok(client) => running::look(arguments, client).await,
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
fn choose(mirror: &mut Mirror, arguments: &LookArguments) -> anyhow::Result<Known> {
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
        (None, true) => Ok(Known::Yes),
        (None, false) => bail!(
            "weir.toml has no [[gems.mirror.upstreams]]; name an index: weir gems mirror https://rubygems.org"
        ),
        (Some(url), true) => {
            let is_same = |it: &UpstreamSettings| it.url.to_string() == url.to_string();
            if upstreams.iter().any(is_same) {
                return Ok(Known::Yes);
            }
            bail!(
                "{url} is not in gems.mirror.upstreams; add it there, because their order decides which upstream a name comes from"
            )
        }
        (Some(url), false) => {
            upstreams.push(UpstreamSettings {
                name: name_of(url)?,
                url: url.clone(),
                credentials: None,
                redirect_hosts: Vec::new(),
                hook_secret: None,
            });
            Ok(Known::No)
        }
    }
}

/// Returns a name such as `rubygems.org`, `127.0.0.1-7422`. An address with more parts, or a long
/// one, is truncated and gets a digest, so that two indexes are not taken for one.
fn name_of(url: &UpstreamUrl) -> anyhow::Result<UpstreamName> {
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
fn turn(settings: &Settings) -> anyhow::Result<Option<Turn>> {
    lock::make_folder(&settings.data_dir)?;
    store::reject_other_user(settings)?;
    Place::take(Of::Mirror, &settings.data_dir)?.turn_now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_without_a_name_gets_that_of_its_address() {
        for (url, name) in [
            ("https://rubygems.org", "rubygems.org"),
            ("http://127.0.0.1:7422/", "127.0.0.1-7422"),
            ("http://[::1]:7422/private/", "1--7422-private-4986f1d4"),
        ] {
            let url: UpstreamUrl = url.parse().expect("an address");
            assert_eq!(name_of(&url).expect("a name").as_str(), name);
        }
    }

    #[test]
    fn two_addresses_are_never_one_upstream() {
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
            name_of(&url).expect("a name").as_str().to_owned()
        });
        let names: std::collections::BTreeSet<_> = names.collect();
        assert_eq!(names.len(), urls.len(), "{names:?}");
    }
}
