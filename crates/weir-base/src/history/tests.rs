use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use proptest::prelude::*;

use super::*;

const HOUR: u64 = 3_600;
/// A whole minute, far from zero.
const START: u64 = 1_700_000_040;

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(second * 1_000)
}

fn settings(directory: &Path) -> HistorySettings {
    HistorySettings {
        directory: directory.to_owned(),
        seconds_kept: Duration::from_secs(600),
        minutes_kept: Duration::from_secs(4 * HOUR),
        memory_rows_max: 100,
    }
}

fn read(
    history: &MetricsHistory,
    name: &str,
    from: u64,
    to: u64,
    points_max: usize,
) -> Vec<Option<Band>> {
    let query = HistoryQuery { series: &[name], from: at(from), to: at(to), points_max };
    history.query(&query).columns.remove(0)
}

fn means(points: &[Option<Band>]) -> Vec<Option<f64>> {
    points.iter().map(|point| point.map(|band| band.mean)).collect()
}

#[test]
fn seconds_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let history = MetricsHistory::open(&settings(folder.path()), &["jobs", "errors"]);
    history.append(at(START), &[5.0, f64::NAN]);
    history.append(at(START + 2), &[7.0, 1.0]);
    drop(history);
    let history = MetricsHistory::open(&settings(folder.path()), &["jobs", "errors"]);
    let jobs = read(&history, "jobs", START, START + 3, 10);
    assert_eq!(means(&jobs), [Some(5.0), None, Some(7.0)]);
    let errors = read(&history, "errors", START, START + 3, 10);
    assert_eq!(means(&errors), [None, None, Some(1.0)]);
    assert_eq!(means(&read(&history, "nobody", START, START + 1, 10)), [None]);
    assert_eq!(history.condition(), HistoryCondition::OnDisk);
}

#[test]
fn minute_across_a_restart_is_folded() {
    let folder = tempfile::tempdir().unwrap();
    let history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
    for second in 0..60 {
        history.append(at(START + second), &[f64::from(u32::try_from(second).unwrap())]);
    }
    drop(history);
    let history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
    history.append(at(START + 2 * HOUR), &[0.0]);
    let points = read(&history, "jobs", START, START + HOUR, 60);
    assert_eq!(points[0], Some(Band { min: 0.0, mean: 29.5, max: 59.0 }));
    assert_eq!(points.iter().flatten().count(), 1);
}

#[test]
fn long_chart_ends_with_seconds_of_the_current_minute() {
    let folder = tempfile::tempdir().unwrap();
    let history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
    for second in 0..2 * HOUR + 30 {
        history.append(at(START + second), &[1.0]);
    }
    let points = read(&history, "jobs", START, START + 2 * HOUR + 60, 121);
    assert_eq!(points.len(), 121);
    assert!(points.iter().all(Option::is_some), "{points:?}");
}

#[test]
fn torn_row_is_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
    for second in 0..10 {
        history.append(at(START + second), &[1.0]);
    }
    drop(history);
    let path = folder.path().join("seconds.ring");
    let row = row::bytes(1);
    let slot = (START + 4) % 600;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 3], 4096 + slot * row as u64 + 18).unwrap();
    let history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
    let points = read(&history, "jobs", START, START + 10, 10);
    assert_eq!(points.iter().position(Option::is_none), Some(4));
    assert_eq!(points.iter().flatten().count(), 9);
}

#[test]
fn columns_are_matched_by_name_when_the_list_changes() {
    let folder = tempfile::tempdir().unwrap();
    let history = MetricsHistory::open(&settings(folder.path()), &["gone", "kept"]);
    for second in 0..=60 {
        history.append(at(START + second), &[1.0, 2.0]);
    }
    drop(history);
    let history = MetricsHistory::open(&settings(folder.path()), &["kept", "fresh"]);
    assert_eq!(means(&read(&history, "kept", START, START + 1, 1)), [Some(2.0)]);
    assert_eq!(means(&read(&history, "fresh", START, START + 1, 1)), [None]);
    history.append(at(START + 61), &[3.0, 4.0]);
    assert_eq!(means(&read(&history, "fresh", START + 61, START + 62, 1)), [Some(4.0)]);
    let old = read(&history, "kept", START - 2 * HOUR, START + 60, 1);
    assert_eq!(means(&old), [Some(2.0)], "minutes are carried over too");
}

#[test]
fn file_with_invalid_header_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("seconds.ring"), b"something else").unwrap();
    let history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
    history.append(at(START), &[1.0]);
    assert_eq!(means(&read(&history, "jobs", START, START + 1, 1)), [Some(1.0)]);
    let aside = fs::read(folder.path().join("seconds.damaged")).unwrap();
    assert_eq!(aside, b"something else");
}

