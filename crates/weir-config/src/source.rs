//! The source of the settings: a file, or nothing (then the defaults apply).

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::environment;

/// The file that is read when none is named.
pub const FILE_NAME: &str = "weir.toml";

/// The environment variable that names another one.
const VARIABLE: &str = "WEIR_CONFIG";

/// Settings are a few kilobytes; a larger file is the wrong file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of a settings file, with the flags that affect the settings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// Its name in error messages.
    pub name: String,
    pub text: String,
    /// Relative paths start here.
    pub folder: PathBuf,
    /// The flag `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// Whether there was no file, so that the defaults apply.
    pub is_default: bool,
}

/// The settings file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {error}", path.display())]
pub struct SourceError {
    path: PathBuf,
    error: std::io::Error,
}

impl Source {
    /// Reads the file named by `--config`, else by `WEIR_CONFIG`, else `weir.toml` in the current folder
    /// if there is one.
    ///
    /// # Errors
    /// The file that was named does not exist, or a file cannot be read.
    pub fn find(config: Option<&Path>, data_dir: Option<&Path>) -> Result<Self, SourceError> {
        let named = environment::variable(VARIABLE).filter(|path| !path.is_empty());
        let named = named.as_deref().map(Path::new);
        let config = config.or(named);
        let path = config.unwrap_or(Path::new(FILE_NAME));
        let text = match read(path) {
            Ok(text) => Some(text),
            Err(error) if config.is_none() && error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(SourceError { path: path.to_owned(), error }),
        };
        let mut source = Self::of(path, text.as_deref().unwrap_or_default(), data_dir);
        source.is_default = text.is_none();
        Ok(source)
    }

    /// Creates a source from a text, as if it were the file at `path`.
    pub fn of(path: &Path, text: &str, data_dir: Option<&Path>) -> Self {
        Self {
            name: path.display().to_string(),
            text: text.to_owned(),
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            data_dir: data_dir.map(Path::to_owned),
            is_default: false,
        }
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let bytes = fs::metadata(path)?.len();
    if bytes > FILE_BYTES_MAX {
        let text = format!("it has {bytes} bytes; a settings file has at most {FILE_BYTES_MAX}");
        return Err(std::io::Error::other(text));
    }
    fs::read_to_string(path)
}
