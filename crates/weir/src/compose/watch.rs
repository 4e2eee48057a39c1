//! Whether the parts still run, and answer.

use std::future::pending;
use std::time::Duration;

use super::Weir;
use super::cores::Cores;

/// A part that ended by itself, and how.
#[derive(Debug)]
pub(crate) struct Joined(pub(crate) String);

impl Weir {
    /// Resolves when a part has ended by itself, which none should.
    pub(crate) async fn joined(&mut self) -> Joined {
        let jobs = async {
            match &mut self.jobs {
                Some(jobs) => jobs.ended().await,
                None => pending().await,
            }
        };
        let gems = async {
            match &self.gems {
                Some(gems) => gems.ended().await,
                None => pending().await,
            }
        };
        Joined(tokio::select! {
            why = jobs => why,
            why = ended(&mut self.cores) => why,
            why = gems => why,
        })
    }

    /// The parts that do not answer within `patience`, if only "busy". (The pages are on the thread
    /// that asks.)
    pub(crate) async fn silent(&self, patience: Duration) -> Vec<String> {
        let jobs = async {
            match &self.jobs {
                Some(jobs) if !jobs.answers(patience).await => vec!["the job server".to_owned()],
                _ => Vec::new(),
            }
        };
        let cores = async {
            match &self.cores {
                Some(cores) => cores.silent(patience).await,
                None => Vec::new(),
            }
        };
        let (mut silent, cores) = tokio::join!(jobs, cores);
        silent.extend(cores);
        silent
    }
}

/// Resolves when the cores have ended by themselves; never where there are none.
pub(super) async fn ended(cores: &mut Option<Cores>) -> String {
    match cores {
        Some(cores) => cores.ended().await,
        None => pending().await,
    }
}
