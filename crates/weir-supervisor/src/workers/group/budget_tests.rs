//! No sequence of changes, failures and ends exceeds the connections of the budget, and every change
//! is carried out in the end.

use proptest::prelude::*;

use super::super::values::WorkerValues;
use super::*;
use crate::RestartPolicy;
use crate::workers::generation::Phase;

const SECOND: Duration = Duration::from_secs(1);
/// More than any delay before a start.
const LONG: Duration = Duration::from_secs(3_600);
/// Limit of the turns until all changes are carried out.
const TURNS_MAX: usize = 400;

#[derive(Clone, Debug)]
enum Step {
    /// A group gets so many processes with so many connections each, if the budget permits.
    Set {
        group: usize,
        processes: u32,
        connections: u32,
    },
    /// All workers of a group are restarted.
    Restart(usize),
    /// One worker is replaced.
    Recycle {
        group: usize,
        slot: usize,
    },
    /// A process gets ready, or one that is ending ends: the one with this position.
    Advance(usize),
    /// A process dies.
    Die(usize),
    Later,
}

struct Groups {
    groups: Vec<WorkerGroup>,
    max: u32,
    numbers: Numbers,
    now: Duration,
}

fn launch(connections: u32) -> LaunchValues {
    let values = WorkerValues { threads: Some(connections), queues: Vec::new() };
    LaunchValues { values, connections }
}

fn times() -> Times {
    Times {
        restart: RestartPolicy { backoff_min: SECOND, ..RestartPolicy::default() },
        start_deadline: LONG * 100,
        ready_after: None,
        is_probed: false,
        let_go_deadline: SECOND,
        stop_deadline: LONG * 100,
        dump_wait: None,
        watchdog: None,
        retry_after: SECOND,
    }
}

impl Groups {
    fn new(max: u32) -> Self {
        let group = |_| {
            let mut group = WorkerGroup::new(times(), 1);
            group.launch = launch(max / 4);
            group
        };
        let groups = (0..3).map(group).collect();
        Self { groups, max, numbers: Numbers::default(), now: SECOND }
    }

    fn used(&self) -> u64 {
        self.groups.iter().map(WorkerGroup::connections).sum()
    }

    /// One turn of the fleet, of which only the rules matter.
    fn run_due(&mut self) {
        let mut room = ConnectionRoom::new(Some(self.max), self.used());
        let moment = Moment { now: self.now, prober_since: None };
        for group in &mut self.groups {
            group.start_replaced(moment, &mut self.numbers, &mut 8, &mut room);
        }
        for group in &mut self.groups {
            group.run_due(moment, &mut self.numbers, &mut 8, &mut room);
        }
        for group in &mut self.groups {
            group.roll(self.now, &mut self.numbers, &mut room);
        }
        assert!(self.used() <= self.max.into(), "{} of {}", self.used(), self.max);
    }

    fn perform(&mut self, step: &Step) {
        match *step {
            Step::Set { group, processes, connections } => self.set(group, processes, connections),
            Step::Restart(group) => drop(self.groups[group].restart_rolling()),
            Step::Recycle { group, slot } => {
                let mut room = ConnectionRoom::new(Some(self.max), self.used());
                let (now, numbers) = (self.now, &mut self.numbers);
                let _ = self.groups[group].restart(slot, numbers, now, &mut room);
            }
            Step::Advance(position) => self.advance(position),
            Step::Die(position) => self.end(position),
            Step::Later => self.now += LONG,
        }
        self.run_due();
    }

    fn set(&mut self, changed: usize, processes: u32, connections: u32) {
        let others = self.groups.iter().enumerate().filter(|(index, _)| *index != changed);
        let others = others.map(|(_, it)| it.target * it.launch.connections as usize);
        let sum = others.sum::<usize>() + (processes * connections) as usize;
        if sum <= self.max as usize {
            self.groups[changed].resize(processes, self.now);
            self.groups[changed].set_launch(launch(connections));
        }
    }

    /// Group, slot and number of all processes, and whether they are ending.
    fn processes(&self) -> Vec<(usize, usize, u64, Phase)> {
        let groups = self.groups.iter().enumerate();
        let slots = groups.flat_map(|(group, it)| {
            it.slots.iter().enumerate().map(move |(slot, it)| (group, slot, it))
        });
        let all = slots.flat_map(|(group, slot, it)| {
            it.generations().map(move |it| (group, slot, it.number, it.phase.clone()))
        });
        all.collect()
    }

    fn advance(&mut self, position: usize) {
        let all = self.processes();
        let Some((group, slot, number, phase)) = all.get(position % all.len().max(1)) else {
            return;
        };
        match phase {
            Phase::Starting => drop(self.groups[*group].slots[*slot].ready(*number, self.now)),
            Phase::Ready => {}
            _ => drop(self.groups[*group].ended(*slot, *number, "asked to", self.now)),
        }
    }

    fn end(&mut self, position: usize) {
        let all = self.processes();
        if let Some((group, slot, number, _)) = all.get(position % all.len().max(1)) {
            self.groups[*group].ended(*slot, *number, "it died", self.now);
        }
    }

    fn is_settled(&self) -> bool {
        self.groups.iter().all(|group| {
            let is_current =
                |slot: &WorkerSlot| slot.is_settled() && !slot.is_outdated(&group.launch);
            group.slots.len() == group.target && group.slots.iter().all(is_current)
        })
    }

    /// Lets all processes do what they should.
    fn settle(&mut self) -> bool {
        for group in &mut self.groups {
            // A replacement may have failed, which ends the change; an operator repeats it.
            let launch = group.launch.clone();
            group.set_launch(launch);
        }
        for _ in 0..TURNS_MAX {
            self.now += LONG;
            self.run_due();
            if self.is_settled() {
                return true;
            }
            (0..self.processes().len()).for_each(|position| self.advance(position));
        }
        false
    }
}

fn steps(max: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..3usize, 1..12u32, 0..=max).prop_map(|(group, processes, all)| {
            Step::Set { group, processes, connections: all / processes }
        }),
        1 => (0..3usize).prop_map(Step::Restart),
        1 => (0..3usize, 0..4usize).prop_map(|(group, slot)| Step::Recycle { group, slot }),
        8 => (0..40usize).prop_map(Step::Advance),
        1 => (0..40usize).prop_map(Step::Die),
        1 => Just(Step::Later),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn changes_never_exceed_the_budget_and_are_all_carried_out(
        (max, steps) in (4..100u32).prop_flat_map(|max| (Just(max), steps(max)))
    ) {
        let mut groups = Groups::new(max);
        groups.run_due();
        for step in &steps {
            groups.perform(step);
        }
        prop_assert!(groups.settle(), "{:?}", groups.groups);
    }
}

#[test]
fn a_worker_that_does_not_fit_beside_its_successor_ends_first() {
    let mut groups = Groups::new(100);
    groups.perform(&Step::Set { group: 0, processes: 2, connections: 25 });
    groups.settle();
    assert_eq!(groups.used(), 100);
    groups.perform(&Step::Set { group: 0, processes: 1, connections: 50 });
    assert!(!groups.is_settled());
    assert!(groups.settle());
    assert_eq!((groups.used(), groups.groups[0].slots.len()), (100, 1));
}
