//! The reservations of this node, in memory. Redis has the same jobs in the hash of their queue.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use weir_base::clock::Timestamp;
use weir_jobs::job_types::TypeRun;
use weir_jobs::model::{QueueName, Wid};
use weir_jobs::rules;

use super::features::StoredFeatures;

/// A job that a worker of this node has.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub(super) jid: Box<str>,
    /// See [`weir_jobs::job_class::job_class`].
    pub(super) class: Box<str>,
    pub(super) queue: QueueName,
    pub(super) wid: Option<Wid>,
    pub(super) since: Timestamp,
    pub(super) expires_at: Timestamp,
    /// As it was in the list.
    pub(super) payload: Vec<u8>,
    /// Whether TRACK knows the job.
    pub(super) is_tracked: bool,
    /// Its place in the order in which reservations entered the table, which sets it. Numbers have another order: they are
    /// given to jobs before Redis reserves them.
    pub(super) arrival: u64,
    /// Of the statistics by type. `None`: it is not a job of this process.
    pub(super) run: Option<Rc<TypeRun>>,
    /// What Weir does for the job beside storing it.
    pub(super) features: Option<Box<StoredFeatures>>,
}

/// All reservations by number. A later one has a higher number.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    by_number: BTreeMap<u64, Reservation>,
    by_jid: BTreeSet<(Box<str>, u64)>,
    by_expiry: BTreeSet<(Timestamp, u64)>,
    busy: BTreeMap<Wid, u64>,
    last_arrival: u64,
}

impl Reservations {
    pub(super) fn insert(&mut self, number: u64, mut reservation: Reservation) {
        self.last_arrival += 1;
        reservation.arrival = self.last_arrival;
        self.by_jid.insert((reservation.jid.clone(), number));
        self.by_expiry.insert((reservation.expires_at, number));
        if let Some(wid) = &reservation.wid {
            *self.busy.entry(wid.clone()).or_default() += 1;
        }
        self.by_number.insert(number, reservation);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Reservation> {
        let reservation = self.by_number.remove(&number)?;
        self.by_jid.remove(&(reservation.jid.clone(), number));
        self.by_expiry.remove(&(reservation.expires_at, number));
        if let Some(wid) = &reservation.wid
            && let Some(jobs) = self.busy.get_mut(wid)
        {
            *jobs -= 1;
            if *jobs == 0 {
                self.busy.remove(wid);
            }
        }
        Some(reservation)
    }

    /// Removes all. The order in which they enter goes on.
    pub(super) fn take_all(&mut self) -> Self {
        let emptied = Self { last_arrival: self.last_arrival, ..Self::default() };
        std::mem::replace(self, emptied)
    }

    /// Returns the place of the last one that has entered the table.
    pub(super) const fn last_arrival(&self) -> u64 {
        self.last_arrival
    }

    pub(super) fn get(&self, number: u64) -> Option<&Reservation> {
        self.by_number.get(&number)
    }

    /// Returns the numbers of the reservations with this jid, the oldest first.
    pub(super) fn with_jid<'a>(&'a self, jid: &'a str) -> impl Iterator<Item = u64> + 'a {
        let from = (Box::<str>::from(jid), 0);
        self.by_jid.range(from..).take_while(move |(it, _)| &**it == jid).map(|(_, number)| *number)
    }

    /// Returns the numbers of those that a report of `reporter` may end, the oldest first.
    pub(super) fn reported<'a>(
        &'a self,
        jid: &'a str,
        reporter: Option<&'a Wid>,
    ) -> impl Iterator<Item = u64> + 'a {
        self.with_jid(jid).filter(move |number| {
            let holder = self.get(*number).and_then(|it| it.wid.as_ref());
            rules::may_end(holder, reporter)
        })
    }

    /// Returns a worker's reservations that entered the table up to the place `last`, the lowest number first.
    pub(super) fn held_until<'a>(
        &'a self,
        wid: &'a Wid,
        last: u64,
    ) -> impl Iterator<Item = (u64, &'a Reservation)> {
        self.iter().filter(move |(_, it)| it.arrival <= last && it.wid.as_ref() == Some(wid))
    }

    /// Returns the reservation that expires first, if it has expired.
    pub(super) fn expired(&self, now: Timestamp) -> Option<u64> {
        self.by_expiry.first().filter(|(at, _)| *at <= now).map(|(_, number)| *number)
    }

    /// Extends a reservation until `until`; never shortens it.
    pub(super) fn extend(&mut self, number: u64, until: Timestamp) {
        if let Some(reservation) = self.by_number.get_mut(&number)
            && until > reservation.expires_at
        {
            self.by_expiry.remove(&(reservation.expires_at, number));
            reservation.expires_at = until;
            self.by_expiry.insert((until, number));
        }
    }

    /// Notes that the start of a job has freed its lock, which would have ended at `ends_at`.
    pub(super) fn note_freed_lock(&mut self, number: u64, ends_at: Option<Timestamp>) {
        let reservation = self.by_number.get_mut(&number);
        if let Some(features) = reservation.and_then(|it| it.features.as_mut()) {
            features.note_start(ends_at);
        }
    }

    pub(super) fn busy(&self, wid: &Wid) -> u64 {
        self.busy.get(wid).copied().unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Reservation)> {
        self.by_number.iter().map(|(number, reservation)| (*number, reservation))
    }
}

