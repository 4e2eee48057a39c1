//! The lines of an export, and the check that all of them are there.
//!
//! A job is `{"place":"retries","at":"2026-11-20T19:28:22.123456Z","key":"..","job":{..}}`: the queue
//! or set, when the job was due (scheduled, retries), died (dead) or entered its queue, the key behind
//! which an interrupted export continues, and its text with its `failure`, byte for byte as it is sent
//! to a worker. A job in progress is a job of its queue and has no key. `features` before `job` is what the
//! text does not tell ([`crate::view::JobFeaturesView`]). Batches, tracked jobs and cron jobs have lines of
//! the same form, whose places are those of [`StatePlace`]. The last line is
//! `{"end":{"jobs":3,"places":{"dead":1,"queue:default":2},"sha256":".."}}`, with the SHA-256 of all
//! bytes before it. Exports may be concatenated. A line without `place` is a plain job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use weir_base::clock::Timestamp;

use crate::stamp::rfc3339;
use crate::view::{JobFeaturesView, JobView, StateEntry};

/// Places that are counted in one export.
const PLACES_MAX: usize = 100_000;

/// A parsed line.
#[derive(Debug, Deserialize)]
pub struct ExportLine<'a> {
    pub place: Option<String>,
    pub at: Option<String>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    features: Option<&'a RawValue>,
    #[serde(borrow)]
    pub job: Option<&'a RawValue>,
    #[serde(borrow)]
    end: Option<&'a RawValue>,
}

impl<'a> ExportLine<'a> {
    /// Parses a line, with or without its newline.
    pub fn parse(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }

    /// Returns the key behind which an export of the place continues.
    #[must_use]
    pub fn key(&self) -> Option<String> {
        serde_json::from_str(self.key?.get()).ok()
    }

    /// Returns the features of the job. `None`: an older Weir has exported it, or it has none.
    pub fn features(&self) -> Result<Option<JobFeaturesView>, serde_json::Error> {
        self.features.map(|raw| serde_json::from_str(raw.get())).transpose()
    }

    /// Returns the content of an end line.
    #[must_use]
    pub fn end(&self) -> Option<ExportEnd> {
        let end = self.end.filter(|_| self.place.is_none() && self.job.is_none())?;
        serde_json::from_str(end.get()).ok()
    }
}

/// Returns the line of a listed job. A job with an empty key gets none.
#[must_use]
pub fn export_line(place: &str, job: &JobView) -> String {
    let at = rfc3339(Timestamp::from_micros(micros(job.at)));
    let place = serde_json::Value::from(place);
    let key = match &*job.key {
        "" => String::new(),
        key => format!("\"key\":{},", serde_json::Value::from(key)),
    };
    // Other programs store jobs with line breaks. In JSON these are white space between two tokens.
    let text = job.payload.replace(['\n', '\r'], " ");
    let features = job.features.as_ref().and_then(|it| serde_json::to_string(it).ok());
    let features = features.map_or_else(String::new, |json| format!("\"features\":{json},"));
    format!("{{\"place\":{place},\"at\":\"{at}\",{key}{features}\"job\":{text}}}\n")
}

/// The places of lines that are no jobs. They are `{"place":"batches","key":"..","job":{..}}`: a Weir
/// that does not know them rejects each by the name of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatePlace {
    /// The last time and the pause of a cron job.
    Cron,
    /// A batch, before its jobs.
    Batches,
    /// The end of a committed batch's jobs: from then on its callbacks may be due.
    BatchCommits,
    /// The progress of a job.
    Tracks,
}

impl StatePlace {
    /// Those before the jobs.
    pub const BEFORE: [Self; 2] = [Self::Cron, Self::Batches];
    /// Those after the jobs.
    pub const AFTER: [Self; 2] = [Self::BatchCommits, Self::Tracks];

    /// Returns the name in a line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cron => "cron",
            Self::Batches => "batches",
            Self::BatchCommits => "batch-commits",
            Self::Tracks => "tracks",
        }
    }

    /// Returns the place with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::BEFORE.into_iter().chain(Self::AFTER).find(|place| place.as_str() == name)
    }
}

/// Returns the line of an entry that is no job.
#[must_use]
pub fn state_line(place: StatePlace, entry: &StateEntry) -> String {
    let (place, key) = (place.as_str(), serde_json::Value::from(entry.key.as_str()));
    format!("{{\"place\":\"{place}\",\"key\":{key},\"job\":{}}}\n", entry.json)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time after 1970; 53 bits hold microseconds until the year 2255"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

/// What an export contains, as its last line says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportEnd {
    /// Lines of all places.
    pub jobs: u64,
    /// Lines by place.
    pub places: BTreeMap<String, u64>,
    /// Of all bytes before the end line.
    pub sha256: String,
}

