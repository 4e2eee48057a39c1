//! Texts that are judged, read with a limit.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};

/// A layout is some lines for each process.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a text of at most 1 MiB. The length of a device or a pipe is not known before it is read.
///
/// # Errors
/// The file cannot be read, is too long or is not UTF-8.
pub(in crate::commands) fn read_text(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let cannot = || format!("cannot read {shown}");
    let file = std::fs::File::open(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{shown} is too large: a layout has at most {FILE_BYTES_MAX} bytes");
    }
    String::from_utf8(bytes).with_context(|| format!("{shown} is not UTF-8 text"))
}
