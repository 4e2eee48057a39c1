//! Counts jobs by their values in bounded memory.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use weir_base::clock::Timestamp;

use super::buckets;
use super::features::GroupKind;
use super::interval::wilson;
use crate::key_path::KeyPath;
use crate::model::JobLocation;
use crate::store::StoredJob;
use crate::view::{XrayGroup, XrayRow};

/// Values of one group that are counted by themselves; further ones are counted together. More than a
/// person reads, and more than samples find: their most frequent values are among the first.
const VALUES_MAX: usize = 10_000;

/// Longer values are cut. With all groups full this makes 10 MB for each X-ray that runs.
const VALUE_BYTES_MAX: usize = 128;

/// Which jobs were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// Samples out of `total` jobs.
    Samples { total: u64 },
    /// All of them, or the first of `total`.
    First { total: u64 },
}

/// The counts.
#[derive(Debug)]
pub(crate) struct Tally {
    place: JobLocation,
    by: Option<KeyPath>,
    now: Timestamp,
    pub(crate) read: u64,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    kind: GroupKind,
    values: HashMap<Box<str>, u64, foldhash::fast::RandomState>,
    without_value: u64,
    /// Jobs whose values found no room.
    rest: u64,
}

impl Tally {
    /// Returns a tally for jobs of `place`, with ages as of `now`.
    pub(crate) fn new(place: JobLocation, by: Option<KeyPath>, now: Timestamp) -> Self {
        let kinds = GroupKind::ALL.into_iter().filter(|kind| kind.applies(&place, by.as_ref()));
        let group = |kind| Group { kind, values: HashMap::default(), without_value: 0, rest: 0 };
        let groups = kinds.map(group).collect();
        Self { place, by, now, read: 0, groups }
    }

    /// Counts a job.
    pub(crate) fn add(&mut self, job: &StoredJob) {
        self.read += 1;
        for group in &mut self.groups {
            group.add(group.kind.value(job, &self.place, self.by.as_ref(), self.now));
        }
    }

    /// Sets all counts to zero and keeps the values: samples find the frequent ones, so that these have
    /// room when all jobs are counted.
    pub(crate) fn start_over(&mut self) {
        self.read = 0;
        for group in &mut self.groups {
            group.values.values_mut().for_each(|count| *count = 0);
            (group.without_value, group.rest) = (0, 0);
        }
    }

    /// Returns the groups, each with up to `top` rows, the most frequent values first.
    pub(crate) fn groups(&self, coverage: Coverage, top: usize) -> Vec<XrayGroup> {
        self.groups.iter().map(|group| self.view(group, coverage, top)).collect()
    }

    fn view(&self, group: &Group, coverage: Coverage, top: usize) -> XrayGroup {
        let found = group.values.iter().filter(|(_, count)| **count > 0);
        let mut values: Vec<(&str, u64)> = found.map(|(value, count)| (&**value, *count)).collect();
        values.sort_unstable_by_key(|(value, count)| (Reverse(*count), *value));
        let others = values.split_off(values.len().min(top));
        if group.kind.has_ranges() {
            values.sort_by_key(|(value, _)| buckets::rank(value));
        }
        let row = |value: Option<&str>, count| self.row(value, count, coverage);
        let without = (group.without_value > 0).then(|| row(None, group.without_value));
        let rest = group.rest + others.iter().map(|(_, count)| count).sum::<u64>();
        XrayGroup {
            by: group.kind.label().to_owned(),
            rows: values.iter().map(|(value, count)| row(Some(value), *count)).collect(),
            without_value: without,
            other: (rest > 0).then(|| row(None, rest)),
            other_values: others.len() as u64,
            has_more_values: group.rest > 0,
        }
    }

