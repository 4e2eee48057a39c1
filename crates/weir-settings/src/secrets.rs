//! Secrets come from the environment or a file, never from the settings file itself, so that it
//! can be shown, copied and committed.

use std::fs;
use std::path::Path;

use toml::de::DeValue;
use weir_base::secret::Secret;

/// Looks up an environment variable; the binary gives the process's own, tests give their own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A secret is one line; a larger file is the wrong file.
const SECRET_BYTES_MAX: u64 = 64 << 10;

const HOW: &str = "write { env = \"NAME\" } or { file = \"PATH\" }";

/// Reads `{ env = "NAME" }` or `{ file = "PATH" }`; the error says what is missing.
pub fn read(
    value: &DeValue<'_>,
    folder: &Path,
    environment: Environment<'_>,
) -> Result<Secret, String> {
    let Some(table) = value.as_table() else {
        return Err(format!("a secret must not be in this file; {HOW}"));
    };
    let mut entries = table.iter();
    let (Some((key, source)), None) = (entries.next(), entries.next()) else {
        return Err(format!("a secret has one source; {HOW}"));
    };
    let source = source.get_ref().as_str().ok_or_else(|| HOW.to_owned())?;
    let secret = match key.get_ref().as_ref() {
        "env" => Secret::new(
            environment(source)
                .ok_or_else(|| format!("the environment variable {source} is not set"))?,
        ),
        "file" => of_file(&folder.join(source))?,
        other => return Err(format!("a secret has no source {other:?}; {HOW}")),
    };
    if secret.expose().is_empty() {
        return Err(format!("the secret from {source} is empty"));
    }
    Ok(secret)
}

/// Reads the secret in `path`. It remembers the file, so that a connection can read it again.
pub fn of_file(path: &Path) -> Result<Secret, String> {
    read_file(path).map(|text| Secret::of_file(path.to_owned(), text))
}

/// The file's text without the newline that editors end it with.
pub fn read_file(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let bytes = fs::metadata(path).map_err(cannot)?.len();
    if bytes > SECRET_BYTES_MAX {
        let path = path.display();
        return Err(format!("{path} has {bytes} bytes; a secret has at most {SECRET_BYTES_MAX}"));
    }
    let text = fs::read_to_string(path).map_err(cannot)?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
