//! The file that keeps overrides across restarts, upgrades and kills.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_base::kept;

use super::Override;

/// The format of the file. Raise it when the meaning of a field changes: an earlier program then
/// ignores the file and does not write it.
const FORMAT: u32 = 1;

/// The content of the file, by the names of groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptOverrides {
    version: u32,
    #[serde(default)]
    pub(crate) overrides: BTreeMap<String, Override>,
    /// Limits of threads that a program renews; an operator's number of threads has precedence.
    #[serde(default)]
    pub(crate) limits: BTreeMap<String, Override>,
    #[serde(default)]
    pub(crate) scaled: BTreeMap<String, KeptScale>,
}

/// A number of processes that an operator has set without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptScale {
    pub(crate) processes: u32,
    /// The setting at that time: once it is another one, the settings are newer.
    pub(crate) configured: u32,
}

/// The file. None: nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct OverridesFile {
    path: Option<PathBuf>,
    /// Why the file must not be replaced.
    unreadable: Option<String>,
}

impl Default for KeptOverrides {
    fn default() -> Self {
        Self {
            version: FORMAT,
            overrides: BTreeMap::new(),
            limits: BTreeMap::new(),
            scaled: BTreeMap::new(),
        }
    }
}

impl OverridesFile {
    /// Reads the file. If it cannot be read, nothing is overridden, and the file stays as it is.
    pub(crate) fn open(path: Option<PathBuf>) -> (Self, KeptOverrides) {
        let Some(path) = path else { return (Self::default(), KeptOverrides::default()) };
        let read = kept::read::<KeptOverrides>(&path).map_err(|error| error.to_string());
        let read = read.and_then(|kept| match kept.version {
            FORMAT => Ok(kept),
            other => Err(format!("it has format {other}, this program reads {FORMAT}")),
        });
        let (kept, unreadable) = match read {
            Ok(kept) => (kept, None),
            Err(error) => {
                let shown = path.display();
                let text = format!("{shown} cannot be read ({error}); correct or remove it");
                tracing::error!("no override of workers is in force: {text}");
                (KeptOverrides::default(), Some(text))
            }
        };
        (Self { path: Some(path), unreadable }, kept)
    }

    /// Replaces the file, which blocks on the disk.
    pub(crate) fn write(&mut self, kept: &KeptOverrides) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        if self.unreadable.is_some() && path.exists() {
            return Err(self.unreadable.clone().unwrap_or_default());
        }
        self.unreadable = None;
        let shown = path.display();
        kept::write(path, kept)
            .map_err(|error| format!("{shown} cannot be written ({error}); nothing was changed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_read_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kept.json");
        let (mut file, mut kept) = OverridesFile::open(Some(path.clone()));
        assert_eq!(kept, KeptOverrides::default());
        kept.overrides.insert("shop".into(), Override { threads: Some(3), ..Override::default() });
        kept.scaled.insert("mail".into(), KeptScale { processes: 3, configured: 2 });
        file.write(&kept).expect("written");
        assert_eq!(OverridesFile::open(Some(path)).1, kept);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_replaced_until_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kept.json");
        for text in ["{", r#"{"version":2}"#] {
            std::fs::write(&path, text).expect("written");
            let (mut file, kept) = OverridesFile::open(Some(path.clone()));
            assert_eq!(kept, KeptOverrides::default());
            assert!(file.write(&kept).is_err());
            assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
            std::fs::remove_file(&path).expect("removed");
            assert_eq!(file.write(&kept), Ok(()));
        }
    }
}
