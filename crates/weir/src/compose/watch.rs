//! Monitors whether the parts run and respond.

use std::future::pending;
use std::time::Duration;

use super::Weir;
use super::cores::Cores;

/// A part that ended by itself, and how.
#[derive(Debug)]
pub(crate) struct UnexpectedEnd(pub(crate) String);

impl Weir {
    /// Resolves when a part has ended by itself, which is unexpected.
    pub(crate) async fn unexpected_end(&mut self) -> UnexpectedEnd {
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
        UnexpectedEnd(tokio::select! {
            why = jobs => why,
            why = ended(&mut self.cores) => why,
            why = gems => why,
        })
    }

    /// Returns the parts that do not respond within `timeout`, even with "busy". (The pages run on
    /// the calling thread.)
    pub(crate) async fn unresponsive_parts(&self, timeout: Duration) -> Vec<String> {
        let jobs = async {
            match &self.jobs {
                Some(jobs) if !jobs.responds(timeout).await => vec!["the job server".to_owned()],
                _ => Vec::new(),
            }
        };
        let cores = async {
            match &self.cores {
                Some(cores) => cores.unresponsive(timeout).await,
                None => Vec::new(),
            }
        };
        let (mut unresponsive, cores) = tokio::join!(jobs, cores);
        unresponsive.extend(cores);
        unresponsive
    }
}

/// Resolves when the cores have ended by themselves; never without cores.
pub(super) async fn ended(cores: &mut Option<Cores>) -> String {
    match cores {
        Some(cores) => cores.ended().await,
        None => pending().await,
    }
}
