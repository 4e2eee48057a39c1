//! Where the last page of a list is, so that the walk goes on there without a search, and so that its jobs
//! are found where they were read.

use weir_jobs::model::{EntryKey, QueueName};

/// The last page. Its positions count from the end that is served first.
#[derive(Debug)]
pub(super) struct PageEnd {
    pub(super) queue: QueueName,
    /// Of the last entry, which may leave the list.
    pub(super) key: EntryKey,
    /// Of the first entry behind it. `None`: the list ended there.
    pub(super) next_key: Option<EntryKey>,
    pub(super) newest_first: bool,
    /// Where the page began.
    pub(super) began: usize,
    /// Behind the key, in the direction of the walk.
    pub(super) position: usize,
}

impl PageEnd {
    /// Adapts the positions after entries left the list. `positions`: where they were.
    pub(super) fn note_left(&mut self, positions: &[usize]) {
        let before = |end: usize| positions.iter().filter(|position| **position < end).count();
        (self.began, self.position) =
            (self.began - before(self.began), self.position - before(self.position));
    }
}

#[cfg(test)]
mod tests {
    use weir_jobs::settings::JobServerLimits;

    use super::*;

    #[test]
    fn a_page_ends_nearer_after_jobs_of_it_have_left() {
        let mut end = PageEnd {
            queue: QueueName::parse("q", &JobServerLimits::default()).unwrap(),
            key: EntryKey { order: 1, jid: "a".into() },
            next_key: None,
            newest_first: false,
            began: 10,
            position: 20,
        };
        end.note_left(&[3, 10, 19, 20]);
        assert_eq!((end.began, end.position), (9, 17));
    }
}
