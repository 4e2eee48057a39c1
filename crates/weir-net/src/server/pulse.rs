//! Whether the cores still run: each is queried on its own runtime, so one that hangs (in a loop, or
//! waiting for a lock) does not answer.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::CoreIndex;

/// A query that is waiting for its reply; while it waits, no other query is needed.
const QUESTIONS_MAX: usize = 1;

type Question = oneshot::Sender<()>;

/// The way to ask. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pulse {
    cores: Vec<mpsc::Sender<Question>>,
}

/// A core's questions.
pub(super) struct Questions(mpsc::Receiver<Question>);

pub(super) fn questions() -> (mpsc::Sender<Question>, Questions) {
    let (ask, questions) = mpsc::channel(QUESTIONS_MAX);
    (ask, Questions(questions))
}

impl Questions {
    /// Replies until no query can be sent any more.
    pub(super) async fn answer_all(mut self) {
        while let Some(question) = self.0.recv().await {
            // Whoever asked may have lost patience.
            let _ = question.send(());
        }
    }
}

impl Pulse {
    pub(super) fn of(cores: Vec<mpsc::Sender<Question>>) -> Self {
        Self { cores }
    }

    /// The cores that do not answer within `patience`.
    pub async fn silent(&self, patience: Duration) -> Vec<CoreIndex> {
        let ask = |core: &mpsc::Sender<Question>| {
            let (question, answer) = oneshot::channel();
            // No room: it has not answered the last one either, which the response shows.
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