#[test]
fn rows_wait_in_memory_until_the_folder_is_available() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("history");
    fs::write(&blocked, b"a file where the folder should be").unwrap();
    let history = MetricsHistory::open(&settings(&blocked), &["jobs"]);
    for second in 0..300 {
        history.append(at(START + second), &[1.0]);
    }
    let HistoryCondition::InMemory(problem) = history.condition() else { panic!("it must say so") };
    assert!(problem.contains("history"), "{problem}");
    let points = read(&history, "jobs", START, START + 300, 300);
    assert_eq!(points.iter().flatten().count(), 100, "memory_rows_max");
    fs::remove_file(&blocked).unwrap();
    for second in 300..500 {
        history.append(at(START + second), &[1.0]);
    }
    let points = read(&history, "jobs", START + 300, START + 500, 300);
    assert_eq!(points.iter().flatten().count(), 200);
    drop(history);
    let history = MetricsHistory::open(&settings(&blocked), &["jobs"]);
    assert_eq!(read(&history, "jobs", START + 499, START + 500, 1).iter().flatten().count(), 1);
}

#[test]
fn ring_files_have_a_fixed_size() {
    let folder = tempfile::tempdir().unwrap();
    let history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
    for second in 0..3_000 {
        history.append(at(START + second), &[1.0]);
    }
    let bytes = |name: &str| fs::metadata(folder.path().join(name)).unwrap().len();
    assert!(bytes("seconds.ring") <= 4096 + 600 * row::bytes(1) as u64);
    assert!(bytes("minutes.ring") <= 4096 + 240 * row::bytes(3) as u64);
}

#[test]
#[should_panic(expected = "one value per column")]
fn row_of_the_wrong_width_panics() {
    let folder = tempfile::tempdir().unwrap();
    MetricsHistory::open(&settings(folder.path()), &["jobs"]).append(at(START), &[]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever moments are written, with jumps both ways and restarts in between: a chart shows
    /// the last value written for each second that the ring still holds, and nothing else.
    #[test]
    fn ring_returns_the_last_written_rows(
        rows in prop::collection::vec((0_u64..1_500, 0_u32..1_000, prop::bool::weighted(0.05)), 1..120)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
        let mut slots: BTreeMap<u64, (u64, f64)> = BTreeMap::new();
        for (second, value, restart) in rows {
            if restart {
                drop(history);
                history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
            }
            history.append(at(START + second), &[f64::from(value)]);
            slots.insert((START + second) % 600, (START + second, f64::from(value)));
        }
        for from in [START, START + 450, START + 900] {
            let points = means(&read(&history, "jobs", from, from + 600, 600));
            let mut expected = vec![None; 600];
            for (second, value) in slots.values() {
                if (from..from + 600).contains(second) {
                    expected[usize::try_from(second - from).unwrap()] = Some(*value);
                }
            }
            prop_assert_eq!(points, expected);
        }
    }

    /// Downsampling keeps the extremes and the mean, at any width.
    #[test]
    fn downsampling_keeps_extremes(
        values in prop::collection::vec(-1e9_f64..1e9, 1..600), points_max in 1_usize..700
    ) {
        let folder = tempfile::tempdir().unwrap();
        let history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
        for (second, value) in (START..).zip(&values) {
            history.append(at(second), &[*value]);
        }
        let points = read(&history, "jobs", START, START + values.len() as u64, points_max);
        prop_assert!(points.len() <= points_max);
        let known: Vec<Band> = points.into_iter().flatten().collect();
        let least = known.iter().map(|band| band.min).fold(f64::INFINITY, f64::min);
        let greatest = known.iter().map(|band| band.max).fold(f64::NEG_INFINITY, f64::max);
        prop_assert_eq!(least, values.iter().copied().fold(f64::INFINITY, f64::min));
        prop_assert_eq!(greatest, values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        prop_assert!(known.iter().all(|band| band.min <= band.mean && band.mean <= band.max));
    }

    /// No bytes make the opening fail or panic.
    #[test]
    fn any_file_can_be_opened(bytes in prop::collection::vec(any::<u8>(), 0..2_000), head in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let shape = RingShape::new(&["jobs"], SECOND, Duration::from_secs(600), 1);
        let mut content = if head { header::encode(&shape) } else { Vec::new() };
        content.extend_from_slice(&bytes);
        fs::write(folder.path().join("seconds.ring"), content).unwrap();
        let history = MetricsHistory::open(&settings(folder.path()), &["jobs"]);
        history.append(at(START), &[1.0]);
        prop_assert_eq!(means(&read(&history, "jobs", START, START + 1, 1)), vec![Some(1.0)]);
    }
}
