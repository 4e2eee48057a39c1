//! Reads whether processes still send heartbeats and are still quiet, for the second of two
//! samples.

use std::collections::BTreeMap;

use weir_base::clock::Timestamp;

use crate::connection::RedisConnection;
use crate::error::SidekiqError;
use crate::questions::{Question, ReadCommand, RedisReply};
use crate::snapshot::Read;
use crate::time;

/// Queries per round trip.
const ROUND: usize = 50;

/// The fields of a heartbeat that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its time, by the host's clock.
    pub beat: Option<Timestamp>,
    /// Whether the process accepts no new jobs.
    pub quiet: bool,
}

impl RedisConnection {
    /// Returns the heartbeats of those processes that have one.
    ///
    /// # Errors
    /// Returns an error if the connection fails. A rejected command is not an error.
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
                        // A process writes all fields with each heartbeat, so a single field proves
                        // that there is one.
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
