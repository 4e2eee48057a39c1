//! A log of lines in two files of limited size, such as JSON objects.
//!
//! `NAME.jsonl` is appended to, and becomes `NAME.1.jsonl` when it has half of the permitted bytes. A line is on the disk
//! when its append returns. A line that a crash has cut off costs only itself: the next one begins a new line. Several
//! processes may append, as while a service process is replaced; a lock of the folder keeps them apart.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The log. All functions block on the disk.
#[derive(Clone, Debug)]
pub struct LineLog {
    directory: PathBuf,
    present: PathBuf,
    earlier: PathBuf,
    bytes_max: u64,
}

impl LineLog {
    /// Creates a log in a folder, which is made with the first line.
    #[must_use]
    pub fn new(directory: &Path, name: &str, bytes_max: u64) -> Self {
        Self {
            directory: directory.to_owned(),
            present: directory.join(format!("{name}.jsonl")),
            earlier: directory.join(format!("{name}.1.jsonl")),
            bytes_max,
        }
    }

    /// Returns the path of the file that is appended to.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.present
    }

    /// Appends a line, which has no newline, and syncs it.
    ///
    /// # Errors
    /// It cannot be written. A part of it may be on the disk, and is skipped by readers.
    pub fn append(&self, line: &[u8]) -> io::Result<()> {
        let folder = self.folder()?;
        folder.lock()?;
        let mut file = self.open()?;
        let mut bytes = file.metadata()?.len();
        let is_new = bytes == 0;
        let is_full = bytes + line.len() as u64 + 1 > self.bytes_max / 2;
        if is_full && !is_new {
            fs::rename(&self.present, &self.earlier)?;
            file = self.open()?;
            bytes = 0;
        }
        let mut text = Vec::with_capacity(line.len() + 2);
        if is_torn(&file, bytes)? {
            text.push(b'\n');
        }
        text.extend_from_slice(line);
        text.push(b'\n');
        file.write_all(&text)?;
        file.sync_data()?;
        if is_new || is_full { folder.sync_all() } else { Ok(()) }
    }

    /// Returns the contents of both files, the earlier one first. A missing file is empty.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(&self) -> io::Result<[Vec<u8>; 2]> {
        let folder = match File::open(&self.directory) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            Err(error) => return Err(error),
        };
        folder.lock_shared()?;
        Ok([read_file(&self.earlier, self.bytes_max)?, read_file(&self.present, self.bytes_max)?])
    }

    /// Opens the folder. Only the last one of its path is made: a data directory that was removed is not made again.
    fn folder(&self) -> io::Result<File> {
        match File::open(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir(&self.directory)?;
                File::open(&self.directory)
            }
            opened => opened,
        }
    }

    fn open(&self) -> io::Result<File> {
        File::options().create(true).append(true).read(true).open(&self.present)
    }
}

/// Returns whether the file ends within a line.
fn is_torn(file: &File, bytes: u64) -> io::Result<bool> {
    let Some(at) = bytes.checked_sub(1) else { return Ok(false) };
    let mut last = [0];
    file.read_exact_at(&mut last, at)?;
    Ok(last != *b"\n")
}

/// Reads at most so many bytes; nothing of a file that is missing.
fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(bytes_max).read_to_end(&mut text).map(|_| text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(text),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(log: &LineLog) -> Vec<String> {
        let text = log.read().expect("read").concat();
        let text = String::from_utf8(text).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_survive_and_a_torn_one_costs_only_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = LineLog::new(&folder.path().join("new"), "test", 1 << 20);
        assert!(lines(&log).is_empty());
        let gone = LineLog::new(&folder.path().join("gone").join("new"), "test", 1 << 20);
        assert!(gone.append(b"lost").is_err() && !folder.path().join("gone").exists());
        log.append(b"first").expect("appended");
        log.append(b"second").expect("appended");
        let whole = fs::read(log.path()).expect("read");
        fs::write(log.path(), &whole[..whole.len() - 3]).expect("cut off");
        LineLog::new(&folder.path().join("new"), "test", 1 << 20)
            .append(b"third")
            .expect("appended");
        assert_eq!(lines(&log), ["first", "seco", "third"]);
    }

    #[test]
    fn bytes_are_bounded_and_the_newest_lines_stay_whoever_appends() {
        let folder = tempfile::tempdir().expect("a folder");
        let logs = [(); 2].map(|()| LineLog::new(folder.path(), "test", 2_000));
        for number in 0..1_000 {
            logs[number % 2].append(format!("line {number}").as_bytes()).expect("appended");
        }
        let lines = lines(&logs[0]);
        assert!(lines.len() > 100);
        let numbers: Vec<usize> = lines
            .iter()
            .map(|line| line.trim_start_matches("line ").parse().expect("a number"))
            .collect();
        assert_eq!(numbers, (1_000 - lines.len()..1_000).collect::<Vec<_>>());
        for file in [&logs[0].present, &logs[0].earlier] {
            assert!(fs::metadata(file).expect("there").len() <= 1_000);
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_works_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = LineLog::new(folder.path(), "test", 1_000);
        fs::create_dir(log.path()).expect("made");
        assert!(log.append(b"lost").is_err());
        fs::remove_dir(log.path()).expect("removed");
        log.append(b"stored").expect("appended");
        assert_eq!(lines(&log), ["stored"]);
    }
}
