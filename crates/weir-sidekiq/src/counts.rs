//! Reads only the lengths of some queues, for frequent use. Each takes Redis one microsecond.

use weir_base::clock::Timestamp;

use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::keys;
use crate::look::time_of;
use crate::questions::{Question, ReadCommand};
use crate::snapshot::Read;

/// Lengths of the requested queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Time by Redis' clock.
    pub at: Timestamp,
    /// Lengths in the order of the request.
    pub lengths: Vec<u64>,
}

impl RedisConnection {
    /// Reads the lengths in one round trip, so `queues` should have at most some dozens.
    ///
    /// # Errors
    /// Returns an error if the connection fails. A rejected command is not an error.
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
