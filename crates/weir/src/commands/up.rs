//! `weir up`.

use anyhow::bail;

use crate::cli::UpArguments;
use crate::exit::Exit;
use crate::logging;
use crate::parent::{self, Flags, Handover};
use crate::part::Part;

pub(super) fn run(arguments: UpArguments) -> anyhow::Result<Exit> {
    let salvage = arguments.salvage;
    if salvage && !Part::Jobs.is_among(&arguments.only) {
        bail!("--salvage repairs the job store, which --only leaves out; add jobs to --only");
    }
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
