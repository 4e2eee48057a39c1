//! Detects cores that hang: each is queried on its own runtime, so a core in an endless loop, or
//! one that waits for a lock, does not reply.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::CoreIndex;

/// One pending query is enough.
const QUESTIONS_MAX: usize = 1;

type Question = oneshot::Sender<()>;

/// Queries the cores. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pulse {
    cores: Vec<mpsc::Sender<Question>>,
}

/// The queries to one core.
pub(super) struct Questions(mpsc::Receiver<Question>);

pub(super) fn questions() -> (mpsc::Sender<Question>, Questions) {
    let (ask, questions) = mpsc::channel(QUESTIONS_MAX);
    (ask, Questions(questions))
}

impl Questions {
    /// Replies to queries until all senders are dropped.
    pub(super) async fn answer_all(mut self) {
        while let Some(question) = self.0.recv().await {
            // Fails if the query has timed out.
            let _ = question.send(());
        }
    }
}

impl Pulse {
    pub(super) fn of(cores: Vec<mpsc::Sender<Question>>) -> Self {
        Self { cores }
    }

    /// Returns the cores that do not reply within `patience`.
    pub async fn silent(&self, patience: Duration) -> Vec<CoreIndex> {
        let ask = |core: &mpsc::Sender<Question>| {
            let (question, answer) = oneshot::channel();
            // Fails if the core has not replied to the previous query, which the timeout below
            // reports.
            let _ = core.try_send(question);
            answer
        };
        let answers: Vec<oneshot::Receiver<()>> = self.cores.iter().map(ask).collect();
        let mut patience = pin!(sleep(patience));
        let mut silent = Vec::new();
        for (index, answer) in answers.into_iter().enumerate() {
            let has_answered = tokio::select! {
                biased;
                answered = answer => answered.is_ok(),
                () = &mut patience => false,
            };
            if !has_answered {
                silent.push(CoreIndex(index));
            }
        }
        silent
    }
}
