//! Random histories of pushes, yanks, imports and rebaselines. A client that fetches as Bundler
//! does, only the tail if the beginning is unchanged, must always have the correct state.

use std::collections::BTreeMap;

use weir_base::clock::Clock;
use weir_gems::index::digest::Digests;
use weir_gems::index::text::Text;
use weir_gems::store::{ImportedGem, Store, TextKind};

use super::contract::assert_consistent;
use super::{NOW, identity, new, release};
use crate::client::read_versions;

const HISTORIES: u64 = 20;
const STEPS: usize = 40;

const NAMES: [&str; 4] = ["a", "a-1", "B", "b_c"];
const VERSIONS: [&str; 6] = ["1", "1.0", "2.0.rc1", "1-java", "3", "1-2"];

/// The releases that were pushed of each gem, and whether each is still listed.
type Model = BTreeMap<(&'static str, &'static str), bool>;

/// A client's copy with its generation. Bundler detects a new generation by the digest.
struct Copy {
    generation: u64,
    bytes: Vec<u8>,
}

impl Copy {
    /// Fetches `bytes=<size-1>-` and checks the whole text.
    fn update(&mut self, text: &Text) {
        let last = self.bytes.len() as u64 - 1;
        let tail: Vec<u8> = text.range(last..text.length()).flatten().collect();
        let overlaps = tail.first() == self.bytes.last();
        let grown = [&self.bytes[..], tail.get(1..).unwrap_or_default()].concat();
        if overlaps && Digests::of(&grown) == text.digests {
            // A rewritten text may happen to be equal.
            *self = Self { generation: text.generation, bytes: grown };
        } else {
            assert_ne!(self.generation, text.generation, "a tail did not fit");
            *self = Self { generation: text.generation, bytes: text.to_vec() };
        }
    }
}

pub(super) async fn histories<S: Store, G>(open: impl Fn() -> (G, S)) {
    for seed in 0..HISTORIES {
        let (_guard, store) = open();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut model = Model::new();
        let text = store.text(TextKind::Versions).await.unwrap();
        let mut copy = Copy { generation: text.generation, bytes: text.to_vec() };
        for _ in 0..STEPS {
            step(&store, &mut random, &mut model).await;
            copy.update(&store.text(TextKind::Versions).await.unwrap());
            assert_eq!(seen(&copy.bytes), live(&model), "seed {seed}");
        }
        assert_consistent(&store).await;
    }
}

fn seen(text: &[u8]) -> Vec<(String, String)> {
    let gems = read_versions(text).into_iter();
    let all = gems.flat_map(|(name, known)| {
        known.versions.into_iter().map(move |version| (name.clone(), version))
    });
    all.collect()
}

fn live(model: &Model) -> Vec<(String, String)> {
    let live = model.iter().filter(|(_, is_live)| **is_live);
    let mut all: Vec<_> =
        live.map(|((name, version), _)| ((*name).to_owned(), (*version).to_owned())).collect();
    all.sort_unstable();
    all
}

async fn step(store: &(impl Store + ?Sized), random: &mut fastrand::Rng, model: &mut Model) {
    let name = *random.choice(&NAMES).unwrap();
    let version = *random.choice(&VERSIONS).unwrap();
    match random.u8(..10) {
        0..5 => {
            let is_new =
                !model.contains_key(&(name, version)) && !shares_a_file(model, name, version);
            let pushed = store.push(new(name, version), NOW).await;
            assert_eq!(pushed.is_ok(), is_new, "{name} {version}: {pushed:?}");
            if is_new {
                model.insert((name, version), true);
            }
        }
        5..8 => {
            let is_live = model.get(&(name, version)) == Some(&true);
            let yanked = store.yank(&name.parse().unwrap(), &identity(version), NOW).await;
            assert_eq!(yanked.is_ok(), is_live, "{name} {version}: {yanked:?}");
            if is_live {
                model.insert((name, version), false);
            }
        }
        8 => {
            let releases = VERSIONS[..3].iter().map(|version| release(version, "")).collect();
            let gem = ImportedGem { name: name.parse().unwrap(), releases };
            store.import(Box::new([gem].into_iter()), &Clock::manual(NOW)).await.unwrap();
            for version in &VERSIONS[..3] {
                model.entry((name, version)).or_insert(true);
            }
        }
        _ => store.rebaseline(NOW).await.unwrap(),
    }
}

/// `a 1-2` and `a-1 2` would; of the names and versions here only these: `a 1-1..` is none.
fn shares_a_file(model: &Model, name: &str, version: &str) -> bool {
    let full = format!("{name}-{version}");
    model.keys().any(|(other, of)| *other != name && format!("{other}-{of}") == full)
}
