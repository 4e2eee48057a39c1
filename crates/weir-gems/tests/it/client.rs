//! A client's copy of `/versions`, updated and parsed as Bundler does it.

use std::collections::{BTreeMap, BTreeSet};

/// What a client knows about one gem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) versions: BTreeSet<String>,
    pub(crate) md5: String,
}

/// Parses `/versions`.
pub(crate) fn read_versions(text: &[u8]) -> BTreeMap<String, Known> {
    let text = str::from_utf8(text).unwrap();
    let (header, lines) = text.split_once("---\n").unwrap();
    assert!(header.starts_with("created_at: "), "{header}");
    let mut all = BTreeMap::<String, Known>::new();
    for line in lines.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [name, versions, md5] = words[..] else { panic!("a line of three words: {line}") };
        let known = all.entry(name.to_owned()).or_default();
        md5.clone_into(&mut known.md5);
        for version in versions.split(',') {
            match version.strip_prefix('-') {
                Some(version) => assert!(known.versions.remove(version), "{line}"),
                None => assert!(known.versions.insert(version.to_owned()), "{line}"),
            }
        }
    }
    all
}

/// Returns the versions of an `/info`, in order.
pub(crate) fn versions_of_info(text: &[u8]) -> Vec<String> {
    let text = str::from_utf8(text).unwrap();
    let lines = text.strip_prefix("---\n").unwrap().lines();
    lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// Returns the names of `/names`.
pub(crate) fn read_names(text: &[u8]) -> Vec<String> {
    let text = str::from_utf8(text).unwrap();
    text.strip_prefix("---\n").unwrap().lines().map(str::to_owned).collect()
}
