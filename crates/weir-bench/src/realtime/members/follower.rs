//! A client that holds the list of its channel's members: one version fetched in pages, and the differences after it.

use super::{MemberChange, MemberSet, MembersPage};

#[derive(Debug, Default)]
pub(crate) struct Follower {
    members: MemberSet,
    /// Of `members`; while it is fetched, of the pages. `None` before the first page.
    version: Option<u64>,
    is_fetching: bool,
    /// Differences that came while the list was fetched.
    waiting: Vec<MemberChange>,
    /// What the server said that can't be.
    fault: Option<String>,
}

/// Which page to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageWish {
    /// Of the pages before; any for the first.
    pub(crate) version: Option<u64>,
    pub(crate) start: usize,
}

impl Follower {
    pub(crate) fn fetch(&mut self) -> PageWish {
        *self = Self { is_fetching: true, ..Self::default() };
        PageWish { version: None, start: 0 }
    }

    /// The next page to ask for, if there is one more.
    pub(crate) fn take_page(&mut self, page: MembersPage) -> Option<PageWish> {
        if !self.is_fetching {
            self.fail(|| "a page came that nobody asked for".to_owned());
            return None;
        }
        if self.version != Some(page.version) {
            // The list that the pages before were of is not kept any more: from the beginning.
            self.members.clear();
            self.version = Some(page.version);
        }
        let members = page.members.0;
        let start = page.start + members.len();
        if members.is_empty() && start < page.count {
            let count = page.count;
            self.fail(|| format!("the page from {start} on is empty, of {count} members"));
            return None;
        }
        members.into_iter().for_each(|member| self.members.insert(member));
        if start < page.count {
            return Some(PageWish { version: self.version, start });
        }
        self.is_fetching = false;
        for change in std::mem::take(&mut self.waiting) {
            self.apply(change);
        }
        None
    }

    pub(crate) fn take_change(&mut self, change: MemberChange) {
        match self.is_fetching {
            true => self.waiting.push(change),
            false => self.apply(change),
        }
    }

    fn apply(&mut self, change: MemberChange) {
        let Some(version) = self.version.filter(|version| change.version > *version) else {
            return;
        };
        let from = change.from;
        if from > version {
            self.fail(|| format!("no difference came from version {version} to {from}"));
        }
        change.added.0.into_iter().for_each(|member| self.members.insert(member));
        change.removed.0.into_iter().for_each(|member| self.members.remove(member));
        self.version = Some(change.version);
    }

    fn fail(&mut self, text: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(text);
    }

    /// Whether the list is whole and has exactly the `expected` members.
    pub(crate) fn holds(&self, expected: &MemberSet) -> bool {
        !self.is_fetching && self.fault.is_none() && self.members.differences(expected) == 0
    }

    pub(crate) fn why_wrong(&self, expected: &MemberSet) -> Option<String> {
        if self.holds(expected) {
            return None;
        }
        Some(match (&self.fault, self.is_fetching, self.version) {
            (Some(fault), _, _) => fault.clone(),
            (None, true, _) => "not all pages of the list came".to_owned(),
            (None, false, None) => "the server does not tell how members change".to_owned(),
            (None, false, Some(_)) => {
                let wrong = self.members.differences(expected);
                format!("{wrong} of {} members are wrong", expected.len())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::news::Numbers;
    use super::*;

    fn page(version: u64, start: usize, count: usize, members: &[u32]) -> MembersPage {
        MembersPage { version, start, count, members: Numbers(members.to_vec()) }
    }

    fn change(versions: (u64, u64), added: &[u32], removed: &[u32]) -> MemberChange {
        let (added, removed) = (Numbers(added.to_vec()), Numbers(removed.to_vec()));
        MemberChange { from: versions.0, version: versions.1, count: 0, added, removed }
    }

    fn set(members: &[u32]) -> MemberSet {
        members.iter().copied().collect()
    }

    #[test]
    fn pages_and_the_differences_that_came_meanwhile_are_the_list() {
        let mut follower = Follower::default();
        assert_eq!(follower.fetch(), PageWish { version: None, start: 0 });
        let next = follower.take_page(page(5, 0, 3, &[1, 2]));
        assert_eq!(next, Some(PageWish { version: Some(5), start: 2 }));
        follower.take_change(change((3, 4), &[9], &[]));
        follower.take_change(change((4, 6), &[4], &[1]));
        assert!(!follower.holds(&set(&[1, 2])), "it is not all there");
        assert_eq!(follower.take_page(page(5, 2, 3, &[3])), None);
        assert!(follower.holds(&set(&[2, 3, 4])), "{follower:?}");
        follower.take_change(change((6, 7), &[], &[3]));
        assert!(follower.holds(&set(&[2, 4])), "{follower:?}");
        let why = follower.why_wrong(&set(&[2, 5])).expect("wrong");
        assert_eq!(why, "2 of 2 members are wrong");
    }

    #[test]
    fn another_version_begins_anew() {
        let mut follower = Follower::default();
        follower.fetch();
        follower.take_page(page(5, 0, 3, &[1, 2]));
        let next = follower.take_page(page(9, 0, 3, &[2, 7]));
        assert_eq!(next, Some(PageWish { version: Some(9), start: 2 }));
        assert_eq!(follower.take_page(page(9, 2, 3, &[8])), None);
        assert!(follower.holds(&set(&[2, 7, 8])));
    }

    #[test]
    fn a_missing_difference_and_pages_without_end_are_found() {
        let mut follower = Follower::default();
        follower.fetch();
        follower.take_page(page(5, 0, 1, &[1]));
        follower.take_change(change((6, 7), &[2], &[]));
        let why = follower.why_wrong(&set(&[1, 2])).expect("whatever the list is by chance");
        assert_eq!(why, "no difference came from version 5 to 6");
        let mut follower = Follower::default();
        follower.fetch();
        assert_eq!(follower.take_page(page(5, 0, 1, &[])), None, "not for ever");
        assert!(follower.why_wrong(&set(&[])).is_some());
    }
}
