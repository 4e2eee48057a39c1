//! Where samples come from, and what carries changes out. The binary implements these traits.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::lease::{LeaseClaim, LeaseReply};
use crate::load::{DatabaseActivity, JobsLoad};

/// Reads the state of a job system.
pub trait JobSource: Send {
    /// Returns the state, or why it is not known. `None`: nothing is new since the last call.
    fn load(&mut self) -> BoxFuture<'_, Result<Option<JobsLoad>, String>>;
}

/// Reads the sessions of the database.
pub trait DatabaseSource: Send {
    /// Returns the present sessions, or why they are not known.
    fn activity(&mut self) -> BoxFuture<'_, Result<DatabaseActivity, String>>;

    /// Closes what is open: there will be no request for a while.
    fn close(&mut self) -> BoxFuture<'_, ()>;
}

/// Carries limits out.
pub trait Actuator: Send {
    /// Replaces all limits. They end after `lease` unless this is called again before.
    fn apply<'a>(
        &'a mut self,
        limits: &'a CarriedLimits,
        lease: Duration,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Returns a task that runs beside the autopilot, if there is one. It ends when it is dropped.
    fn take_task(&mut self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// Returns why no limit of this class can be carried out now. `acts`: it may be carried out soon, so what is needed for
    /// that may be prepared.
    ///
    /// # Errors
    /// With the setting or the permission that is missing.
    fn can_limit(&mut self, class: &str, acts: bool) -> Result<(), String> {
        let _ = (class, acts);
        Ok(())
    }

    /// Returns how a limit of a class is carried out, for the journal. `None`: it needs no explanation.
    fn describe_limit(&self, class: &str, queue: &str, jobs: Option<u32>) -> Option<String> {
        let _ = (class, queue, jobs);
        None
    }

    /// Returns what is wrong with the limits of classes that are in force. `None`: nothing.
    fn class_problem(&mut self) -> Option<String> {
        None
    }

    /// Returns whether the last change is in effect.
    fn progress(&mut self) -> ChangeProgress {
        ChangeProgress::Done
    }
}

/// How far a change is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeProgress {
    /// It is in effect.
    Done,
    /// Processes are being replaced.
    UnderWay,
    /// It has stopped half-way, for this reason.
    Failed(String),
}

/// Where the lease is that lets one autopilot act. A request that is dropped may have an effect later.
pub trait LeaseStore: Send {
    /// Returns where it is, for people: `Redis 10.0.0.1:6379`.
    fn name(&self) -> String;

    /// Takes or renews the lease, unless another one holds it; or returns why that is not known, with a remedy.
    fn take<'a>(&'a mut self, claim: &'a LeaseClaim) -> BoxFuture<'a, Result<LeaseReply, String>>;

    /// Gives the lease back, if it is this claim's, and closes what is open.
    fn release<'a>(&'a mut self, claim: &'a LeaseClaim) -> BoxFuture<'a, Result<(), String>>;
}

/// The limits that are to be in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedLimits {
    /// The most jobs in progress of all queues together.
    pub threads: Option<u32>,
    /// These queues.
    pub queues: Vec<String>,
    /// The most jobs in progress by job type.
    pub classes: BTreeMap<String, u32>,
    /// The queues from which most jobs of these types come, as far as known.
    pub class_queues: BTreeMap<String, String>,
}
