//! A client that keeps the list of its channel's members: one version fetched in pages, and the changes after it.

use super::{MemberChange, MemberSet, MembersPage};

#[derive(Debug, Default)]
pub(crate) struct Follower {
    members: MemberSet,
    /// Version of `members`; while the list is fetched, of the pages. `None` before the first page.
    version: Option<u64>,
    is_fetching: bool,
    /// Changes that arrived while the list was fetched.
    pending_changes: Vec<MemberChange>,
    /// First violation of the protocol.
    fault: Option<String>,
}

/// A request for a page of the member list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRequest {
    /// Version of the previous pages; `None` for the first.
    pub(crate) version: Option<u64>,
    pub(crate) start: usize,
}

impl Follower {
    pub(crate) fn start_fetch(&mut self) -> PageRequest {
        *self = Self { is_fetching: true, ..Self::default() };
        PageRequest { version: None, start: 0 }
    }

    /// Adds a page. Returns the request for the next one, if there is one.
    pub(crate) fn add_page(&mut self, page: MembersPage) -> Option<PageRequest> {
        if !self.is_fetching {
            self.record_fault(|| "a page came that nobody asked for".to_owned());
            return None;
        }
        if self.version != Some(page.version) {
            // The server no longer has the version of the previous pages: start again.
            self.members.clear();
            self.version = Some(page.version);
        }
        let members = page.members.0;
        let start = page.start + members.len();
        if members.is_empty() && start < page.count {
            let count = page.count;
            self.record_fault(|| format!("the page from {start} on is empty, of {count} members"));
            return None;
        }
        members.into_iter().for_each(|member| self.members.insert(member));
        if start < page.count {
            return Some(PageRequest { version: self.version, start });
        }
        self.is_fetching = false;
        for change in std::mem::take(&mut self.pending_changes) {
            self.apply(change);
        }
        None
    }

    pub(crate) fn add_change(&mut self, change: MemberChange) {
        match self.is_fetching {
            true => self.pending_changes.push(change),
            false => self.apply(change),
        }
    }

    fn apply(&mut self, change: MemberChange) {
        let Some(version) = self.version.filter(|version| change.version > *version) else {
            return;
        };
        let from = change.from;
        if from > version {
            self.record_fault(|| format!("no difference came from version {version} to {from}"));
        }
        change.added.0.into_iter().for_each(|member| self.members.insert(member));
        change.removed.0.into_iter().for_each(|member| self.members.remove(member));
        self.version = Some(change.version);
    }

    fn record_fault(&mut self, text: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(text);
    }

    /// Returns whether the list is complete and has exactly the `expected` members.
    pub(crate) fn is_exact(&self, expected: &MemberSet) -> bool {
        !self.is_fetching && self.fault.is_none() && self.members.differences(expected) == 0
    }

    pub(crate) fn mismatch(&self, expected: &MemberSet) -> Option<String> {
        if self.is_exact(expected) {
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
    use super::super::messages::Numbers;
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
    fn list_is_built_from_pages_and_pending_changes() {
        let mut follower = Follower::default();
        assert_eq!(follower.start_fetch(), PageRequest { version: None, start: 0 });
        let next = follower.add_page(page(5, 0, 3, &[1, 2]));
        assert_eq!(next, Some(PageRequest { version: Some(5), start: 2 }));
        follower.add_change(change((3, 4), &[9], &[]));
        follower.add_change(change((4, 6), &[4], &[1]));
        assert!(!follower.is_exact(&set(&[1, 2])), "it is not all there");
        assert_eq!(follower.add_page(page(5, 2, 3, &[3])), None);
        assert!(follower.is_exact(&set(&[2, 3, 4])), "{follower:?}");
        follower.add_change(change((6, 7), &[], &[3]));
        assert!(follower.is_exact(&set(&[2, 4])), "{follower:?}");
        let why = follower.mismatch(&set(&[2, 5])).expect("wrong");
        assert_eq!(why, "2 of 2 members are wrong");
    }

    #[test]
    fn another_version_restarts_the_fetch() {
        let mut follower = Follower::default();
        follower.start_fetch();
        follower.add_page(page(5, 0, 3, &[1, 2]));
        let next = follower.add_page(page(9, 0, 3, &[2, 7]));
        assert_eq!(next, Some(PageRequest { version: Some(9), start: 2 }));
        assert_eq!(follower.add_page(page(9, 2, 3, &[8])), None);
        assert!(follower.is_exact(&set(&[2, 7, 8])));
    }

    #[test]
    fn missing_changes_and_empty_pages_are_errors() {
        let mut follower = Follower::default();
        follower.start_fetch();
        follower.add_page(page(5, 0, 1, &[1]));
        follower.add_change(change((6, 7), &[2], &[]));
        let why = follower.mismatch(&set(&[1, 2])).expect("whatever the list is by chance");
        assert_eq!(why, "no difference came from version 5 to 6");
        let mut follower = Follower::default();
        follower.start_fetch();
        assert_eq!(follower.add_page(page(5, 0, 1, &[])), None, "not for ever");
        assert!(follower.mismatch(&set(&[])).is_some());
    }
}
