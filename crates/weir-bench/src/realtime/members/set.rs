//! Members of a run by their numbers, one bit each.

use std::ops::Not;

#[derive(Debug, Clone, Default)]
pub(crate) struct MemberSet {
    /// Long enough for the largest number.
    words: Vec<u64>,
}

impl MemberSet {
    pub(crate) fn insert(&mut self, member: u32) {
        let (word, bit) = place(member);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    pub(crate) fn remove(&mut self, member: u32) {
        let (word, bit) = place(member);
        if let Some(word) = self.words.get_mut(word) {
            *word &= bit.not();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }

    pub(crate) fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns how many members are in only one of the two sets.
    pub(crate) fn differences(&self, other: &Self) -> u64 {
        let word = |set: &Self, index: usize| set.words.get(index).copied().unwrap_or(0);
        let words = self.words.len().max(other.words.len());
        let unlike = (0..words).map(|index| (word(self, index) ^ word(other, index)).count_ones());
        unlike.map(u64::from).sum()
    }
}

impl FromIterator<u32> for MemberSet {
    fn from_iter<I: IntoIterator<Item = u32>>(members: I) -> Self {
        let mut set = Self::default();
        members.into_iter().for_each(|member| set.insert(member));
        set
    }
}

fn place(member: u32) -> (usize, u64) {
    ((member / u64::BITS) as usize, 1 << (member % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_between_sets_are_counted() {
        let mut set: MemberSet = [0, 63, 64, 200].into_iter().collect();
        assert_eq!((set.len(), set.differences(&set.clone())), (4, 0));
        set.remove(200);
        set.remove(1_000);
        set.insert(0);
        assert_eq!(set.len(), 3);
        assert_eq!(set.differences(&[0, 63, 64].into_iter().collect()), 0, "however long it was");
        assert_eq!(set.differences(&[0, 64, 65].into_iter().collect()), 2);
        set.clear();
        assert_eq!(set.differences(&[7].into_iter().collect()), 1);
    }
}
