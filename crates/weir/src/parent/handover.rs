//! What the parent passes to the service besides sockets: the text of the validated settings, and
//! the flags. Both hold an unnamed file open, so a restarted service finds the last valid settings
//! even if the settings file has changed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::{Context, bail};
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use weir_config::part::Part;
use weir_config::source::FILE_BYTES_MAX;
use weir_config::{Loaded, LogFormat, LogLevel, Settings, Source};

/// The name of the file's descriptor.
pub(crate) const DESCRIPTOR: &str = "settings";

/// The flags of `weir up` that affect the service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Flags {
    pub(crate) config: Option<PathBuf>,
    pub(crate) data_dir: Option<PathBuf>,
    /// Empty: all parts.
    pub(crate) only: Vec<Part>,
    pub(crate) log_format: Option<LogFormat>,
    pub(crate) log_level: Option<LogLevel>,
    /// Whether the parent's standard error is a terminal.
    pub(crate) is_coloured: bool,
}

/// Settings and flags.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Handover {
    pub(crate) source: Source,
    pub(crate) flags: Flags,
    /// Whether the settings file is invalid now: these are the previous settings, and a reload only
    /// reopens logs.
    #[serde(default, rename = "is_of_before")]
    pub(crate) is_previous: bool,
}

impl Handover {
    /// Reads the settings file that the flags name.
    pub(crate) fn from_flags(flags: Flags) -> anyhow::Result<Self> {
        let source = Source::find(flags.config.as_deref(), flags.data_dir.as_deref())?;
        Ok(Self { source, flags, is_previous: false })
    }

    /// Reads the file again with the same flags.
    pub(crate) fn reread(&self) -> anyhow::Result<Self> {
        Self::from_flags(self.flags.clone())
    }

    /// Parses the settings, with the flags applied.
    pub(crate) fn load(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Loaded> {
        let mut loaded = weir_config::parse(&self.source, environment)?;
        let log = &mut loaded.settings.log;
        log.format = self.flags.log_format.unwrap_or(log.format);
        log.level = self.flags.log_level.unwrap_or(log.level);
        Ok(loaded)
    }

    /// Returns the enabled parts (empty: all): those in the flags, less those that the settings
    /// disable.
    ///
    /// # Errors
    /// The flags name a part that is disabled.
    pub(crate) fn only(&self, settings: &Settings) -> anyhow::Result<Vec<Part>> {
        let (only, disabled) = (&self.flags.only, settings.disabled_parts());
        if let Some(part) = only.iter().find(|part| disabled.contains(part)) {
            let name = part.name();
            bail!("--only names {name}, but {name}.listen is \"off\"");
        }
        if disabled.is_empty() {
            return Ok(only.clone());
        }
        let is_enabled = |part: &Part| part.is_among(only) && !disabled.contains(part);
        Ok(Part::ALL.into_iter().filter(is_enabled).collect())
    }

    /// Reads what a parent has written.
    pub(crate) fn receive(file: &mut File) -> anyhow::Result<Self> {
        let mut json = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.take(JSON_BYTES_MAX).read_to_end(&mut json)?;
        serde_json::from_slice(&json).context("the parent handed over no settings")
    }
}

/// The longest JSON escape of a byte takes six bytes, and flags are short.
const JSON_BYTES_MAX: u64 = 6 * FILE_BYTES_MAX + (64 << 10);

/// The unnamed file.
#[derive(Debug)]
pub(crate) struct SettingsFile(File);

impl SettingsFile {
    /// Creates the file with `handover` in it.
    pub(crate) fn new(handover: &Handover) -> anyhow::Result<Self> {
        let memory = rustix::fs::memfd_create("weir-settings", MemfdFlags::CLOEXEC)
            .context("no memory for the settings")?;
        let mut text = Self(File::from(memory));
        text.replace(handover)?;
        Ok(text)
    }

    /// Restores the file of an earlier program of this process.
    pub(crate) fn resume(file: OwnedFd) -> Self {
        Self(file.into())
    }

    /// Replaces the content.
    pub(crate) fn replace(&mut self, handover: &Handover) -> anyhow::Result<()> {
        let json = serde_json::to_vec(handover)?;
        self.0.set_len(0)?;
        self.0.seek(SeekFrom::Start(0))?;
        self.0.write_all(&json)?;
        Ok(())
    }

    /// Returns a duplicate of its descriptor.
    pub(crate) fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.0.try_clone().map(OwnedFd::from)
    }
}
