//! Events by name, such as failures by the class of their error, with a limit of names.

use weir_base::clock::Timestamp;

use super::slices::{SliceCounts, WINDOW};

/// Events with one name.
#[derive(Clone, Debug, Default)]
pub(super) struct EventGroup<E> {
    pub(super) name: Box<str>,
    pub(super) total: u64,
    pub(super) recent: SliceCounts,
    pub(super) first_at: Timestamp,
    /// Since then, no hour passed without such an event.
    pub(super) since: Timestamp,
    pub(super) last_at: Timestamp,
    /// The last event.
    pub(super) example: E,
}

impl<E> EventGroup<E> {
    fn count(&mut self, now: Timestamp, example: E) {
        if self.total == 0 {
            self.first_at = now;
        }
        if self.total == 0 || self.is_idle(now) {
            self.since = now;
        }
        self.total += 1;
        self.recent.count(now);
        self.last_at = now;
        self.example = example;
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        now.since(self.last_at) >= WINDOW
    }

    fn set_back(&mut self, now: Timestamp) {
        for at in [&mut self.first_at, &mut self.since, &mut self.last_at] {
            *at = now.min(*at);
        }
        self.recent.set_back(now);
    }
}

/// Whether an event has a group of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouped {
    ByName,
    /// There are too many names.
    AsOther,
}

/// All groups.
#[derive(Clone, Debug, Default)]
pub(super) struct EventGroups<E> {
    groups: Vec<EventGroup<E>>,
    /// Events whose names exceed the limit.
    other: EventGroup<E>,
}

impl<E: Default> EventGroups<E> {
    /// Counts an event. A new name takes the place of one that had no event for an hour, if there is no room.
    pub(super) fn count(
        &mut self,
        name: &str,
        example: E,
        groups_max: usize,
        now: Timestamp,
    ) -> Grouped {
        if let Some(group) = self.groups.iter_mut().find(|group| &*group.name == name) {
            group.count(now, example);
            return Grouped::ByName;
        }
        if self.groups.len() >= groups_max {
            let oldest = self.groups.iter().enumerate().min_by_key(|(_, group)| group.last_at);
            let Some((idle, _)) = oldest.filter(|(_, group)| group.is_idle(now)) else {
                self.other.count(now, example);
                return Grouped::AsOther;
            };
            self.groups.swap_remove(idle);
        }
        let mut group = EventGroup { name: name.into(), ..EventGroup::default() };
        group.count(now, example);
        self.groups.push(group);
        Grouped::ByName
    }

    /// Leaves nothing later than `now`.
    pub(super) fn set_back(&mut self, now: Timestamp) {
        self.groups.iter_mut().chain([&mut self.other]).for_each(|group| group.set_back(now));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &EventGroup<E>> {
        self.groups.iter()
    }

    /// Returns the events whose names exceed the limit, if there are any.
    pub(super) fn other(&self) -> Option<&EventGroup<E>> {
        (self.other.total > 0).then_some(&self.other)
    }

    /// Returns the group of the last event.
    pub(super) fn last(&self) -> Option<&EventGroup<E>> {
        self.groups.iter().chain(self.other()).max_by_key(|group| group.last_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(minute: u64) -> Timestamp {
        Timestamp::from_millis(minute * 60_000)
    }

    fn names(groups: &EventGroups<u8>) -> Vec<(&str, u64)> {
        groups.iter().map(|group| (&*group.name, group.total)).collect()
    }

    #[test]
    fn a_group_has_its_first_and_last_event_and_since_when_there_is_no_pause() {
        let mut groups = EventGroups::default();
        for (at, example) in [(100, 1), (159, 2), (300, 3), (330, 4)] {
            groups.count("a", example, 2, minute(at));
        }
        let group = groups.last().unwrap();
        let times = [group.first_at, group.since, group.last_at];
        assert_eq!(times, [100, 300, 330].map(minute));
        assert_eq!((group.total, group.example), (4, 4));
        assert_eq!(group.recent.recent(minute(330), super::super::slices::SLICES), 2);
    }

    #[test]
    fn names_beyond_the_limit_share_a_group() {
        let mut groups = EventGroups::default();
        let counted = ["a", "b", "c", "d", "a"].map(|name| groups.count(name, 0, 2, minute(1)));
        assert_eq!(counted[1..4], [Grouped::ByName, Grouped::AsOther, Grouped::AsOther]);
        assert_eq!(names(&groups), [("a", 2), ("b", 1)]);
        assert_eq!(groups.other().unwrap().total, 2);
    }

    #[test]
    fn a_new_name_takes_the_place_of_one_without_events_for_an_hour() {
        let mut groups = EventGroups::default();
        groups.count("a", 0, 2, minute(0));
        groups.count("b", 0, 2, minute(30));
        assert_eq!(groups.count("c", 0, 2, minute(59)), Grouped::AsOther);
        assert_eq!(groups.count("c", 0, 2, minute(60)), Grouped::ByName);
        assert_eq!(names(&groups), [("b", 1), ("c", 1)]);
    }
}
