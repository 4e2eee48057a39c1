//! Positions of queues and classes, as the rules use them. A position is never given to another one, so that histories
//! stay right; what exceeds the limits is counted and has no position.

use std::collections::HashMap;

use weir_control::Roster;
use weir_control::load::{ClassInfo, QueueInfo};

/// The position of the queue of everything that is not a queue.
const NO_QUEUE: usize = 0;
/// The position of the class of database sessions that belong to no job.
pub const OTHER_SESSIONS: usize = 0;
/// The position of the class of job types without a position.
pub const OTHER_CLASSES: usize = 1;

/// Queues and classes with their positions.
#[derive(Clone, Debug)]
pub struct LiveRoster {
    roster: Roster,
    queues: HashMap<String, usize>,
    classes: HashMap<String, usize>,
    queues_max: usize,
    classes_max: usize,
    can_limit_classes: bool,
}

impl LiveRoster {
    /// Creates a roster for so many queues and classes. `can_limit_classes`: the system can limit one.
    #[must_use]
    pub fn new(queues_max: usize, classes_max: usize, can_limit_classes: bool) -> Self {
        let others = QueueInfo {
            name: "(other)".to_owned(),
            target_seconds: f64::MAX,
            fresh_lane: false,
            is_managed: false,
        };
        let class = |name: &str| ClassInfo {
            name: name.to_owned(),
            queue: NO_QUEUE,
            can_be_limited: false,
        };
        let roster = Roster {
            queues: vec![others],
            classes: vec![class("(other sessions)"), class("(other job types)")],
            // Weir's dispatch has guarantees and a fresh lane of its own; Sidekiq has neither.
            shares_threads_itself: true,
        };
        let (queues, classes) = (HashMap::new(), HashMap::new());
        Self { roster, queues, classes, queues_max, classes_max, can_limit_classes }
    }

    /// Returns the roster for the rules.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Returns the position of a queue, which it may get now. `None`: there are too many.
    pub fn queue(&mut self, name: &str, target_seconds: f64, is_managed: bool) -> Option<usize> {
        if let Some(position) = self.queues.get(name) {
            let info = &mut self.roster.queues[*position];
            (info.target_seconds, info.is_managed) = (target_seconds, is_managed);
            return Some(*position);
        }
        if self.queues.len() >= self.queues_max {
            return None;
        }
        let (position, fresh_lane) = (self.roster.queues.len(), false);
        let name = name.to_owned();
        self.roster.queues.push(QueueInfo {
            name: name.clone(),
            target_seconds,
            fresh_lane,
            is_managed,
        });
        self.queues.insert(name, position);
        Some(position)
    }

    /// Returns the position of a class, which it may get now. `None`: there are too many.
    pub fn class(&mut self, name: &str) -> Option<usize> {
        if let Some(position) = self.classes.get(name) {
            return Some(*position);
        }
        if self.classes.len() >= self.classes_max {
            return None;
        }
        let position = self.roster.classes.len();
        let name = name.to_owned();
        let can_be_limited = self.can_limit_classes;
        let info = ClassInfo { name: name.clone(), queue: NO_QUEUE, can_be_limited };
        self.roster.classes.push(info);
        self.classes.insert(name, position);
        Some(position)
    }

    /// Notes from which queue most of a class' jobs come. A class of an unknown queue stays where it was.
    pub fn set_queue_of(&mut self, class: usize, queue: &str) {
        if let (Some(info), Some(queue)) =
            (self.roster.classes.get_mut(class), self.queues.get(queue))
        {
            info.queue = *queue;
        }
    }

    /// Notes which classes can be limited now. What stands for several classes never can be.
    pub fn set_limitable(&mut self, mut can_be_limited: impl FnMut(&str) -> bool) {
        for class in self.roster.classes.iter_mut().skip(OTHER_CLASSES + 1) {
            class.can_be_limited = can_be_limited(&class.name);
        }
    }

    /// Returns the queue from which most of a class' jobs come. `None`: it is not known.
    #[must_use]
    pub fn queue_of(&self, class: usize) -> Option<&str> {
        let queue = self.roster.classes.get(class)?.queue;
        (queue != NO_QUEUE).then(|| self.queue_name(queue))
    }

    /// Returns the position of a class that has one.
    #[must_use]
    pub fn find_class(&self, name: &str) -> Option<usize> {
        self.classes.get(name).copied()
    }

    /// Returns the name of a class.
    #[must_use]
    pub fn class_name(&self, class: usize) -> &str {
        self.roster.classes.get(class).map_or("?", |it| it.name.as_str())
    }

    /// Returns the name of a queue.
    #[must_use]
    pub fn queue_name(&self, queue: usize) -> &str {
        self.roster.queues.get(queue).map_or("?", |it| it.name.as_str())
    }

    /// Returns the names of all queues.
    pub fn queue_names(&self) -> impl Iterator<Item = &str> {
        self.roster.queues[1..].iter().map(|queue| queue.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_stay_and_are_bounded() {
        let mut roster = LiveRoster::new(1, 2, true);
        assert_eq!(roster.queue("a", 5.0, true), Some(1));
        assert_eq!((roster.queue("b", 5.0, true), roster.queue("a", 7.0, true)), (None, Some(1)));
        assert_eq!(
            (roster.class("A"), roster.class("B"), roster.class("C")),
            (Some(2), Some(3), None)
        );
        roster.set_queue_of(2, "a");
        roster.set_queue_of(3, "unknown");
        let of: Vec<_> = roster.roster().classes.iter().map(|it| it.queue).collect();
        assert_eq!(of, [0, 0, 1, 0]);
        assert!((roster.roster().queues[1].target_seconds - 7.0).abs() < f64::EPSILON);
        assert!(!roster.roster().classes[OTHER_CLASSES].can_be_limited);
    }
}
