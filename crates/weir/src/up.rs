//! `weir up`: passes its flags to the parent and selects how the parent starts.

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};
use weir_cli::{Exit, UpArguments};

use crate::logging;
use crate::parent::{self, Flags, Handover};

pub(crate) fn run(arguments: UpArguments) -> anyhow::Result<Exit> {
    if arguments.with_parent {
        set_parent_process_death_signal(Some(Signal::TERM)).context("--with-parent")?;
    }
    let salvage = arguments.salvage;
    let handover = Handover::from_flags(Flags {
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
