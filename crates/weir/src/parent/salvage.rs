//! `weir up --salvage`: a damaged job store is repaired before it is opened, once, while nobody else
//! has the folder.

use std::path::Path;

use anyhow::Context;
use weir_log::RealDisk;

/// Keeps every record whose checksum holds; says what was lost and where the damaged files are.
pub(super) fn run(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    let disk = RealDisk::new(directory).with_context(|| format!("cannot open {shown}"))?;
    let report = weir_log::salvage(&disk).with_context(|| format!("cannot salvage {shown}"))?;
    for file in &report.files {
        tracing::warn!(
            file = file.file,
            set_aside = file.set_aside.as_deref().unwrap_or("(it was missing)"),
            records = file.records,
            damages = file.damages,
            bytes_lost = file.bytes_lost,
            "salvaged"
        );
    }
    tracing::info!(
        directory = %shown,
        records = report.records,
        damages = report.damages,
        bytes_lost = report.bytes_lost,
        "salvage is done"
    );
    Ok(())
}
