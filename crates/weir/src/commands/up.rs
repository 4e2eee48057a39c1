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
    /// Start only these parts; the admin socket is there in any case. Without jobs no job store is
    /// opened
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// First read all of the job store and repair what is damaged, older segments included: every
    /// record whose checksum holds is kept, the rest is set aside
    #[arg(long)]
    pub(crate) salvage: bool,
    /// How the log looks; wins over log.format
    #[arg(long = "log", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// What is logged; wins over log.level
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
