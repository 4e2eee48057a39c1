//! Redis' replies to the scripts and to what is read about queues.

use std::time::Duration;

use redis::{Value, from_redis_value};
use weir_base::clock::Timestamp;

use super::rate_reading::RateReading;
use super::stored::StoredText;

/// A job that a script has reserved. Workers and queues count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoppedJob {
    pub(super) worker: usize,
    pub(super) queue: usize,
    pub(super) number: u64,
    pub(super) payload: Vec<u8>,
}

/// What a script that reserves jobs has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PoppedJobs {
    /// When the jobs were reserved.
    pub(super) since: Timestamp,
    pub(super) jobs: Vec<PoppedJob>,
    /// Queues whose next job may start only after a time, by a rate.
    pub(super) sleeping: Vec<(usize, Duration)>,
    /// Queues of which no further job may start now, and the time after which a blocked one may by a rate.
    pub(super) blocked: Vec<(usize, Option<Duration>)>,
    /// Whether another script may find jobs, because this one has moved as many blocked ones as it may.
    pub(super) has_more: bool,
    /// Whether jobs in progress have to be counted.
    pub(super) is_uncounted: bool,
}

/// Parses the result of the scripts that reserve jobs.
pub(super) fn popped_jobs(reply: Vec<Value>) -> PoppedJobs {
    let mut values = reply.into_iter();
    let since: u64 = values.next().map(number).unwrap_or_default();
    let mut popped = PoppedJobs { since: Timestamp::from_micros(since), ..PoppedJobs::default() };
    while let (Some(worker), Some(queue), Some(name), Some(Value::BulkString(payload))) =
        (values.next(), values.next(), values.next(), values.next())
    {
        let place = |value| usize::try_from(number(value)).unwrap_or(usize::MAX).wrapping_sub(1);
        let (worker, queue, number) = (place(worker), place(queue), number(name));
        match worker {
            NO_WORKER => popped.add_note(queue, Duration::from_micros(number), &payload),
            worker => popped.jobs.push(PoppedJob { worker, queue, number, payload }),
        }
    }
    popped
}

impl PoppedJobs {
    fn add_note(&mut self, queue: usize, wait: Duration, kind: &[u8]) {
        match kind {
            b"blocked" => self.blocked.push((queue, Some(wait).filter(|it| !it.is_zero()))),
            b"more" => self.has_more = true,
            b"uncounted" => self.is_uncounted = true,
            _ => self.sleeping.push((queue, wait)),
        }
    }
}

/// Workers count from 1 in Redis.
const NO_WORKER: usize = 0_usize.wrapping_sub(1);

fn number(value: Value) -> u64 {
    from_redis_value(value).unwrap_or_default()
}

/// What is read about a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueReading {
    pub(super) depth: u64,
    /// When the job that is next was enqueued. `None` if there is none, or if it is no job.
    pub(super) oldest: Option<Timestamp>,
    pub(super) reserved: u32,
    pub(super) paused: bool,
    /// What its rate owes. `None`: nothing has started under one.
    pub(super) rate: Option<RateReading>,
}

/// Values of one [`QueueReading`].
const VALUES: usize = 5;

impl QueueReading {
    /// Parses the result of the script that reads queues, so many of them.
    pub(super) fn all_of(reply: &[Value], queues: usize) -> Vec<Self> {
        reply.chunks(VALUES).take(queues).map(Self::of).collect()
    }

    /// Parses what follows the queues: what the rates of resources owe.
    pub(super) fn rates_of(reply: &[Value], queues: usize) -> Vec<Option<RateReading>> {
        reply.iter().skip(queues * VALUES).map(RateReading::parse).collect()
    }

    fn of(replies: &[Value]) -> Self {
        let count = |place: usize| replies.get(place).cloned().map(number).unwrap_or_default();
        let oldest = match replies.get(1) {
            Some(Value::BulkString(payload)) => StoredText::parse(payload, usize::MAX)
                .ok()
                .map(|text| text.enqueued_at())
                .filter(|time| *time > Timestamp::default()),
            _ => None,
        };
        let is_set = |value: &Value| matches!(value, Value::BulkString(text) if text == b"1");
        Self {
            depth: count(0),
            oldest,
            reserved: u32::try_from(count(2)).unwrap_or(u32::MAX),
            paused: replies.get(3).is_some_and(is_set),
            rate: replies.get(4).and_then(RateReading::parse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn reserved_jobs_are_read() {
        let reply = vec![text("5"), Value::Int(1), Value::Int(2), text("7"), text("{}")];
        let sleeping = vec![Value::Int(0), Value::Int(3), text("1500"), text("")];
        let blocked = vec![Value::Int(0), Value::Int(2), text("0"), text("blocked")];
        let later = vec![Value::Int(0), Value::Int(1), text("9"), text("blocked")];
        let more = vec![Value::Int(0), Value::Int(1), text("0"), text("more")];
        let popped = popped_jobs([reply, sleeping, blocked, later, more].concat());
        assert_eq!(popped.since, Timestamp::from_micros(5));
        let payload = b"{}".to_vec();
        assert_eq!(popped.jobs, [PoppedJob { worker: 0, queue: 1, number: 7, payload }]);
        assert_eq!(popped.sleeping, [(2, Duration::from_micros(1_500))]);
        assert_eq!(popped.blocked, [(1, None), (0, Some(Duration::from_micros(9)))]);
        assert!(popped.has_more && !popped.is_uncounted);
        assert_eq!(popped_jobs(Vec::new()), PoppedJobs::default());
    }

    #[test]
    fn a_key_of_another_type_is_an_empty_queue() {
        let reply = [Value::Nil, Value::Nil, Value::Int(3), text("1"), text(""), text("-5 7")];
        let expected = QueueReading { reserved: 3, paused: true, ..QueueReading::default() };
        assert_eq!(QueueReading::all_of(&reply, 1), [expected]);
        let rates = QueueReading::rates_of(&reply, 1);
        assert_eq!(rates, [RateReading::parse(&text("-5 7"))]);
        assert!(rates[0].is_some());
    }
}