impl ExportEnd {
    /// Returns the number of lines of places that are no queue or set.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let entries = self.places.iter().filter(|(place, _)| StatePlace::named(place).is_some());
        entries.map(|(_, lines)| lines).sum()
    }

    /// Returns the end line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}\n", serde_json::json!({ "end": self }))
    }
}

/// Counts and digests what is written to an export.
#[derive(Clone, Debug, Default)]
pub struct ExportTally {
    places: BTreeMap<String, u64>,
    digest: Sha256,
}

impl ExportTally {
    /// Adds bytes of the export.
    pub fn add_text(&mut self, text: &[u8]) {
        self.digest.update(text);
    }

    /// Adds jobs of a place whose bytes are added as well.
    pub fn add_jobs(&mut self, place: &str, jobs: u64) {
        match self.places.get_mut(place) {
            Some(count) => *count += jobs,
            None => {
                self.places.insert(place.to_owned(), jobs);
            }
        }
    }

    /// Returns the number of jobs of a place.
    #[must_use]
    pub fn jobs_of(&self, place: &str) -> u64 {
        self.places.get(place).copied().unwrap_or_default()
    }

    /// Returns the content of the end line.
    #[must_use]
    pub fn end(&self) -> ExportEnd {
        let digest = self.digest.clone().finalize();
        ExportEnd {
            jobs: self.places.values().sum(),
            places: self.places.clone(),
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// Why a file is not what was exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("it has no end line: the export of its {jobs} jobs was interrupted")]
    Unfinished { jobs: u64 },
    #[error(
        "the end line in line {line} says that {expected} jobs were exported; {found} are before it"
    )]
    Count { line: u64, expected: u64, found: u64 },
    #[error(
        "the lines before line {line} were changed: they do not have the SHA-256 of its end line"
    )]
    Changed { line: u64 },
    #[error("line {line}: more than {PLACES_MAX} places")]
    Places { line: u64 },
}

/// Checks exports, line by line.
#[derive(Clone, Debug, Default)]
pub struct ExportCheck {
    lines: u64,
    /// Of the export whose end line has not come yet.
    tally: ExportTally,
    ended: BTreeMap<String, u64>,
    jobs: u64,
}

impl ExportCheck {
    /// Adds the next line, with its newline. A line that cannot be parsed counts as a plain job, which
    /// the server rejects.
    pub fn add(&mut self, line: &[u8]) -> Result<(), ExportError> {
        self.lines += 1;
        let parsed = ExportLine::parse(line).ok();
        if let Some(end) = parsed.as_ref().and_then(ExportLine::end) {
            return self.end(&end);
        }
        self.jobs += u64::from(!line.trim_ascii().is_empty());
        self.tally.add_text(line);
        if let Some(ExportLine { place: Some(place), job: Some(_), .. }) = parsed {
            self.tally.add_jobs(&place, 1);
            if self.tally.places.len() > PLACES_MAX {
                return Err(ExportError::Places { line: self.lines });
            }
        }
        Ok(())
    }

    fn end(&mut self, expected: &ExportEnd) -> Result<(), ExportError> {
        let found = std::mem::take(&mut self.tally).end();
        let line = self.lines;
        if found.jobs != expected.jobs || found.places != expected.places {
            let (expected, found) = (expected.jobs, found.jobs);
            return Err(ExportError::Count { line, expected, found });
        }
        if found.sha256 != expected.sha256 {
            return Err(ExportError::Changed { line });
        }
        for (place, jobs) in found.places {
            *self.ended.entry(place).or_default() += jobs;
        }
        Ok(())
    }

    /// Returns an error if the last export has no end line.
    pub fn finish(&self) -> Result<(), ExportError> {
        let jobs = self.tally.places.values().sum();
        if jobs > 0 { Err(ExportError::Unfinished { jobs }) } else { Ok(()) }
    }

    /// Returns the number of lines that are to be jobs.
    #[must_use]
    pub const fn jobs(&self) -> u64 {
        self.jobs
    }