#[cfg(test)]
mod tests {
    use weir_jobs::settings::JobServerLimits;

    use super::*;

    fn reservation(jid: &str, wid: &str, expires: u64) -> Reservation {
        Reservation {
            jid: jid.into(),
            class: "Test".into(),
            queue: QueueName::parse("default", &JobServerLimits::default()).unwrap(),
            wid: Some(Wid::new(wid)),
            since: Timestamp::from_millis(1),
            expires_at: Timestamp::from_millis(expires),
            payload: Vec::new(),
            is_tracked: false,
            run: None,
            arrival: 0,
            features: None,
        }
    }

    #[test]
    fn reservations_are_found_by_jid_worker_and_time() {
        let mut table = Reservations::default();
        for (number, jid, wid, expires) in [(1, "b", "w1", 9), (2, "a", "w2", 5), (3, "b", "w1", 7)]
        {
            table.insert(number, reservation(jid, wid, expires));
        }
        assert_eq!(table.with_jid("b").collect::<Vec<_>>(), [1, 3]);
        assert_eq!(table.with_jid("").count(), 0);
        let reported = |wid: Option<&Wid>| table.reported("a", wid).collect::<Vec<_>>();
        assert_eq!(reported(Some(&Wid::new("w2"))), [2]);
        assert!(reported(Some(&Wid::new("w1"))).is_empty(), "it is another worker's");
        assert_eq!(reported(None), [2]);
        let held = |table: &Reservations, last| -> Vec<u64> {
            table.held_until(&Wid::new("w1"), last).map(|(number, _)| number).collect()
        };
        assert_eq!(held(&table, table.last_arrival()), [1, 3]);
        assert_eq!(table.busy(&Wid::new("w1")), 2);
        assert_eq!(table.expired(Timestamp::from_millis(4)), None);
        table.extend(2, Timestamp::from_millis(8));
        table.extend(2, Timestamp::from_millis(2));
        assert_eq!(table.expired(Timestamp::from_millis(7)), Some(3));
        assert_eq!(table.remove(3).unwrap().expires_at, Timestamp::from_millis(7));
        assert_eq!(table.expired(Timestamp::from_millis(8)), Some(2));
        table.remove(1);
        assert_eq!((table.busy(&Wid::new("w1")), table.with_jid("b").count()), (0, 0));
        assert!(table.remove(1).is_none());
    }

    #[test]
    fn what_enters_after_a_mark_is_behind_it_whatever_its_number() {
        let mut table = Reservations::default();
        table.insert(5, reservation("a", "w1", 9));
        let mark = table.last_arrival();
        table.insert(2, reservation("b", "w1", 9));
        let held = |table: &Reservations| -> Vec<u64> {
            table.held_until(&Wid::new("w1"), mark).map(|(number, _)| number).collect()
        };
        assert_eq!(held(&table), [5]);
        assert_eq!(table.take_all().iter().count(), 2);
        table.insert(6, reservation("a", "w1", 9));
        assert_eq!((held(&table), table.iter().count()), (vec![], 1));
    }
}
