//! `weir jobs salvage`: the jobs in what was set aside of a damaged job store. Changes nothing, and
//! needs no Weir to be stopped or running.

use anyhow::{Context, bail};
use clap::Args;
use weir_jobs::salvage::{Salvaged, jobs_in};
use weir_log::{Acknowledged, RealDisk};

use crate::data_dir;
use crate::exit::Exit;
use crate::output;
use crate::target::SettingsArguments;
use weir_config::Settings;

/// `weir jobs salvage`.
#[derive(Debug, Args)]
pub(crate) struct JobsSalvageArgs {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Print the records that were acknowledged last, instead of the unacknowledged ones
    #[arg(long)]
    acknowledged: bool,
}

pub(super) fn run(arguments: &JobsSalvageArgs) -> anyhow::Result<Exit> {
    let settings = Settings::in_data_dir(&data_dir::find(&arguments.settings)?);
    let directory = &settings.jobs.settings.directory;
    let shown = directory.display();
    if !directory.is_dir() {
        bail!("there is no job store at {shown}; name its data_dir with --data-dir or --config");
    }
    let disk = RealDisk::new(directory).with_context(|| format!("cannot open {shown}"))?;
    let which = if arguments.acknowledged { Acknowledged::Yes } else { Acknowledged::No };
    let (mut places, mut jobs, mut altered) = (0, 0, 0);
    weir_log::set_aside(&disk, which, &mut |_, aside| {
        places += 1;
        for Salvaged { json, is_exact } in jobs_in(aside) {
            jobs += 1;
            altered += u64::from(!is_exact);
            output::line(&json);
        }
    })
    .with_context(|| format!("cannot read the damaged records in {shown}"))?;
    output::note(&format!("jobs found: {jobs}; damaged places: {places}"));
    if altered > 0 {
        output::note(&format!(
            "the checksums of {altered} of them do not match: review these before `weir jobs import`"
        ));
    }
    Ok(Exit::Fine)
}
