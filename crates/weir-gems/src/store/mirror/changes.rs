//! Computes the changes that make a gem's releases equal to an upstream's. Pure functions, which
//! all stores use.

use std::cmp::Ordering;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use weir_base::clock::Timestamp;

use super::Applied;
use crate::release::{Checksum, Identity, Release};

/// Known digests of releases without a current row: of removed releases, and of files that an
/// operator has accepted.
pub(crate) type Pins = HashMap<Identity, Checksum>;

/// A rejected release: the upstream now has another file for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) identity: Identity,
    /// Checksum of the first file.
    pub(crate) pinned: Checksum,
    /// Checksum of the file that the upstream has now.
    pub(crate) offered: Checksum,
}

/// A stored release. For a gem from an upstream, only releases that were yanked here have a yanked
/// row; they stay yanked, whatever the upstream lists. Releases that the upstream withdraws have no
/// row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRelease {
    pub(crate) release: Release,
    pub(crate) is_yanked: bool,
}

/// The changes to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// All releases after the change, in order.
    pub(crate) live: Vec<Release>,
    /// Indexes in `live` of new releases.
    insert: Vec<usize>,
    /// Indexes in `live` of releases whose rows differ.
    replace: Vec<usize>,
    /// Rows to remove. Their digests stay pinned.
    pub(crate) remove: Vec<(Identity, Checksum)>,
    /// Releases that keep their old data, or stay absent, because their file has changed.
    pub(crate) kept_out: Vec<Replaced>,
    /// Versions for the line in `/versions`: `-1.0` if removed, `1.0` if added, both if changed.
    pub(crate) line: Vec<String>,
    changed: u64,
}

impl Applied {
    pub(crate) fn count(&mut self, changes: &Changes) {
        self.added += changes.insert.len() as u64;
        self.yanked += changes.remove.len() as u64;
        self.changed += changes.changed;
        self.kept_out += changes.kept_out.len() as u64;
    }
}

/// Smallest difference between two times.
const STEP: Duration = Duration::from_micros(1);

impl Changes {
    /// Computes the changes. `wanted` has distinct releases in the order of the upstream's `/info`;
    /// those with the time 0 get `now`.
    pub(crate) fn between(
        stored: &[StoredRelease],
        pins: &Pins,
        mut wanted: Vec<Release>,
        now: Timestamp,
    ) -> Self {
        let (yanked, stored): (Vec<_>, Vec<_>) = stored.iter().partition(|it| it.is_yanked);
        let yanked: HashSet<_> = yanked.into_iter().map(|it| &it.release.identity).collect();
        wanted.retain(|it| !yanked.contains(&it.identity));
        let mut known: HashMap<&Identity, &Release> =
            stored.iter().map(|it| (&it.release.identity, &it.release)).collect();
        let (wanted, kept_out) = keep_pinned(wanted, &known, pins);
        let live = in_order(wanted, &known, now);
        let mut changes = Self { kept_out, ..Self::default() };
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for (place, release) in live.iter().enumerate() {
            let name = release.identity.to_string();
            match known.remove(&release.identity) {
                None => {
                    come.push(name);
                    changes.insert.push(place);
                }
                Some(old) if !says_the_same(old, release) => {
                    changes.changed += 1;
                    gone.push(format!("-{name}"));
                    come.push(name);
                    changes.replace.push(place);
                }
                // Its data is equal, so only its position has changed.
                Some(old) if old != release => changes.replace.push(place),
                Some(_) => {}
            }
        }
        // In stored order, so that the same change results in the same line everywhere.
        for old in stored {
            let Release { identity, checksum, .. } = &old.release;
            if known.contains_key(identity) {
                gone.push(format!("-{identity}"));
                changes.remove.push((identity.clone(), *checksum));
            }
        }
        changes.line = gone;
        changes.line.append(&mut come);
        if let (true, false, Some(first)) =
            (changes.line.is_empty(), changes.is_empty(), live.first())
        {
            // Only the order has changed, but clients need a line with the new digest.
            changes.line = vec![format!("-{}", first.identity), first.identity.to_string()];
        }
        Self { live, ..changes }
    }

    /// Returns the new releases in the order of keys, which is the order on disk.
    pub(crate) fn inserted(&self) -> Vec<&Release> {
        let mut all: Vec<_> =
            self.insert.iter().filter_map(|place| self.live.get(*place)).collect();
        all.sort_by(|one, other| key(one).cmp(&key(other)));
        all
    }

    pub(crate) fn updated(&self) -> impl Iterator<Item = &Release> {
        self.replace.iter().filter_map(|place| self.live.get(*place))
    }