    /// Returns the number of exported jobs of a place so far.
    #[must_use]
    pub fn jobs_of(&self, place: &str) -> u64 {
        self.ended.get(place).copied().unwrap_or_default() + self.tally.jobs_of(place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::view::JobViewState;

    fn view(payload: &str) -> JobView {
        JobView {
            jid: "job-00001".to_owned(),
            jobtype: "T".to_owned(),
            queue: "default".to_owned(),
            state: JobViewState::Enqueued,
            at: 1_795_202_902.123_456,
            created_at: None,
            retry: 25,
            reserve_for_seconds: 1_800,
            failure: None,
            wid: None,
            payload: payload.to_owned(),
            key: "7|job-00001".to_owned(),
            features: None,
        }
    }

    fn check(lines: &[&str]) -> Result<ExportCheck, ExportError> {
        let mut check = ExportCheck::default();
        lines.iter().try_for_each(|line| check.add(line.as_bytes()))?;
        check.finish().map(|()| check)
    }

    #[test]
    fn a_line_has_the_place_the_time_the_key_and_the_exact_text() {
        let payload = r#"{"args":[1.0, 12345678901234567890,"\n"]}"#;
        let line = export_line("queue:default", &view(payload));
        assert_eq!(
            line,
            format!(
                "{{\"place\":\"queue:default\",\"at\":\"2026-11-20T19:28:22.123456Z\",\"key\":\"7|job-00001\",\"job\":{payload}}}\n"
            )
        );
        let parsed = ExportLine::parse(line.as_bytes()).unwrap();
        assert_eq!(parsed.key().as_deref(), Some("7|job-00001"));
        assert_eq!(parsed.job.unwrap().get(), payload);
        assert_eq!(parsed.features().unwrap(), None);
        let features = JobFeaturesView { failed: true, ..JobFeaturesView::default() };
        let job = JobView { features: Some(features.clone()), ..view("{}") };
        let line = export_line("queue:default", &job);
        assert!(line.contains(r#","features":{"failed":true},"job":{}}"#), "{line}");
        let parsed = ExportLine::parse(line.as_bytes()).unwrap();
        assert_eq!(parsed.features().unwrap(), Some(features));
        let in_progress = JobView { key: String::new(), ..view("{}") };
        assert!(!export_line("queue:default", &in_progress).contains("key"));
    }

    #[test]
    fn a_job_with_line_breaks_stays_in_one_line() {
        let line = export_line("dead", &view("{\n\"args\": [\r\n]}"));
        assert_eq!(line.lines().count(), 1);
        assert_eq!(
            ExportLine::parse(line.as_bytes()).unwrap().job.unwrap().get(),
            "{ \"args\": [  ]}"
        );
    }

    #[test]
    fn what_is_missing_or_changed_is_found() {
        let (first, second) =
            (export_line("dead", &view("{}")), export_line("queue:q", &view("{\"a\":1}")));
        let mut tally = ExportTally::default();
        for (place, line) in [("dead", &first), ("queue:q", &second)] {
            tally.add_text(line.as_bytes());
            tally.add_jobs(place, 1);
        }
        let end = tally.end().line();
        let (first, second, end) = (&*first, &*second, &*end);
        let checked = check(&[first, second, end, first, second, end]).unwrap();
        assert_eq!((checked.jobs_of("dead"), checked.jobs_of("queue:q")), (2, 2));
        assert!(check(&["{\"jid\":\"plain\",\"end\":1}\n", "no JSON\n"]).is_ok());
        let failed = |lines: &[&str]| check(lines).unwrap_err();
        assert_eq!(failed(&[first, second]), ExportError::Unfinished { jobs: 2 });
        let half = ExportError::Count { line: 2, expected: 2, found: 1 };
        assert_eq!(failed(&[second, end]), half);
        let changed = second.replace("\"a\":1", "\"a\":2");
        assert_eq!(failed(&[first, &changed, end]), ExportError::Changed { line: 3 });
        assert_eq!(failed(&["{}\n", first, second, end]), ExportError::Changed { line: 4 });
    }

    proptest! {
        #[test]
        fn any_text_is_one_line_and_no_line_panics(
            place in "\\PC{0,20}",
            argument in "\\PC{0,20}",
            bytes: Vec<u8>,
        ) {
            let payload = serde_json::to_string_pretty(&serde_json::json!([argument])).unwrap();
            let line = export_line(&place, &view(&payload));
            prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
            let parsed = ExportLine::parse(line.as_bytes()).unwrap();
            let value: serde_json::Value = serde_json::from_str(parsed.job.unwrap().get()).unwrap();
            prop_assert_eq!(value, serde_json::json!([argument]));
            prop_assert_eq!(parsed.place, Some(place));
            let _ = ExportCheck::default().add(&bytes);
        }
    }
}
