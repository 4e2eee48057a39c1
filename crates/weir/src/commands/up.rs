//! `weir up`.

use clap::Args;
use weir_config::part::Part;
use weir_config::{LogFormat, LogLevel};

use crate::exit::Exit;
use crate::logging;
use crate::parent::{self, Flags, Handover};
use crate::target::SettingsArguments;

/// `weir up`.
#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    /// Start only these parts and the admin socket. Without jobs, the job store is not opened
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// Repair the whole job store before the start: records with a matching checksum are kept, the
    /// others are set aside
    #[arg(long)]
    pub(crate) salvage: bool,
    /// Format of the log; overrides log.format
    #[arg(long = "log", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Level of the log; overrides log.level
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Go on in the place of an earlier program, which has left this descriptor
    #[arg(long, hide = true)]
    pub(crate) takeover: Option<i32>,
    /// Say whether that could be done
    #[arg(long, hide = true)]
    pub(crate) takeover_check: Option<i32>,
}

pub(crate) fn run(arguments: UpArguments) -> anyhow::Result<Exit> {
    let salvage = arguments.salvage;
    let handover = Handover::find(Flags {
        config: arguments.settings.config,
        data_dir: arguments.settings.data_dir,
        only: arguments.only,
        log_format: arguments.log_format,
        log_level: arguments.log_level,
        is_coloured: logging::stderr_is_coloured(),
    })?;
    match (arguments.takeover_check, arguments.takeover) {
        (Some(descriptor), _) => parent::check(&handover, descriptor),
        (None, Some(descriptor)) => parent::resume(handover, descriptor),
        (None, None) => parent::run(handover, salvage),
    }
}
