//! Monitors whether the parts run and respond.

use std::future::pending;
use std::time::Duration;

use super::Weir;
use super::cores::Cores;

/// A part that ended by itself, and how.
#[derive(Debug)]
pub(crate) struct Joined(pub(crate) String);

impl Weir {
    /// Resolves when a part has ended by itself, which is unexpected.
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

    /// Returns the parts that do not respond within `patience`, even with "busy". (The pages run on
    /// the calling thread.)
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

/// Resolves when the cores have ended by themselves; never without cores.
pub(super) async fn ended(cores: &mut Option<Cores>) -> String {
    match cores {
        Some(cores) => cores.ended().await,
        None => pending().await,
    }
}
