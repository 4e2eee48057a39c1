//! One channel's order, as its subscribers see it: the first to hear an event sets its place, all others must
//! hear it in the same. No server is asked: publishes that overlap may be sequenced either way.

use std::collections::{HashMap, HashSet};

/// What one subscriber has heard of its channel.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// Place in the channel's order of the event that should come next.
    next: usize,
    /// Only once something was out of order: most subscribers never need it.
    oddities: Option<Box<Oddities>>,
}

#[derive(Debug, Default)]
struct Oddities {
    /// Events that others heard, and that did not come when they should have.
    skipped: HashSet<u32>,
    /// Events heard before they had a place.
    early: HashSet<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// As it should be, or after a jump forward (what was jumped over may be lost).
    New,
    /// The same, and this subscriber is the first to hear it.
    First,
    /// Heard for the first time, but after one that others heard later.
    Reordered,
    /// Heard before.
    Duplicated,
}

#[derive(Debug, Default)]
pub(crate) struct ChannelOrder {
    numbers: Vec<u32>,
    places: HashMap<u32, usize>,
    /// Events that a subscriber heard early: it and the one that sets the place disagree.
    early: HashSet<u32>,
}

impl ChannelOrder {
    pub(crate) fn arrive(&mut self, seat: &mut Seat, number: u32) -> Arrival {
        if seat.oddities.is_none() && self.numbers.get(seat.next) == Some(&number) {
            seat.next += 1;
            return Arrival::New;
        }
        if let Some(oddities) = &mut seat.oddities {
            if oddities.skipped.remove(&number) {
                return Arrival::Reordered;
            }
            if oddities.early.contains(&number) {
                return Arrival::Duplicated;
            }
        }
        match self.places.get(&number) {
            Some(place) if *place < seat.next => Arrival::Duplicated,
            Some(place) => self.jump(seat, *place),
            None if self.is_newest(seat, number) => {
                self.skip(seat, self.numbers.len());
                self.append(seat, number)
            }
            None => {
                seat.oddities.get_or_insert_default().early.insert(number);
                self.early.insert(number);
                Arrival::New
            }
        }
    }

    fn append(&mut self, seat: &mut Seat, number: u32) -> Arrival {
        self.places.insert(number, self.numbers.len());
        self.numbers.push(number);
        seat.next += 1;
        if self.early.contains(&number) { Arrival::Reordered } else { Arrival::First }
    }

    /// Whether `number`, which has no place yet, was published after all that this subscriber has not heard.
    /// If not, those who set the order may be the ones who missed it.
    fn is_newest(&self, seat: &Seat, number: u32) -> bool {
        self.numbers[seat.next..].iter().all(|other| *other < number)
    }

    fn jump(&self, seat: &mut Seat, place: usize) -> Arrival {
        self.skip(seat, place);
        seat.next = place + 1;
        Arrival::New
    }

    /// Events before `place` that did not come are remembered.
    fn skip(&self, seat: &mut Seat, place: usize) {
        let over = &self.numbers[seat.next..place];
        seat.next = place;
        if !over.is_empty() {
            let Oddities { skipped, early } = &mut **seat.oddities.get_or_insert_default();
            skipped.extend(over.iter().filter(|number| !early.contains(number)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arrival::{Duplicated, First, New, Reordered};
    use super::*;

    /// Each subscriber in turn hears its events; what each arrival was.
    fn check(heard: &[(&[u32], &[Arrival])]) {
        let mut order = ChannelOrder::default();
        for (numbers, expected) in heard {
            let mut seat = Seat::default();
            let arrivals: Vec<_> = numbers.iter().map(|n| order.arrive(&mut seat, *n)).collect();
            assert_eq!(arrivals, *expected, "{numbers:?}");
        }
    }

    #[test]
    fn the_first_sets_the_order_whatever_it_is() {
        check(&[(&[2, 1, 3], &[First, First, First]), (&[2, 1, 3], &[New, New, New])]);
    }

    #[test]
    fn another_order_is_found_even_if_nothing_is_lost() {
        check(&[(&[1, 2, 3], &[First; 3]), (&[1, 3, 2], &[New, New, Reordered])]);
        check(&[(&[1], &[First]), (&[2, 1], &[First, Reordered]), (&[1, 2], &[New, New])]);
    }

    #[test]
    fn repetitions_are_found_at_once_and_later() {
        check(&[(&[1, 1, 2, 1], &[First, Duplicated, First, Duplicated])]);
        check(&[
            (&[1, 2, 3], &[First; 3]),
            (&[1, 3, 3, 2, 2], &[New, New, Duplicated, Reordered, Duplicated]),
        ]);
    }

    #[test]
    fn a_gap_of_one_subscriber_is_no_fault_of_the_others() {
        check(&[(&[1, 3], &[First; 2]), (&[1, 2, 3], &[New, New, New]), (&[1, 3], &[New, New])]);
        check(&[(&[1, 2], &[First; 2]), (&[1, 3], &[New, First]), (&[1, 2, 3], &[New; 3])]);
    }
}
