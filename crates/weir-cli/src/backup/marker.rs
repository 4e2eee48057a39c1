//! A file in a data directory while a restore fills it. Weir does not start on such a directory: it
//! would find fewer jobs than there are, or none.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::OFlags;

/// The file's name.
pub(crate) const FILE: &str = "restore-incomplete";

/// Returns an error if a restore into this directory did not end.
pub fn check(data_dir: &Path) -> anyhow::Result<()> {
    if is_in(data_dir) {
        let shown = data_dir.display();
        bail!(
            "a restore into {shown} did not end; run `weir restore` again, or delete the directory"
        );
    }
    Ok(())
}

pub(crate) fn is_in(data_dir: &Path) -> bool {
    data_dir.join(FILE).exists()
}

/// Creates the file, and makes it durable before anything else is written.
pub(crate) fn create(data_dir: &Path) -> anyhow::Result<()> {
    let path = data_dir.join(FILE);
    let create = || {
        let mut options = File::options();
        options.write(true).create(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        options.open(&path)?.sync_all()?;
        sync_folder(data_dir)
    };
    create().with_context(|| format!("cannot write {}", path.display()))
}

/// Removes the file once everything else is durable.
pub(crate) fn remove(data_dir: &Path) -> std::io::Result<()> {
    fs::remove_file(data_dir.join(FILE))?;
    sync_folder(data_dir)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}
