//! State that survives a restart in a small JSON file. The file is replaced as a whole, so a crash
//! leaves the old one or the new one. Both functions block on the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads the file at `path`; a missing file gives the default value.
///
/// # Errors
/// The file cannot be read, or is not valid JSON of this type.
pub fn read<T: Default + DeserializeOwned>(path: &Path) -> io::Result<T> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error),
    }
}

/// Replaces the file at `path`.
///
/// # Errors
/// The file, or the temporary file that replaces it, cannot be written. The file is unchanged.
pub fn write<T: Serialize>(path: &Path, kept: &T) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let mut file = File::create(&unfinished)?;
    file.write_all(&serde_json::to_vec_pretty(kept)?)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_value_is_read_and_damage_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kept.json");
        assert_eq!(read::<Vec<u8>>(&path).expect("nothing yet"), Vec::<u8>::new());
        write(&path, &vec![1, 2]).expect("written");
        write(&path, &vec![3]).expect("replaced");
        assert_eq!(read::<Vec<u8>>(&path).expect("read"), [3]);
        fs::write(&path, "[3").expect("written");
        assert_eq!(
            read::<Vec<u8>>(&path).expect_err("cut off").kind(),
            io::ErrorKind::UnexpectedEof
        );
        fs::create_dir(path.with_extension("new")).expect("made");
        assert!(write(&path, &vec![4]).is_err());
        assert_eq!(fs::read(&path).expect("as it was"), b"[3");
    }
}