    /// Returns whether the releases stay as they are.
    pub(crate) fn is_empty(&self) -> bool {
        self.insert.is_empty() && self.replace.is_empty() && self.remove.is_empty()
    }
}

fn key(release: &Release) -> (&str, &str) {
    (release.identity.number.as_str(), release.identity.platform.as_str())
}

fn says_the_same(one: &Release, other: &Release) -> bool {
    one.dependencies == other.dependencies
        && one.checksum == other.checksum
        && one.ruby == other.ruby
        && one.rubygems == other.rubygems
}

/// Keeps each release at its first file: another file for the same name, version and platform is
/// rejected. A stored release stays as it is; a removed one stays removed.
fn keep_pinned(
    wanted: Vec<Release>,
    known: &HashMap<&Identity, &Release>,
    pins: &Pins,
) -> (Vec<Release>, Vec<Replaced>) {
    let mut kept_out = Vec::new();
    let keep = |release: Release| {
        let here = known.get(&release.identity).copied();
        let digests = [here.map(|here| here.checksum), pins.get(&release.identity).copied()];
        let first = digests.into_iter().flatten().next();
        let Some(pinned) = first.filter(|_| !digests.contains(&Some(release.checksum))) else {
            return Some(release);
        };
        let Release { identity, checksum: offered, .. } = release;
        kept_out.push(Replaced { identity, pinned, offered });
        here.cloned()
    };
    (wanted.into_iter().filter_map(keep).collect(), kept_out)
}

