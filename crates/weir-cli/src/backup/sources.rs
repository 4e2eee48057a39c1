//! What a backup copies, from a running Weir or from the data directory of a stopped one.
//!
//! Segments are opened at once, so that a segment which Weir deletes while the backup runs, or
//! whose Weir is killed, stays readable until it is copied.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use hyper::StatusCode;
use weir_admin::realtime::SavedHistories;
use weir_base::clock::{Clock, Timestamp};
use weir_config::{Settings, StoreKind};
use weir_jobs::settings::StoreKind as JobStoreKind;
use weir_jobs::view::{BackupPoint, BackupSegment};
use weir_log::RealDisk;

use super::discarded;
use super::gems::{self, GemFiles};
use super::manifest::{Discarded, JobLogPart, MILLIS_PER_SECOND, PartNote};
use super::open::{open_if_present, raise_descriptor_limit};
use super::times::{last_marked_second, marks_until, restorable_from};
use crate::admin_client::{AdminClient, Refused};
use crate::output::count;

/// Attempts to open the segments of one state of the log. Weir deletes a segment only after another
/// one was filled, which takes longer than opening all of them.
const ATTEMPTS_MAX: usize = 5;
/// Files of the job log besides its segments.
const LOG_FILES: [&str; 2] = ["damaged.log", "damaged.acknowledged.log"];

/// What is copied.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) at: Timestamp,
    pub(crate) jobs: Option<JobLogPart>,
    pub(crate) parts: Vec<PartNote>,
    pub(crate) files: Vec<Source>,
    /// The `.gem` files, to be listed once the index is copied: a file is there before the index
    /// refers to it, and stays as long as it does.
    pub(crate) gem_files: Option<GemFiles>,
}

/// A file to copy.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to `data_dir`.
    pub(crate) path: String,
    pub(crate) content: Content,
}

/// Where a file's content comes from.
#[derive(Debug)]
pub(crate) enum Content {
    /// The first bytes of a file that no longer changes.
    Sealed(File, u64),
    /// A file that is named by its content, opened when it is copied.
    Named(PathBuf),
    /// The first bytes of a file that may grow.
    Prefix(File, u64),
    Bytes(Vec<u8>),
    /// An SQLite database.
    Database(PathBuf),
}

impl Sources {
    /// Collects the files of a running Weir.
    pub(crate) async fn of_running(
        settings: &Settings,
        client: &mut AdminClient,
        clock: &Clock,
    ) -> anyhow::Result<Self> {
        let mut sources = Self::new(clock.now());
        sources.add_gems(settings);
        sources.add_operator_files(settings)?;
        match optional(client.post::<SavedHistories>("/v1/realtime/backup", &()).await)? {
            Ok(saved) => sources.add_saved_histories(&saved, &settings.backup_histories_file())?,
            Err(refused) => sources.note("realtime", false, &refused.to_string()),
        }
        sources.add_jobs_of_running(settings, client).await?;
        Ok(sources)
    }

    /// Collects the files of a stopped Weir, whose directory is locked.
    pub(crate) fn of_stopped(settings: &Settings, clock: &Clock) -> anyhow::Result<Self> {
        let mut sources = Self::new(clock.now());
        sources.add_gems(settings);
        sources.add_operator_files(settings)?;
        sources.add_histories(settings)?;
        sources.add_jobs_of_stopped(settings)?;
        Ok(sources)
    }

    const fn new(at: Timestamp) -> Self {
        Self { at, jobs: None, parts: Vec::new(), files: Vec::new(), gem_files: None }
    }

    fn note(&mut self, part: &str, is_included: bool, note: &str) {
        self.parts.push(PartNote { part: part.to_owned(), is_included, note: note.to_owned() });
    }

    fn add(&mut self, path: String, content: Content) {
        self.files.push(Source { path, content });
    }

    // --- Jobs ------------------------------------------------------------------------------

    async fn add_jobs_of_running(
        &mut self,
        settings: &Settings,
        client: &mut AdminClient,
    ) -> anyhow::Result<()> {
        let directory = &settings.jobs.settings.directory;
        for _ in 0..ATTEMPTS_MAX {
            let point: BackupPoint =
                match optional(client.post("/v1/jobs/backup-point", &()).await)? {
                    Ok(point) => point,
                    Err(refused) => return self.add_no_jobs(settings, &refused),
                };
            if let Some(opened) = open_segments(directory, &point)? {
                self.at = Timestamp::from_millis(point.at_ms);
                return self.add_log(directory, point, opened);
            }
        }
        bail!(
            "the segments in {} were deleted faster than they could be opened; run the backup again",
            directory.display()
        )
    }

