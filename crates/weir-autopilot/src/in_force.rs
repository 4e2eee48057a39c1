//! What is in force: the rules' values with their times, and what operators have set.

use std::collections::BTreeMap;

use weir_control::controls::OverrideTarget;
use weir_control::{Controls, Override};

use crate::roster::LiveRoster;
use crate::sources::CarriedLimits;
use crate::state_file::{KeptLimit, KeptOverride};
use crate::view::LimitView;

/// Limits in force. Times are seconds since the Unix epoch.
#[derive(Clone, Debug, Default)]
pub struct InForce {
    /// The values of the rules and of operators.
    pub controls: Controls,
    /// Values that operators have set.
    pub overrides: Vec<KeptOverride>,
    since: BTreeMap<Option<usize>, f64>,
}

impl InForce {
    /// Returns whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.controls.threads.is_none() && self.controls.caps.is_empty()
    }

    /// Returns the limits, each with the position of its class.
    fn limits(&self) -> impl Iterator<Item = (Option<usize>, u32)> {
        let caps = self.controls.caps.iter().map(|(class, jobs)| (Some(*class), *jobs));
        self.controls.threads.map(|jobs| (None, jobs)).into_iter().chain(caps)
    }

    /// Takes other values. A limit of as many threads as there are workers is none.
    pub fn set(&mut self, mut controls: Controls, workers: u32, now: f64) {
        controls.threads = controls.threads.filter(|threads| {
            *threads < workers || self.overrides.iter().any(|it| it.class.is_none())
        });
        let before: BTreeMap<_, _> = self.limits().collect();
        self.controls = controls;
        let after: BTreeMap<_, _> = self.limits().collect();
        self.since.retain(|of, _| after.get(of) == before.get(of));
        for of in after.keys() {
            self.since.entry(*of).or_insert(now);
        }
    }

    /// Sets the limit of a class, or of all queues; `None`: ends it.
    pub fn set_limit(&mut self, class: Option<usize>, jobs: Option<u32>, now: f64) {
        match (class, jobs) {
            (None, jobs) => self.controls.threads = jobs,
            (Some(class), Some(jobs)) => drop(self.controls.caps.insert(class, jobs)),
            (Some(class), None) => drop(self.controls.caps.remove(&class)),
        }
        match jobs {
            Some(_) => drop(self.since.insert(class, now)),
            None => drop(self.since.remove(&class)),
        }
    }

    /// Moves all times by `step` seconds, because the wall clock was set: what was set for an hour lasts an hour.
    pub fn follow_clock(&mut self, step: f64) {
        for set in &mut self.overrides {
            set.at += step;
            set.until += step;
        }
        self.since.values_mut().for_each(|since| *since += step);
    }

    /// Ends all limits of the rules; what operators have set stays.
    pub fn end_decided(&mut self, roster: &LiveRoster) {
        let kept: Vec<_> = self.overrides.iter().map(|it| class_of(it, roster)).collect();
        if !kept.contains(&Some(None)) {
            self.controls.threads = None;
        }
        self.controls.caps.retain(|class, _| kept.contains(&Some(Some(*class))));
        let left: Vec<_> = self.limits().map(|(of, _)| of).collect();
        self.since.retain(|of, _| left.contains(of));
    }

    /// Returns whether a limit of the rules is in force.
    #[must_use]
    pub fn has_decided(&self, roster: &LiveRoster) -> bool {
        self.limits().any(|(of, _)| self.set_by(of, roster).is_none())
    }

    /// Tells the rules what operators have set. `now_seconds` is on the rules' clock.
    pub fn note_overrides(&mut self, roster: &LiveRoster, now: f64, now_seconds: f64) {
        let overrides = self.overrides.iter().filter_map(|it| {
            let target = match class_of(it, roster)? {
                None => OverrideTarget::Threads,
                Some(class) => OverrideTarget::Class(class),
            };
            Some(Override { target, until_seconds: now_seconds + (it.until - now) })
        });
        self.controls.overrides = overrides.collect();
    }

    /// Returns what the actuator is to carry out.
    #[must_use]
    pub fn carried(&self, roster: &LiveRoster) -> CarriedLimits {
        let classes = self.controls.caps.iter();
        let classes =
            classes.map(|(class, jobs)| (roster.class_name(*class).to_owned(), *jobs)).collect();
        let known = self.controls.caps.keys().filter_map(|class| {
            let queue = roster.queue_of(*class)?;
            Some((roster.class_name(*class).to_owned(), queue.to_owned()))
        });
        let class_queues = known.collect();
        let queues = self.controls.threads.map(|_| roster.queue_names().map(str::to_owned));
        let queues = queues.into_iter().flatten().collect();
        CarriedLimits { threads: self.controls.threads, queues, classes, class_queues }
    }

    /// Returns the limits of the rules for the state file.
    #[must_use]
    pub fn kept(&self, roster: &LiveRoster) -> Vec<KeptLimit> {
        let decided = self.limits().filter(|(of, _)| self.set_by(*of, roster).is_none());
        let kept = decided.map(|(of, jobs)| KeptLimit {
            class: of.map(|class| roster.class_name(class).to_owned()),
            jobs,
            since: self.since.get(&of).copied().unwrap_or_default(),
        });
        kept.collect()
    }

    /// Returns all limits for people. `until`: when those of the rules end unless they are renewed.
    #[must_use]
    pub fn views(&self, roster: &LiveRoster, until: f64) -> Vec<LimitView> {
        let view = |(of, jobs): (Option<usize>, u32)| {
            let by_hand = self.set_by(of, roster);
            LimitView {
                class: of.map(|class| roster.class_name(class).to_owned()),
                jobs,
                since: self.since.get(&of).copied().unwrap_or_default(),
                set_by: by_hand.map(|it| it.by.clone()),
                until: by_hand.map_or(until, |it| it.until),
            }
        };
        self.limits().map(view).collect()
    }

    fn set_by(&self, of: Option<usize>, roster: &LiveRoster) -> Option<&KeptOverride> {
        self.overrides.iter().find(|it| class_of(it, roster) == Some(of))
    }
}

