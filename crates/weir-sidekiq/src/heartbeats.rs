//! Whether processes still beat, and whether those that were quiet still are: the second of two looks at
//! them.

use std::collections::BTreeMap;

use weir_base::clock::Timestamp;

use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::questions::{Question, ReadCommand, RedisReply};
use crate::snapshot::Read;
use crate::time;

/// As many questions as one round trip has.
const ROUND: usize = 50;

/// What a heartbeat says that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// When it was, by the clock of its host.
    pub beat: Option<Timestamp>,
    /// The process takes no new jobs.
    pub quiet: bool,
}

impl RedisConnection {
    /// The heartbeats of these processes, of those that have one.
    ///
    /// # Errors
    /// When the connection fails. What Redis refuses is no error.
    pub async fn heartbeats(
        &mut self,
        identities: &[String],
    ) -> Result<Read<BTreeMap<String, Heartbeat>>, SidekiqError> {
        let mut beats = BTreeMap::new();
        for round in identities.chunks(ROUND) {
            let question = |identity: &String| {
                Question::new(ReadCommand::HashFields, &[identity, "beat", "quiet", "info"])
            };
            let answers = self.query(&round.iter().map(question).collect::<Vec<_>>()).await?;
            for (identity, answer) in round.iter().zip(answers) {
                match answer.and_then(RedisReply::read::<Vec<Option<String>>>) {
                    Ok(fields) => {
                        let field = |at: usize| fields.get(at)?.as_deref();
                        let beat = field(0).and_then(time::from_text);
                        let quiet = field(1) == Some("true");
                        // A process writes all of its fields with each heartbeat.
                        if fields.iter().any(Option::is_some) {
                            beats.insert(identity.clone(), Heartbeat { beat, quiet });
                        }
                    }
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
        }
        Ok(Ok(beats))
    }
}