    /// Notes that the running Weir has no job log, unless there is one that it does not serve: a
    /// backup without these jobs must not look like a success.
    fn add_no_jobs(&mut self, settings: &Settings, refused: &Refused) -> anyhow::Result<()> {
        let directory = &settings.jobs.settings.directory;
        let is_embedded = settings.jobs.settings.store == JobStoreKind::Embedded;
        if refused.status == StatusCode::NOT_FOUND && is_embedded && has_segments(directory)? {
            bail!(
                "{shown} has a job log that the running Weir does not serve ({refused}). If it runs \
                 with --only, add jobs to it; if it is an older version, run `weir upgrade`; if jobs \
                 are in another store, name the settings with --config, or move {shown} away",
                shown = directory.display()
            );
        }
        self.note("jobs", false, &refused.to_string());
        Ok(())
    }

    fn add_jobs_of_stopped(&mut self, settings: &Settings) -> anyhow::Result<()> {
        let directory = &settings.jobs.settings.directory;
        if settings.jobs.settings.store != JobStoreKind::Embedded {
            self.note("jobs", false, "they are not in the embedded store (jobs.store)");
            return Ok(());
        }
        let extent = match directory.is_dir() {
            true => weir_log::extent(&RealDisk::read_only(directory))
                .context("start Weir once, which repairs the job log, or use a running Weir")?,
            false => None,
        };
        let Some(extent) = extent else {
            self.note("jobs", false, "there are none");
            return Ok(());
        };
        let segments = extent.segments.iter().map(|info| BackupSegment {
            number: info.number,
            bytes: info.bytes,
            sealed: info.sealed,
        });
        let point = BackupPoint {
            log_id: format!("{:016x}", extent.log_id),
            at_ms: self.at.as_millis(),
            segment: extent.end.segment,
            offset: extent.end.offset,
            marked_second: last_marked_second(directory, extent.log_id)?,
            segments: segments.collect(),
        };
        let opened = open_segments(directory, &point)?.context("a segment disappeared")?;
        self.add_log(directory, point, opened)
    }

    fn add_log(
        &mut self,
        directory: &Path,
        point: BackupPoint,
        opened: Vec<(BackupSegment, File)>,
    ) -> anyhow::Result<()> {
        if point.segments.is_empty() {
            self.note("jobs", false, "there are none");
            return Ok(());
        }
        let marks = marks_until(directory, &point)?;
        let BackupPoint { log_id, at_ms, segment, offset, segments, .. } = point;
        let mut part = JobLogPart::new(log_id, segment, offset);
        let id = part.id()?;
        part.restorable_from = restorable_from(directory, id, &segments, &marks);
        part.discarded = discarded_periods(directory)?;
        part.restorable_until = marks.last().map(|last| last.second.min(at_ms / MILLIS_PER_SECOND));
        let held = count(opened.len() as u64, "segment");
        for (segment, file) in opened {
            let path = log_path(&weir_log::segment_file_name(segment.number));
            let bytes = segment.bytes.into();
            let content = match segment.sealed {
                true => Content::Sealed(file, bytes),
                false => Content::Prefix(file, bytes),
            };
            self.add(path, content);
        }
        let index = weir_log::time_marks_file(&marks, id);
        self.add(log_path(weir_log::TIMES_FILE), Content::Bytes(index));
        for name in LOG_FILES {
            self.add_file_if_present(&directory.join(name), log_path(name))?;
        }
        self.note("jobs", true, &format!("{held} with cron state, batches and tracks"));
        self.jobs = Some(part);
        Ok(())
    }

    // --- Other parts -----------------------------------------------------------------------

    fn add_gems(&mut self, settings: &Settings) {
        let gems = &settings.gems;
        let note = if gems.store == StoreKind::Postgres {
            "the .gem files; the index is in Postgres: run pg_dump before each backup"
        } else if gems.sqlite.path.is_file() {
            let index = gems::index_place(settings);
            self.add(index, Content::Database(gems.sqlite.path.clone()));
            "the index and the .gem files"
        } else {
            return self.note("gems", false, "there is no index");
        };
        let (files, note_of_files) = gems::files(settings);
        self.gem_files = Some(files);
        self.note("gems", true, &format!("{note}{note_of_files}"));
    }

    /// Adds what operators have switched and the metrics history.
    fn add_operator_files(&mut self, settings: &Settings) -> anyhow::Result<()> {
        let data_dir = &settings.data_dir;
        let gems_switches = settings.gems.switches_file();
        let mut paths = vec![settings.switches_file(), settings.paused_apps_file(), gems_switches];
        let history = settings.history().directory;
        if history.is_dir() {
            let entries = fs::read_dir(&history).context("cannot read the metrics history")?;
            for entry in entries {
                paths.push(entry?.path());
            }
        }
        let before = self.files.len();
        for path in paths.iter().filter(|path| path.is_file()) {
            let relative = path.strip_prefix(data_dir).unwrap_or(path).to_string_lossy();
            self.add_file_if_present(path, relative.into_owned())?;
        }
        let files = count((self.files.len() - before) as u64, "file");
        self.note("console", true, &format!("switches and metrics history ({files})"));
        Ok(())
    }

