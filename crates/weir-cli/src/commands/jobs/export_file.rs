//! The file that an export writes. An export that was interrupted continues behind its last line.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, bail};
use weir_jobs::export_lines::{ExportEnd, ExportLine, ExportTally};

use crate::exit::WrongUsage;

/// An open export.
pub(super) struct ExportFile {
    writer: Box<dyn Write>,
    /// For the sync at the end. `None`: it is no regular file.
    file: Option<File>,
    name: String,
    start: ExportStart,
    tally: ExportTally,
}

/// Where an export starts.
#[derive(Debug, Default)]
struct ExportStart {
    /// Places all of whose jobs are in the file.
    complete: HashSet<String>,
    /// The last place in the file, and the key behind which it continues.
    last: Option<(String, String)>,
    bytes: u64,
}

impl ExportFile {
    pub(super) fn open(path: &Path, resume: bool) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let (start, tally) = (ExportStart::default(), ExportTally::default());
        if path == Path::new("-") {
            if resume {
                return Err(WrongUsage::new("--resume needs --output FILE").into());
            }
            let writer = Box::new(BufWriter::new(std::io::stdout()));
            return Ok(Self { writer, file: None, name, start, tally });
        }
        if resume {
            return Self::open_again(path, name);
        }
        let is_regular = !path.exists() || path.is_file();
        let mut options = File::options();
        // Arguments of jobs may be private.
        options.write(true).create_new(is_regular).mode(0o600);
        let file = options.open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => anyhow::anyhow!(
                "{name} exists; continue an export that was interrupted with --resume, or choose another name"
            ),
            _ => anyhow::Error::new(error).context(format!("cannot write {name}")),
        })?;
        let writer = Box::new(BufWriter::new(file.try_clone()?));
        Ok(Self { writer, file: Some(file).filter(|_| is_regular), name, start, tally })
    }

    fn open_again(path: &Path, name: String) -> anyhow::Result<Self> {
        let file = File::options().read(true).write(true).open(path);
        let mut file = file.with_context(|| format!("cannot continue {name}"))?;
        let mut tally = ExportTally::default();
        let start = ExportStart::read(BufReader::new(&file), &mut tally)
            .with_context(|| format!("cannot continue {name}"))?;
        file.set_len(start.bytes)?;
        file.seek(SeekFrom::Start(start.bytes))?;
        let writer = Box::new(BufWriter::new(file.try_clone()?));
        Ok(Self { writer, file: Some(file), name, start, tally })
    }

    pub(super) const fn is_continued(&self) -> bool {
        self.start.bytes > 0
    }

    pub(super) fn has_all_of(&self, place: &str) -> bool {
        self.start.complete.contains(place)
    }

    /// Returns the key behind which the place continues, if the file ends in it.
    pub(super) fn take_key(&mut self, place: &str) -> Option<String> {
        self.start.last.take_if(|(last, _)| last == place).map(|(_, key)| key)
    }

    /// Writes bytes of the lines of a place. Returns the number of lines that end in them.
    pub(super) fn write(&mut self, place: &str, piece: &[u8]) -> anyhow::Result<u64> {
        let lines = piece.iter().filter(|&&byte| byte == b'\n').count();
        let lines = u64::try_from(lines).unwrap_or_default();
        self.tally.add_text(piece);
        self.tally.add_jobs(place, lines);
        self.writer.write_all(piece).with_context(|| format!("cannot write {}", self.name))?;
        Ok(lines)
    }

    pub(super) fn jobs_of(&self, place: &str) -> u64 {
        self.tally.jobs_of(place)
    }

    /// Writes the end line. Returns once everything is on the disk.
    pub(super) fn finish(&mut self) -> anyhow::Result<ExportEnd> {
        let end = self.tally.end();
        let written = self.writer.write_all(end.line().as_bytes());
        let flushed = written.and_then(|()| self.writer.flush());
        flushed
            .and_then(|()| self.file.as_ref().map_or(Ok(()), File::sync_all))
            .with_context(|| format!("cannot write {}", self.name))?;
        Ok(end)
    }

    /// Says what an error leaves behind.
    pub(super) fn incomplete(&self) -> String {
        match self.file {
            Some(_) => {
                format!("{} is incomplete; continue with the same command and --resume", self.name)
            }
            None => "the export is incomplete".to_owned(),
        }
    }
}

impl ExportStart {
    /// Reads the jobs that are in the file. A line that was cut off is not, nor are jobs in progress,
    /// which are exported again.
    fn read(mut file: impl BufRead, tally: &mut ExportTally) -> anyhow::Result<Self> {
        let mut start = Self::default();
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            file.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let parsed = ExportLine::parse(&line)
                .with_context(|| format!("line {number} is not from an export"))?;
            if let Some(end) = parsed.end() {
                bail!("it is complete: its end line counts {} jobs", end.jobs - end.entries());
            }
            let key = parsed.key();
            let Some(place) = parsed.place.filter(|_| parsed.job.is_some()) else {
                bail!("line {number} is not from an export");
            };
            let Some(key) = key else { break };
            start.add(place, key, &line, tally);
        }
        Ok(start)
    }

    fn add(&mut self, place: String, key: String, line: &[u8], tally: &mut ExportTally) {
        tally.add_text(line);
        tally.add_jobs(&place, 1);
        self.bytes += line.len() as u64;
        let before = self.last.replace((place, key));
        if let Some((before, _)) =
            before.filter(|it| self.last.as_ref().map(|it| &it.0) != Some(&it.0))
        {
            self.complete.insert(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(place: &str, key: &str) -> String {
        format!("{{\"place\":\"{place}\",\"at\":\"\",\"key\":\"{key}\",\"job\":{{}}}}\n")
    }

    fn read(text: &str) -> anyhow::Result<(ExportStart, ExportEnd)> {
        let mut tally = ExportTally::default();
        ExportStart::read(text.as_bytes(), &mut tally).map(|start| (start, tally.end()))
    }

    #[test]
    fn an_export_continues_behind_its_last_whole_line() {
        let whole = [line("dead", "1|a"), line("queue:q", "2|b"), line("queue:q", "3|c")].concat();
        for rest in ["", "{\"place\":\"queue:q\",\"k", "{\"place\":\"queue:w\",\"job\":{}}\n"] {
            let (start, end) = read(&format!("{whole}{rest}")).unwrap();
            assert_eq!(start.complete, HashSet::from(["dead".to_owned()]));
            assert_eq!(start.last, Some(("queue:q".to_owned(), "3|c".to_owned())));
            assert_eq!((start.bytes, end.jobs), (whole.len() as u64, 3));
        }
        assert_eq!(read("").unwrap().1.jobs, 0);
    }

    #[test]
    fn other_files_are_not_continued() {
        let error = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(
            error("{\"end\":{\"jobs\":0,\"places\":{},\"sha256\":\"\"}}\n").contains("complete")
        );
        let mixed = format!("{}no JSON\n", line("dead", "1|a"));
        assert!(error(&mixed).starts_with("line 2 is not from an export"));
        assert!(error("{\"jid\":\"plain\"}\n").starts_with("line 1 is not from an export"));
    }
}
