//! `weir up --salvage`: reads and repairs a damaged job store once before it is opened, while no
//! other process has the data directory.

use anyhow::Context;
use weir_jobs::engine;
use weir_jobs::settings::JobServerSettings;
use weir_log::RealDisk;

/// Keeps every record with a valid checksum and moves the rest aside.
pub(super) fn run(settings: &JobServerSettings) -> anyhow::Result<()> {
    let shown = settings.directory.display();
    let disk =
        RealDisk::new(&settings.directory).with_context(|| format!("cannot open {shown}"))?;
    let report = weir_log::salvage(&disk, engine::log_options(settings))
        .with_context(|| format!("cannot salvage {shown}"))?;
    let (records, damages) = (report.records, report.damages);
    tracing::info!(directory = %shown, records, damages, "salvage completed");
    Ok(())
}
