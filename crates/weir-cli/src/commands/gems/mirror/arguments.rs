//! The arguments of a synchronization.

use std::path::PathBuf;

use clap::Args;
use weir_gems::mirror::settings::UpstreamUrl;

use crate::target::Target;

/// `weir gems mirror`.
#[derive(Debug, Args)]
pub(super) struct SyncArguments {
    #[command(flatten)]
    pub(super) target: Target,
    /// An upstream of weir.toml, for command lines that name one
    #[arg(hide = true)]
    pub(super) upstream: Option<UpstreamUrl>,
    /// Removed: the policy is that of weir.toml
    #[arg(long, value_name = "FILE", hide = true)]
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