/// Assigns times so that [`Release::order`] yields the given order. Stored releases keep their
/// times where possible.
fn in_order(
    mut wanted: Vec<Release>,
    known: &HashMap<&Identity, &Release>,
    now: Timestamp,
) -> Vec<Release> {
    for index in 0..wanted.len() {
        let (before, rest) = wanted.split_at_mut(index);
        let Some(release) = rest.first_mut() else { break };
        release.created_at = match known.get(&release.identity) {
            Some(old) => old.created_at,
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

    /// Applies changes as a store does.
    fn applied(stored: &[StoredRelease], changes: &Changes) -> Vec<StoredRelease> {
        let mut all = stored.to_vec();
        all.retain(|row| changes.remove.iter().all(|(gone, _)| *gone != row.release.identity));
        for row in &mut all {
            let new = changes.updated().find(|it| it.identity == row.release.identity);
            if let Some(new) = new {
                *row = StoredRelease { release: new.clone(), is_yanked: false };
            }
        }
        let new = changes.inserted().into_iter().cloned();
        all.extend(new.map(|release| StoredRelease { release, is_yanked: false }));
        all
    }

    /// Computes changes without any removed releases.
    fn step(stored: &[StoredRelease], wanted: &[(u8, u8)]) -> (Vec<StoredRelease>, Changes) {
        step_with(stored, &mut Pins::new(), wanted)
    }

    fn step_with(
        stored: &[StoredRelease],
        pins: &mut Pins,
        wanted: &[(u8, u8)],
    ) -> (Vec<StoredRelease>, Changes) {
        let wanted: Vec<_> =
            wanted.iter().map(|(number, sum)| release(&number.to_string(), *sum)).collect();
        let changes = Changes::between(stored, pins, wanted, NOW);
        for (gone, checksum) in &changes.remove {
            pins.insert(gone.clone(), *checksum);
        }
        (applied(stored, &changes), changes)
    }

    fn live(stored: &[StoredRelease]) -> Vec<Release> {
        let mut live: Vec<_> =
            stored.iter().filter(|it| !it.is_yanked).map(|it| it.release.clone()).collect();
        live.sort_by(Release::order);
        live
    }

    #[test]
    fn a_line_says_what_goes_before_what_comes() {
        let (stored, first) = step(&[], &[(1, 1), (2, 1), (3, 1)]);
        assert_eq!(first.line, ["1", "2", "3"]);
        let mut wanted: Vec<_> = ["1", "3", "4"].map(|number| release(number, 1)).to_vec();
        wanted[1].dependencies = "rack:>= 1".parse().unwrap();
        let mut pins = Pins::new();
        let second = Changes::between(&stored, &pins, wanted.clone(), NOW);
        assert_eq!(second.line, ["-3", "-2", "3", "4"]);
        assert_eq!(second.changed, 1);
        // A release that the upstream withdrew may be added again.
        pins.extend(second.remove.iter().cloned());
        wanted.insert(1, release("2", 1));
        let third = Changes::between(&applied(&stored, &second), &pins, wanted, NOW);
        assert_eq!((third.line, third.kept_out), (vec!["2".to_owned()], Vec::new()));
    }

    #[test]
    fn another_file_under_a_known_release_is_kept_out() {
        let mut pins = Pins::new();
        let (stored, _) = step_with(&[], &mut pins, &[(1, 1), (2, 1)]);
        // Other releases are added as usual.
        let (stored, next) = step_with(&stored, &mut pins, &[(1, 9), (2, 1), (3, 1)]);
        assert_eq!((&next.line[..], next.changed), (&["3".to_owned()][..], 0));
        let kept_out = |offered| {
            let identity = release("1", 1).identity;
            [Replaced { identity, pinned: Checksum([1; 32]), offered: Checksum([offered; 32]) }]
        };
        assert_eq!(next.kept_out, kept_out(9));
        assert_eq!(live(&stored)[0].checksum, Checksum([1; 32]));
        // This also holds if it is removed first and then added with another file.
        let (stored, _) = step_with(&stored, &mut pins, &[(2, 1), (3, 1)]);
        let (stored, next) = step_with(&stored, &mut pins, &[(1, 9), (2, 1), (3, 1)]);
        assert_eq!((next.is_empty(), next.kept_out), (true, kept_out(9).to_vec()));
        // The first file is accepted.
        let (stored, next) = step_with(&stored, &mut pins, &[(2, 1), (3, 1), (1, 1)]);
        assert_eq!((&next.line[..], next.kept_out.len()), (&["1".to_owned()][..], 0));
        // An operator has accepted this file, and no other.
        pins.insert(release("1", 1).identity, Checksum([9; 32]));
        let (_, other) = step_with(&stored, &mut pins, &[(2, 1), (3, 1), (1, 8)]);
        assert_eq!(other.kept_out.len(), 1);
        let (stored, next) = step_with(&stored, &mut pins, &[(2, 1), (3, 1), (1, 9)]);
        assert_eq!((next.changed, next.kept_out.len()), (1, 0));
        assert_eq!(live(&stored)[2].checksum, Checksum([9; 32]));
    }

    #[test]
    fn what_was_yanked_here_never_comes_again() {
        let (mut stored, _) = step(&[], &[(1, 1), (2, 1)]);
        stored[1].is_yanked = true;
        let (stored, same) = step(&stored, &[(1, 1), (2, 1)]);
        assert!(same.is_empty(), "{same:?}");
        // This also holds if its data changes at the upstream, or it is removed or added again.
        for wanted in [&[(3, 1), (1, 1), (2, 9)][..], &[(1, 1)], &[(2, 1), (1, 1)]] {
            let (next, changes) = step(&stored, wanted);
            assert!(live(&next).iter().all(|it| it.identity.to_string() != "2"), "{changes:?}");
            assert_eq!(changes.live, live(&next));
            assert!(next.contains(&stored[1]), "{changes:?}");
        }
    }

    #[test]
    fn another_order_is_told_by_one_release_that_goes_and_comes() {
        let (stored, _) = step(&[], &[(1, 1), (2, 1)]);
        let (_, changes) = step(&stored, &[(2, 1), (1, 1)]);
        assert_eq!(
            (&changes.line[..], changes.changed),
            (&["-2".to_owned(), "2".to_owned()][..], 0)
        );
    }

    #[test]
    fn what_says_the_same_changes_nothing() {
        let (stored, _) = step(&[], &[(2, 1), (1, 1)]);
        let (_, changes) = step(&stored, &[(2, 1), (1, 1)]);
        assert_eq!((changes.is_empty(), changes.line.len()), (true, 0));
    }

    proptest! {
        #[test]
        fn whatever_was_there_the_releases_are_the_upstreams_as_first_seen_in_its_order(
            steps in prop::collection::vec(
                prop::collection::vec((0_u8..8, 0_u8..2), 0..8), 1..5)
        ) {
            let (mut stored, mut pins, mut first) = (Vec::new(), Pins::new(), HashMap::new());
            for mut wanted in steps {
                let mut seen = Vec::new();
                wanted.retain(|(number, _)| !seen.contains(number) && { seen.push(*number); true });
                let here: Vec<_> =
                    live(&stored).iter().map(|it| it.identity.to_string()).collect();
                let (next, changes) = step_with(&stored, &mut pins, &wanted);
                stored = next;
                for (number, sum) in &wanted {
                    first.entry(*number).or_insert(*sum);
                }
                let live = live(&stored);
                prop_assert_eq!(&changes.live, &live);
                let seen: Vec<_> =
                    live.iter().map(|it| (it.identity.to_string(), it.checksum.0[0])).collect();
                let expected =
                    wanted.iter().map(|(number, sum)| (number.to_string(), *sum, first[number]));
                let expected: Vec<_> = expected
                    .filter(|(number, sum, first)| sum == first || here.contains(number))
                    .map(|(number, _, first)| (number, first))
                    .collect();
                prop_assert_eq!(seen, expected);
            }
        }
    }
}
