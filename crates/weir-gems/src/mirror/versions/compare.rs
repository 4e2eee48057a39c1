//! Compares all that an upstream lists with the recorded state: first the digest of each prefix,
//! and then the names of prefixes that differ.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::reading::Listed;
use crate::mirror::error::Problem;
use crate::mirror::infos::without_releases;
use crate::mirror::prefix::{Prefix, PrefixDigest};
use crate::mirror::{Mirror, Upstream};
use crate::name::GemName;
use crate::store::mirror::Noted;

impl Mirror {
    /// Returns the lines to record so that the recorded state matches the list.
    pub(super) async fn compare(
        &self,
        upstream: &Upstream,
        listed: Listed,
    ) -> Result<Vec<Noted>, Problem> {
        let name = upstream.name.as_str();
        let ours = self.store.noted_digests(name).await?;
        let differing = differing(&ours, &listed);
        let mut known = HashMap::new();
        for (prefix, _) in ours.iter().filter(|(prefix, _)| differing.contains(prefix)) {
            let noted = self.store.noted(name, *prefix).await?;
            known.extend(noted.into_iter().filter_map(|it| Some((it.name, it.md5?))));
        }
        let names = listed.0.len();
        let (changed, gone) = changes(listed, &differing, known);
        let had_versions = gone.iter().filter(|(_, md5)| *md5 != without_releases()).count();
        self.check_gone_from_list(upstream, had_versions, names).await?;
        let gone = gone.into_iter().map(|(name, _)| Noted { name, md5: None });
        Ok(changed.into_iter().chain(gone).collect())
    }
}

fn differing(ours: &[(Prefix, PrefixDigest)], listed: &Listed) -> BTreeSet<Prefix> {
    let mut theirs = BTreeMap::<Prefix, PrefixDigest>::new();
    for (name, line) in &listed.0 {
        theirs.entry(Prefix::of(name)).or_default().add(name, line.md5);
    }
    let mut differing = BTreeSet::new();
    for (prefix, digest) in ours {
        if theirs.remove(prefix) != Some(*digest) {
            differing.insert(*prefix);
        }
    }
    differing.extend(theirs.into_keys());
    differing
}

/// Returns the names that differ, in the order of their lines, and the names that are gone with
/// their recorded state.
fn changes(
    listed: Listed,
    differing: &BTreeSet<Prefix>,
    mut known: HashMap<GemName, [u8; 16]>,
) -> (Vec<Noted>, Vec<(GemName, [u8; 16])>) {
    let mut listed = listed;
    listed.0.retain(|name, _| differing.contains(&Prefix::of(name)));
    let mut changed = listed.in_order();
    changed.retain(|noted| known.remove(&noted.name) != noted.md5);
    let mut gone: Vec<_> = known.into_iter().collect();
    gone.sort_unstable();
    (changed, gone)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::reading::Line;
    use super::*;

    fn listed(gems: &BTreeMap<String, u8>) -> Listed {
        let lines = gems
            .iter()
            .zip(0..)
            .map(|((name, md5), number)| (name.as_str().into(), Line { number, md5: [*md5; 16] }));
        Listed(lines.collect())
    }

    proptest! {
        #[test]
        fn what_is_noted_becomes_what_is_listed(
            ours in prop::collection::btree_map("[ab]{1,4}", 0_u8..3, 0..12),
            theirs in prop::collection::btree_map("[ab]{1,4}", 0_u8..3, 0..12),
        ) {
            let mut digests = BTreeMap::<Prefix, PrefixDigest>::new();
            for (name, md5) in &ours {
                digests.entry(Prefix::of(name)).or_default().add(name, [*md5; 16]);
            }
            let digests: Vec<_> = digests.into_iter().collect();
            let differing = differing(&digests, &listed(&theirs));
            let known = ours.iter().filter(|(name, _)| differing.contains(&Prefix::of(name)));
            let known = known.map(|(name, md5)| (name.parse().unwrap(), [*md5; 16])).collect();
            let (changed, gone) = changes(listed(&theirs), &differing, known);
            let mut result = ours.clone();
            for noted in changed {
                let md5 = noted.md5.unwrap()[0];
                // Only differences are returned.
                prop_assert_ne!(result.insert(noted.name.to_string(), md5), Some(md5));
            }
            for (name, _) in gone {
                prop_assert!(result.remove(name.as_str()).is_some());
            }
            prop_assert_eq!(result, theirs);
        }
    }
}
