//! What is to be mirrored.

use std::path::PathBuf;

use clap::Args;
use weir_gems::mirror::settings::UpstreamUrl;

use crate::target::Target;

/// `weir gems mirror [UPSTREAM]`.
#[derive(Debug, Args)]
pub(super) struct SyncArguments {
    #[command(flatten)]
    pub(super) target: Target,
    /// Address of an index, such as `https://rubygems.org`, if weir.toml has no upstreams
    pub(super) upstream: Option<UpstreamUrl>,
    /// Namespace policy, if weir.toml has none: a file with the names that never come from an
    /// upstream
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Compare the whole index instead of only the changes since the last synchronization
    #[arg(long)]
    pub(super) everything: bool,
    /// Also fetch all .gem files, regardless of gems.mirror.files
    #[arg(long)]
    pub(super) files: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Whether the upstream was in the settings already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownUpstream {
    Yes,
    No,
}
