//! The number of subscriptions of all nodes, of a copy of a channel of the shared log.

use super::Channel;

impl Channel {
    /// Notes the subscriptions of all nodes. Returns whether the number is new.
    pub(crate) fn set_shared_count(&self, count: usize) -> bool {
        let mut home = self.home();
        let is_new = home.shared_count != Some(count);
        home.shared_count = Some(count);
        home.is_count_due |= is_new && !self.kind.has_presence();
        is_new
    }

    /// Notes whether the log has subscriptions of this node. Returns whether it had any before.
    pub(crate) fn set_counted(&self, is_counted: bool) -> bool {
        std::mem::replace(&mut self.home().is_counted, is_counted)
    }

    /// Returns the number of subscriptions that decides how often the count is announced.
    pub(crate) fn announced_subscribers(&self) -> usize {
        let home = self.home();
        home.shared_count.unwrap_or_default().max(home.total())
    }
}
