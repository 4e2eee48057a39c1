//! Lengths of some queues and nothing else, as often as somebody wants: a microsecond of Redis for each.

use weir_base::clock::Timestamp;

use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::keys;
use crate::look::time_of;
use crate::questions::{Question, ReadCommand};
use crate::snapshot::Read;

/// How many jobs wait in each of the queues that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// By the clock of Redis.
    pub at: Timestamp,
    /// In the order in which they were asked for.
    pub lengths: Vec<u64>,
}

impl RedisConnection {
    /// Counts once, in one round trip: not more than some dozens of queues should be asked for.
    ///
    /// # Errors
    /// When the connection fails. What Redis refuses is no error.
    pub async fn lengths(&mut self, queues: &[String]) -> Result<Read<Lengths>, SidekiqError> {
        let length =
            |queue: &String| Question::new(ReadCommand::ListLength, &[&keys::queue(queue)]);
        let time = std::iter::once(Question::new(ReadCommand::Time, &[]));
        let questions: Vec<_> = time.chain(queues.iter().map(length)).collect();
        let mut answers = self.query(&questions).await?.into_iter();
        let time = answers.next().expect("a connection answers each question or fails");
        let lengths: Read<Vec<u64>> =
            answers.map(|answer| answer.and_then(|told| told.read())).collect();
        Ok(time.and_then(time_of).and_then(|at| Ok(Lengths { at, lengths: lengths? })))
    }
}
