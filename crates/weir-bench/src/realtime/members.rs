//! What one client knows of the members of its presence channel.

mod follower;
mod news;
mod roll;
mod set;

use self::follower::Follower;
pub(crate) use self::follower::PageWish;
pub(crate) use self::news::{MemberChange, MemberNews, MembersPage, user_id};
pub(crate) use self::roll::{HeardOfMembers, Roll};
pub(crate) use self::set::MemberSet;

#[derive(Debug, Default)]
pub(crate) struct KnownMembers {
    /// How many there are; `None` before the server has said it.
    count: Option<u64>,
    /// Who they are: only clients that follow the changes hold a list.
    follower: Option<Box<Follower>>,
    /// What the roll counts this client among.
    knows_count: bool,
    holds_list: bool,
}

impl KnownMembers {
    /// Holds a list from now on.
    pub(crate) fn follow(&mut self) {
        self.follower = Some(Box::default());
    }

    pub(crate) fn follows(&self) -> bool {
        self.follower.is_some()
    }

    /// The page that a follower needs first.
    pub(crate) fn fetch(&mut self) -> Option<PageWish> {
        self.follower.as_mut().map(|follower| follower.fetch())
    }

    /// Takes what the server says; a follower may need one more page then.
    pub(crate) fn hear(&mut self, news: MemberNews, roll: &mut Roll) -> Option<PageWish> {
        roll.tally(&news);
        let mut wish = None;
        match news {
            MemberNews::Count(count) => self.count = Some(count),
            MemberNews::Came => self.count = self.count.map(|count| count + 1),
            MemberNews::Went => self.count = self.count.map(|count| count.saturating_sub(1)),
            MemberNews::Page(page) => {
                wish = self.follower.as_mut().and_then(|follower| follower.take_page(page));
            }
            MemberNews::Changed(change) => {
                self.count = Some(change.count);
                if let Some(follower) = &mut self.follower {
                    follower.take_change(change);
                }
            }
        }
        self.compare(roll);
        wish
    }

    /// Looks again whether it is all right: something is known or expected that was not before.
    pub(crate) fn compare(&mut self, roll: &mut Roll) {
        let follower = self.follower.as_ref();
        let holds_list = follower.is_some_and(|follower| follower.holds(roll.expected()));
        let knows_count = self.count == Some(roll.expected_count());
        change(&mut roll.knowing, &mut self.knows_count, knows_count);
        change(&mut roll.exact, &mut self.holds_list, holds_list);
    }

    /// The connection is gone, and with it all that was known.
    pub(crate) fn forget(&mut self, roll: &mut Roll) {
        self.count = None;
        self.follower = None;
        self.compare(roll);
    }

    /// What is wrong with a follower's list.
    pub(crate) fn why_wrong(&self, roll: &Roll) -> Option<String> {
        self.follower.as_ref()?.why_wrong(roll.expected())
    }
}

/// Counts one client among others, or not any more.
fn change(total: &mut usize, was: &mut bool, is: bool) {
    *total += usize::from(is);
    *total -= usize::from(*was);
    *was = is;
}