    fn row(&self, value: Option<&str>, count: u64, coverage: Coverage) -> XrayRow {
        let (total, (low, high)) = match coverage {
            Coverage::Samples { total } => (total, wilson(count, self.read)),
            // What is certain: none or all of those that were not read may have the value.
            Coverage::First { total } => {
                let unread = total.saturating_sub(self.read);
                let certain = |jobs: u64| ratio(jobs, total.max(self.read));
                (total.max(self.read), (certain(count), certain(count + unread)))
            }
        };
        let share = ratio(count, self.read);
        let jobs = |share: f64| part(share, total);
        XrayRow {
            value: value.map(str::to_owned),
            read: count,
            share,
            share_low: low,
            share_high: high,
            jobs: jobs(share),
            jobs_low: jobs(low).max(count),
            jobs_high: jobs(high),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is between 0 and 1, so that the result is between 0 and `whole`"
)]
fn part(share: f64, whole: u64) -> u64 {
    (share * whole as f64).round() as u64
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Group {
    fn add(&mut self, value: Option<Cow<'_, str>>) {
        let Some(value) = value else {
            self.without_value += 1;
            return;
        };
        let value = shortened(&value);
        if let Some(count) = self.values.get_mut(&*value) {
            *count += 1;
        } else if self.values.len() < VALUES_MAX {
            self.values.insert(value.into(), 1);
        } else {
            self.rest += 1;
        }
    }
}

fn shortened(value: &str) -> Cow<'_, str> {
    if value.len() <= VALUE_BYTES_MAX {
        return Cow::Borrowed(value);
    }
    let end = (0..=VALUE_BYTES_MAX).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    Cow::Owned(format!("{}\u{2026}", &value[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EntryKey, FailureState, QueueName, SetName};
    use crate::settings::JobServerLimits;
    use crate::store::{ExportedFeatures, JobState};

    const NOW: Timestamp = Timestamp::from_micros(1_795_202_902_000_000);

    fn job(jobtype: &str, json: &str) -> StoredJob {
        StoredJob {
            key: EntryKey { order: 1, jid: "job-00001".into() },
            state: JobState::Enqueued,
            jobtype: jobtype.into(),
            queue: QueueName::parse("default", &JobServerLimits::default()).unwrap(),
            at: NOW - std::time::Duration::from_secs(5),
            retry: 25,
            reserve_for_seconds: 1_800,
            failure: None,
            json: json.as_bytes().to_vec(),
            features: ExportedFeatures::default(),
        }
    }

    fn rows(group: &XrayGroup) -> Vec<(Option<&str>, u64)> {
        group.rows.iter().map(|row| (row.value.as_deref(), row.read)).collect()
    }

    #[test]
    fn jobs_are_counted_by_every_value() {
        let place = JobLocation::Set(SetName::Retries);
        let mut tally = Tally::new(place, Some("custom.tenant".parse().unwrap()), NOW);
        let created = crate::stamp::rfc3339(NOW - std::time::Duration::from_secs(7_200));
        for tenant in ["\"a\"", "\"b\"", "\"a\""] {
            let json = format!(r#"{{"custom":{{"tenant":{tenant}}},"created_at":"{created}"}}"#);
            let mut job = job("Mail", &json);
            let errtype = "Timeout".to_owned();
            job.failure = Some(FailureState { errtype, ..FailureState::default() });
            job.at = NOW + std::time::Duration::from_secs(30);
            tally.add(&job);
        }
        tally.add(&job("Report", "no JSON at all"));
        let groups = tally.groups(Coverage::First { total: 4 }, 10);
        let of = |by: &str| groups.iter().find(|group| group.by == by).unwrap();
        assert_eq!(rows(of("jobtype")), [(Some("Mail"), 3), (Some("Report"), 1)]);
        assert_eq!(rows(of("queue")), [(Some("default"), 4)]);
        assert_eq!(rows(of("key")), [(Some("a"), 2), (Some("b"), 1)]);
        assert_eq!(of("key").without_value.as_ref().unwrap().read, 1);
        assert_eq!(rows(of("error")), [(Some("Timeout"), 3)]);
        assert_eq!(rows(of("age")), [(Some("1 h to 6 h"), 3)]);
        assert_eq!(rows(of("due")), [(Some("under 1 s"), 1), (Some("10 s to 1 min"), 3)]);
        assert_eq!(rows(of("size")), [(Some("under 256 B"), 4)]);
        let row = &of("jobtype").rows[0];
        assert_eq!((row.jobs, row.jobs_low, row.jobs_high, row.share), (3, 3, 3, 0.75));
    }

    #[test]
    fn memory_is_bounded_and_frequent_values_keep_their_room() {
        let place = JobLocation::Set(SetName::Dead);
        let mut tally = Tally::new(place, None, NOW);
        tally.add(&job("Frequent", "{}"));
        tally.start_over();
        for n in 0..VALUES_MAX + 50 {
            tally.add(&job(&format!("{n}-{}", "\u{e9}".repeat(VALUE_BYTES_MAX)), "{}"));
        }
        tally.add(&job("Frequent", "{}"));
        let groups = tally.groups(Coverage::First { total: 20_000 }, 2);
        let jobtypes = &groups[0];
        let longest = jobtypes.rows.iter().filter_map(|row| row.value.as_ref()).map(String::len);
        assert!(longest.max().unwrap() <= VALUE_BYTES_MAX + 3);
        assert_eq!(tally.groups[0].values["Frequent"], 1);
        assert_eq!(tally.groups[0].rest, 51);
        assert_eq!((jobtypes.rows.len(), jobtypes.has_more_values), (2, true));
        assert_eq!(jobtypes.other.as_ref().unwrap().read, VALUES_MAX as u64 + 49);
        assert_eq!(jobtypes.other_values, VALUES_MAX as u64 - 2);
    }

    #[test]
    fn bounds_are_those_of_samples_or_of_what_is_certain() {
        let mut tally = Tally::new(JobLocation::Set(SetName::Dead), None, NOW);
        for jobtype in ["A", "A", "A", "B"] {
            tally.add(&job(jobtype, "{}"));
        }
        let first = |coverage| tally.groups(coverage, 10).remove(0).rows.remove(0);
        let part = first(Coverage::First { total: 10 });
        assert_eq!((part.share, part.share_low, part.share_high), (0.75, 0.3, 0.9));
        assert_eq!((part.jobs_low, part.jobs_high), (3, 9));
        let samples = first(Coverage::Samples { total: 1_000 });
        assert_eq!((samples.read, samples.jobs), (3, 750));
        assert!((samples.share_low - 0.300_642).abs() < 1e-5, "{}", samples.share_low);
        assert!((samples.share_high - 0.954_413).abs() < 1e-5, "{}", samples.share_high);
    }
}
