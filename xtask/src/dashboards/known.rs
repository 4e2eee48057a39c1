//! The existing metrics.
//!
//! Observed metrics are in a table. The names of others are in the code that registers them, whole or as the prefix
//! of the registry and the rest. Both must be string literals in the source of one crate, or the rest in that of
//! [`SHARED`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use weir_advisor::figures::metric::{METRICS, PREFIX};

/// The crate that registers its metrics with the prefixes of other crates.
const SHARED: &str = "weir-net";

/// Suffixes that Prometheus appends.
const SUFFIXES: [&str; 4] = ["_total", "_bucket", "_sum", "_count"];

/// By crate, the string literals that could be names.
#[derive(Debug)]
pub(super) struct Known(BTreeMap<String, BTreeSet<String>>);

impl Known {
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut crates = BTreeMap::new();
        for entry in fs::read_dir(root.join("crates")).context("crates")? {
            let entry = entry?;
            let mut words = BTreeSet::new();
            collect(&entry.path().join("src"), &mut words)?;
            crates.insert(entry.file_name().to_string_lossy().into_owned(), words);
        }
        let shared = crates.get(SHARED).cloned().unwrap_or_default();
        crates.values_mut().for_each(|words| words.extend(shared.iter().cloned()));
        Ok(Self(crates))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        if name.starts_with(PREFIX) {
            return METRICS.iter().any(|metric| metric.series() == name);
        }
        let plain = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        self.0.values().any(|words| [name, plain].iter().any(|name| is_registered(name, words)))
    }
}

fn is_registered(name: &str, words: &BTreeSet<String>) -> bool {
    let in_two =
        |(at, _): (usize, &str)| words.contains(&name[..at]) && words.contains(&name[at + 1..]);
    words.contains(name) || name.match_indices('_').any(in_two)
}

fn collect(folder: &Path, words: &mut BTreeSet<String>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, words)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            words.extend(source.split('"').filter(|word| is_name(word)).map(str::to_owned));
        }
    }
    Ok(())
}

fn is_name(word: &str) -> bool {
    let is_part =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    word.starts_with(|letter: char| letter.is_ascii_lowercase()) && word.chars().all(is_part)
}

/// Returns the names of Weir's metrics in a text. File names such as `weir-observe.json` do not count.
pub(super) fn names(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(move |letter| !is_part(letter));
    words.filter(|word| word.starts_with("weir_")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_are_found_whole_or_in_two_parts() {
        let words = ["weir_front", "app_waiting", "weir_workers_deaths", "queue_seconds"];
        let words: BTreeSet<_> = words.iter().map(ToString::to_string).collect();
        let known = Known(BTreeMap::from([("weir-front".to_owned(), words)]));
        for there in [
            "weir_front_app_waiting",
            "weir_workers_deaths_total",
            "weir_front_queue_seconds_bucket",
        ] {
            assert!(known.has(there), "{there}");
        }
        for missing in
            ["weir_front_app_wating", "weir_workers_death_total", "weir_other_app_waiting"]
        {
            assert!(!known.has(missing), "{missing}");
        }
        assert!(
            known.has("weir_observe_jobs_failed_total") && !known.has("weir_observe_jobs_failed")
        );
    }

    #[test]
    fn names_are_extracted_from_expressions() {
        let text = r#"expr: rate(weir_a_total{app="x"}[5m]) > weir_b # weir-c.yml, not_weir_d"#;
        assert_eq!(names(text).into_iter().collect::<Vec<_>>(), ["weir_a_total", "weir_b"]);
    }

    #[test]
    fn the_metrics_of_this_repository_are_known() {
        let root = crate::root().expect("the repository");
        let known = Known::read(&root).expect("its sources");
        assert!(known.has("weir_front_app_queue_seconds_bucket"));
        assert!(known.has("weir_jobs_wait_seconds_count"));
        assert!(!known.has("weir_jobs_weight_seconds_count"));
    }
}