    /// Adds the histories that Weir has written to `path`.
    fn add_saved_histories(&mut self, saved: &SavedHistories, path: &Path) -> anyhow::Result<()> {
        if saved.channels == 0 {
            // Left by a backup that was killed, and out of date.
            let _ = fs::remove_file(path);
            let note = "there are no histories here; Redis has them, if it is used";
            self.note("realtime", false, note);
            return Ok(());
        }
        let name = histories_path();
        if !self.add_file_if_present(path, name)? {
            bail!(
                "{} is gone: another backup of this Weir is running; run this one again after it",
                path.display()
            );
        }
        self.note("realtime", true, "histories of channels");
        // It stays readable through its descriptor.
        fs::remove_file(path).context("cannot remove the copy of the histories")
    }

    /// Adds the histories of a stopped Weir: the file that it has saved, and the log of durable ones. A restore
    /// joins them.
    fn add_histories(&mut self, settings: &Settings) -> anyhow::Result<()> {
        let before = self.files.len();
        self.add_file_if_present(&settings.histories_file(), histories_path())?;
        let folder = settings.durable_histories_folder();
        if folder.is_dir() {
            let entries = fs::read_dir(&folder).context("cannot read the durable histories")?;
            for entry in entries {
                let path = entry?.path();
                let relative = path.strip_prefix(&settings.data_dir).unwrap_or(&path);
                self.add_file_if_present(&path, relative.to_string_lossy().into_owned())?;
            }
        }
        match self.files.len() > before {
            true => self.note("realtime", true, "histories of channels"),
            false => self.note("realtime", false, "there are no histories"),
        }
        Ok(())
    }

    /// Adds the file as it is now. Returns whether it exists.
    fn add_file_if_present(&mut self, from: &Path, path: String) -> anyhow::Result<bool> {
        let Some(file) = open_if_present(from)? else { return Ok(false) };
        let bytes = file.metadata()?.len();
        self.add(path, Content::Prefix(file, bytes));
        Ok(true)
    }
}

/// Separates the error of a part that is not served from other errors.
fn optional<T>(response: anyhow::Result<T>) -> anyhow::Result<Result<T, Refused>> {
    const NOT_SERVED: [StatusCode; 2] = [StatusCode::NOT_FOUND, StatusCode::NOT_IMPLEMENTED];
    let refused = match response.map_err(anyhow::Error::downcast::<Refused>) {
        Ok(response) => return Ok(Ok(response)),
        Err(Ok(refused)) if NOT_SERVED.contains(&refused.status) => return Ok(Err(refused)),
        Err(Ok(refused)) => refused.into(),
        Err(Err(error)) => error,
    };
    Err(refused.context("Weir can't be backed up now"))
}

/// Returns what restores have discarded from the log.
fn discarded_periods(directory: &Path) -> anyhow::Result<Vec<Discarded>> {
    let path = directory.join(discarded::FILE);
    let Some(file) = open_if_present(&path)? else { return Ok(Vec::new()) };
    let mut text = String::new();
    let read = file.take(discarded::BYTES_MAX).read_to_string(&mut text);
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(discarded::parse(&text))
}

/// Returns whether the directory has a segment of a job log.
fn has_segments(directory: &Path) -> anyhow::Result<bool> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries.with_context(|| format!("cannot read {}", directory.display()))?,
    };
    for entry in entries {
        if weir_log::segment_number(&entry?.file_name().to_string_lossy()).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Opens the segments of a state of the log. Returns `None` if one of them was deleted since.
fn open_segments(
    directory: &Path,
    point: &BackupPoint,
) -> anyhow::Result<Option<Vec<(BackupSegment, File)>>> {
    raise_descriptor_limit(point.segments.len() as u64)?;
    let mut opened = Vec::with_capacity(point.segments.len());
    for segment in &point.segments {
        let path = directory.join(weir_log::segment_file_name(segment.number));
        let Some(file) = open_if_present(&path)? else { return Ok(None) };
        opened.push((*segment, file));
    }
    Ok(Some(opened))
}

/// Returns the path of the histories of realtime, relative to `data_dir`.
fn histories_path() -> String {
    let path = Settings::default().histories_file();
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the path of a file of the job log, relative to `data_dir`.
pub(crate) fn log_path(name: &str) -> String {
    format!("jobs/{name}")
}
