//! `weir up`.

use clap::Args;
use weir_config::part::Part;
use weir_config::{LogFormat, LogLevel};

use crate::target::SettingsArguments;

/// `weir up`; the binary runs it.
#[derive(Debug, Args)]
pub struct UpArguments {
    #[command(flatten)]
    pub settings: SettingsArguments,
    /// Start only this part and the admin socket; several: repeat it or separate them with commas. Without jobs,
    /// the job store is not opened
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// Repair the whole job store before the start: records with a matching checksum are kept, the
    /// others are set aside
    #[arg(long)]
    pub salvage: bool,
    /// Format of the log; overrides log.format
    #[arg(long = "log", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Level of the log; overrides log.level
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// Stop when the process that has started this one ends
    #[arg(long, hide = true)]
    pub with_parent: bool,
    /// Go on in the place of an earlier program, which has left this descriptor
    #[arg(long, hide = true)]
    pub takeover: Option<i32>,
    /// Say whether that could be done
    #[arg(long, hide = true)]
    pub takeover_check: Option<i32>,
}