/// Returns the position of the class that is set; `None`: it has no position.
fn class_of(set: &KeptOverride, roster: &LiveRoster) -> Option<Option<usize>> {
    match &set.class {
        None => Some(None),
        Some(name) => roster.find_class(name).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_set_stays_when_the_rules_end_theirs() {
        let mut roster = LiveRoster::new(5, 5, true);
        let (hog, mail) = (roster.class("Hog").unwrap(), roster.class("Mail").unwrap());
        roster.queue("q", 5.0, true);
        let mut in_force = InForce::default();
        let set = KeptOverride {
            class: Some("Mail".to_owned()),
            jobs: 3,
            at: 5.0,
            until: 65.0,
            by: "me".to_owned(),
        };
        in_force.overrides.push(set);
        in_force.set_limit(Some(mail), Some(3), 5.0);
        let mut controls = in_force.controls.clone();
        controls.threads = Some(4);
        controls.caps.insert(hog, 1);
        in_force.set(controls, 10, 7.0);
        in_force.note_overrides(&roster, 6.0, 1_000.0);
        assert!((in_force.controls.overrides[0].until_seconds - 1_059.0).abs() < 1e-9);
        assert_eq!(in_force.carried(&roster).queues, ["q"]);
        let views = in_force.views(&roster, 90.0);
        let shown: Vec<_> = views.iter().map(|it| (it.what(), it.jobs, it.until)).collect();
        assert_eq!(shown, [("all queues", 4, 90.0), ("Hog", 1, 90.0), ("Mail", 3, 65.0)]);
        assert_eq!(in_force.kept(&roster).len(), 2);
        in_force.end_decided(&roster);
        assert!(!in_force.has_decided(&roster) && !in_force.is_empty());
        assert_eq!(in_force.views(&roster, 90.0).len(), 1);
    }

    #[test]
    fn a_limit_of_as_many_threads_as_workers_is_none() {
        let mut in_force = InForce::default();
        let controls = |threads| Controls { threads: Some(threads), ..Controls::default() };
        in_force.set(controls(10), 10, 1.0);
        assert!(in_force.is_empty());
        in_force.set(controls(9), 10, 2.0);
        assert_eq!(in_force.controls.threads, Some(9));
    }
}
