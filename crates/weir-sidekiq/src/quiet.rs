//! Whether processes that were quiet still are: the second of two looks at them.

use std::collections::BTreeSet;

use crate::connection::Connection;
use crate::error::SidekiqError;
use crate::questions::{Command, Question, Told};
use crate::snapshot::Read;

/// One round trip.
const PROCESSES_MAX: usize = 50;

impl Connection {
    /// Those of the processes that beat and say that they take no jobs. More than fifty are not asked, and
    /// taken to be as they were.
    ///
    /// # Errors
    /// When the connection fails. What Redis refuses is no error.
    pub async fn still_quiet(
        &mut self,
        identities: &[String],
    ) -> Result<Read<BTreeSet<String>>, SidekiqError> {
        let (asked, others) = identities.split_at(identities.len().min(PROCESSES_MAX));
        if asked.is_empty() {
            return Ok(Ok(BTreeSet::new()));
        }
        let question = |identity: &String| Question::new(Command::HashFields, &[identity, "quiet"]);
        let answers = self.ask(&asked.iter().map(question).collect::<Vec<_>>()).await?;
        let mut quiet: BTreeSet<String> = others.iter().cloned().collect();
        for (identity, answer) in asked.iter().zip(answers) {
            match answer.and_then(Told::read::<Vec<Option<String>>>) {
                Ok(fields) if fields.first().is_some_and(|it| it.as_deref() == Some("true")) => {
                    quiet.insert(identity.clone());
                }
                Ok(_) => {}
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(Ok(quiet))
    }
}
