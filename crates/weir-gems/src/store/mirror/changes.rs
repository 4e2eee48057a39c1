//! What has to change in a gem's releases so that they are an upstream's. Pure: every store applies
//! the same.

use std::cmp::Ordering;
use std::time::Duration;

use hashbrown::HashMap;
use weir_base::clock::Timestamp;

use crate::release::{Identity, Release};

/// A release that is stored, yanked or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRelease {
    pub(crate) release: Release,
    pub(crate) is_yanked: bool,
}

/// What has to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) insert: Vec<Release>,
    /// Rows that are there and say something else, or are yanked.
    pub(crate) replace: Vec<Release>,
    pub(crate) yank: Vec<Identity>,
    /// What the line in `/versions` has: `-1.0` for what goes, `1.0` for what comes, both for what
    /// says something else.
    pub(crate) line: Vec<String>,
    pub(crate) changed: u64,
}

/// The least by which times differ.
const STEP: Duration = Duration::from_micros(1);

impl Changes {
    /// `wanted` are in the order of the upstream's `/info`, each once; those with the time 0 came
    /// `now`.
    pub(crate) fn between(stored: &[StoredRelease], wanted: Vec<Release>, now: Timestamp) -> Self {
        let mut known: HashMap<&Identity, &StoredRelease> =
            stored.iter().map(|it| (&it.release.identity, it)).collect();
        let mut changes = Self::default();
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for release in in_order(wanted, &known, now) {
            let name = release.identity.to_string();
            match known.remove(&release.identity) {
                None => {
                    come.push(name);
                    changes.insert.push(release);
                }
                Some(old) if old.is_yanked => {
                    come.push(name);
                    changes.replace.push(release);
                }
                Some(old) if !says_the_same(&old.release, &release) => {
                    changes.changed += 1;
                    gone.push(format!("-{name}"));
                    come.push(name);
                    changes.replace.push(release);
                }
                // Only its place has changed.
                Some(old) if old.release != release => changes.replace.push(release),
                Some(_) => {}
            }
        }
        // In the order of what is stored, so that the same change is the same line everywhere.
        for old in stored.iter().filter(|old| !old.is_yanked) {
            if known.contains_key(&old.release.identity) {
                gone.push(format!("-{}", old.release.identity));
                changes.yank.push(old.release.identity.clone());
            }
        }
        changes.line = gone;
        changes.line.append(&mut come);
        changes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.insert.is_empty() && self.replace.is_empty() && self.yank.is_empty()
    }
}

fn says_the_same(one: &Release, other: &Release) -> bool {
    one.dependencies == other.dependencies
        && one.checksum == other.checksum
        && one.ruby == other.ruby
        && one.rubygems == other.rubygems
}

/// Gives each a time so that the order of lines ([`Release::order`]) is theirs. What is stored keeps
/// its time if it can.
fn in_order(
    mut wanted: Vec<Release>,
    known: &HashMap<&Identity, &StoredRelease>,
    now: Timestamp,
) -> Vec<Release> {
    for index in 0..wanted.len() {
        let (before, rest) = wanted.split_at_mut(index);
        let Some(release) = rest.first_mut() else { break };
        release.created_at = match known.get(&release.identity) {
            Some(old) => old.release.created_at,
            None if release.created_at == Timestamp::default() => now,
            None => release.created_at,
        };
        if let Some(previous) = before.last()
            && previous.order(release) != Ordering::Less
        {
            release.created_at = previous.created_at + STEP;
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::release::Checksum;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn release(number: &str, sum: u8) -> Release {
        Release {
            identity: Identity {
                number: number.parse().unwrap(),
                platform: "ruby".parse().unwrap(),
            },
            dependencies: "".parse().unwrap(),
            checksum: Checksum([sum; 32]),
            ruby: None,
            rubygems: None,
            created_at: Timestamp::default(),
        }
    }

    /// What a store does with changes.
    fn applied(stored: &[StoredRelease], changes: &Changes) -> Vec<StoredRelease> {
        let mut all = stored.to_vec();
        for row in &mut all {
            row.is_yanked |= changes.yank.contains(&row.release.identity);
            let new = changes.replace.iter().find(|it| it.identity == row.release.identity);
            if let Some(new) = new {
                *row = StoredRelease { release: new.clone(), is_yanked: false };
            }
        }
        let new = changes.insert.iter().cloned();
        all.extend(new.map(|release| StoredRelease { release, is_yanked: false }));
        all
    }

    fn step(stored: &[StoredRelease], wanted: &[(u8, u8)]) -> (Vec<StoredRelease>, Changes) {
        let wanted: Vec<_> =
            wanted.iter().map(|(number, sum)| release(&number.to_string(), *sum)).collect();
        let changes = Changes::between(stored, wanted, NOW);
        (applied(stored, &changes), changes)
    }

    fn live(stored: &[StoredRelease]) -> Vec<(String, u8)> {
        let mut live: Vec<_> =
            stored.iter().filter(|it| !it.is_yanked).map(|it| it.release.clone()).collect();
        live.sort_by(Release::order);
        live.into_iter().map(|it| (it.identity.to_string(), it.checksum.0[0])).collect()
    }

    #[test]
    fn a_line_says_what_goes_before_what_comes() {
        let (stored, first) = step(&[], &[(1, 1), (2, 1), (3, 1)]);
        assert_eq!(first.line, ["1", "2", "3"]);
        let (stored, second) = step(&stored, &[(1, 1), (3, 9), (4, 1)]);
        assert_eq!(second.line, ["-3", "-2", "3", "4"]);
        assert_eq!(second.changed, 1);
        // What was yanked may come back.
        let (_, third) = step(&stored, &[(1, 1), (2, 1), (3, 9), (4, 1)]);
        assert_eq!(third.line, ["2"]);
    }

    #[test]
    fn what_says_the_same_changes_nothing() {
        let (stored, _) = step(&[], &[(2, 1), (1, 1)]);
        let (_, changes) = step(&stored, &[(2, 1), (1, 1)]);
        assert_eq!((changes.is_empty(), changes.line.len()), (true, 0));
    }

    proptest! {
        #[test]
        fn whatever_was_there_the_releases_are_the_upstreams_in_its_order(
            steps in prop::collection::vec(
                prop::collection::vec((0_u8..8, 0_u8..2), 0..8), 1..5)
        ) {
            let mut stored = Vec::new();
            for mut wanted in steps {
                let mut seen = Vec::new();
                wanted.retain(|(number, _)| !seen.contains(number) && { seen.push(*number); true });
                stored = step(&stored, &wanted).0;
                let expected: Vec<_> =
                    wanted.iter().map(|(number, sum)| (number.to_string(), *sum)).collect();
                prop_assert_eq!(live(&stored), expected);
            }
        }
    }
}
