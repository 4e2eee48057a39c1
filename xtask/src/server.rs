//! A Weir of our own for tests that need one running: free ports, data in a folder that goes away.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

const SETTINGS: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\n[console]\nlisten = \"127.0.0.1:0\"\n";

/// Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    folder: PathBuf,
    ready_line: String,
}

impl Server {
    pub(crate) fn start(root: &Path) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("weir-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let settings = folder.join("weir.toml");
        fs::write(&settings, SETTINGS)?;
        let mut process = Command::new(root.join("target/debug/weir"))
            .args(["up", "--log-level", "warn", "--config"])
            .arg(&settings)
            .stdout(Stdio::piped())
            .spawn()
            .context("target/debug/weir")?;
        let mut ready_line = String::new();
        let stdout = process.stdout.take().context("its output")?;
        BufReader::new(stdout).read_line(&mut ready_line)?;
        let server = Self { process, folder, ready_line };
        if !server.ready_line.starts_with("weir ready ") {
            bail!("target/debug/weir did not become ready");
        }
        Ok(server)
    }

    /// The address of a part, out of the ready line.
    pub(crate) fn address(&self, part: &str) -> anyhow::Result<&str> {
        let prefix = format!("{part}=");
        let mut fields = self.ready_line.split_whitespace();
        fields.find_map(|field| field.strip_prefix(&prefix)).with_context(|| format!("no {part}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data goes with it, so there is nothing to drain.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
