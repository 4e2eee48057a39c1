//! Stores infos by name, and evicts those first that were not used again.
//!
//! Eviction follows the clock algorithm: a hand moves around all entries, and an entry that was
//! used since the last pass stays for another one. One pass over all gems therefore evicts nothing
//! that is in use.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::store::Info;

/// Memory of an entry apart from its name and content.
const OVERHEAD_BYTES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Slots {
    places: HashMap<Arc<str>, usize>,
    slots: Vec<Slot>,
    hand: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Slot {
    name: Arc<str>,
    info: Info,
    /// Whether the entry was used since the hand last passed.
    is_used: bool,
}

impl Slots {
    pub(super) fn bytes_of(name: &str, info: &Info) -> usize {
        name.len() + info.content.len() + OVERHEAD_BYTES
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    pub(super) fn get(&mut self, name: &str) -> Option<Info> {
        let slot = &mut self.slots[*self.places.get(name)?];
        slot.is_used = true;
        Some(slot.info.clone())
    }

    pub(super) fn insert(&mut self, name: &str, info: Info) {
        self.remove(name);
        self.bytes += Self::bytes_of(name, &info);
        let name: Arc<str> = name.into();
        self.places.insert(Arc::clone(&name), self.slots.len());
        self.slots.push(Slot { name, info, is_used: false });
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(place) = self.places.get(name) {
            self.remove_at(*place);
        }
    }

    fn remove_at(&mut self, place: usize) {
        let gone = self.slots.swap_remove(place);
        self.places.remove(&gone.name);
        self.bytes -= Self::bytes_of(&gone.name, &gone.info);
        if let Some(moved) = self.slots.get(place)
            && let Some(known) = self.places.get_mut(&moved.name)
        {
            *known = place;
        }
    }

    /// Evicts entries until at most `bytes_max` bytes remain. Returns the number of evicted
    /// entries.
    pub(super) fn shrink_to(&mut self, bytes_max: usize) -> u64 {
        let mut gone = 0;
        while self.bytes > bytes_max {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let Some(slot) = self.slots.get_mut(self.hand) else { break };
            if !std::mem::take(&mut slot.is_used) {
                // The newest entry moves to this slot, and the hand passes it only after a whole
                // round.
                self.remove_at(self.hand);
                gone += 1;
            }
            self.hand += 1;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::index::digest::Digests;

    fn info(content: &str) -> Info {
        let digests = Digests::of(content.as_bytes());
        Info { content: content.to_owned().into(), digests }
    }

    #[test]
    fn what_is_asked_for_stays() {
        let mut slots = Slots::default();
        let bytes_max = 3 * Slots::bytes_of("a", &info("x"));
        for name in ["a", "b", "c"] {
            slots.insert(name, info("x"));
            assert_eq!(slots.shrink_to(bytes_max), 0);
        }
        for name in ["d", "e", "f", "g"] {
            assert_eq!(slots.get("b"), Some(info("x")));
            slots.insert(name, info("x"));
            assert_eq!(slots.shrink_to(bytes_max), 1);
        }
        assert!(slots.has("b") && !slots.has("a") && !slots.has("c"));
    }

    proptest! {
        #[test]
        fn it_holds_what_was_last_put_in_and_no_more_than_it_may(
            steps in prop::collection::vec((0_u8..4, 0_usize..9, 0_usize..400), 0..200)
        ) {
            let (mut slots, mut last) = (Slots::default(), HashMap::new());
            for (step, name, length) in steps {
                let (name, info) = (format!("gem-{name}"), info(&"x".repeat(length)));
                match step {
                    0 => slots.remove(&name),
                    1 => prop_assert!(slots.get(&name).is_none_or(|it| it == last[&name])),
                    _ => {
                        slots.insert(&name, info.clone());
                        last.insert(name, info);
                        slots.shrink_to(2_000);
                    }
                }
                let bytes: usize =
                    slots.slots.iter().map(|it| Slots::bytes_of(&it.name, &it.info)).sum();
                prop_assert!(slots.bytes == bytes && bytes <= 2_000);
                prop_assert_eq!(slots.places.len(), slots.slots.len());
                for (place, slot) in slots.slots.iter().enumerate() {
                    prop_assert_eq!(slots.places.get(&slot.name), Some(&place));
                }
            }
        }
    }
}
