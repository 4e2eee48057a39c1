//! The load of a queue, measured, given or assumed.

use serde::Serialize;

use super::DemandSource;

/// The load of a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueDemand {
    /// Its name.
    pub name: String,
    /// Arrival rate.
    pub arrivals_per_second: f64,
    /// Mean duration of a job in seconds.
    pub service_seconds: f64,
    /// Mean CPU time of a job in seconds, if known. Otherwise jobs are assumed to wait mostly.
    pub cpu_seconds: Option<f64>,
    /// 95 % of jobs are to wait less than this many seconds, even while every thread is busy.
    pub target_seconds: Option<f64>,
    /// Which of these figures were configured or measured.
    pub known: DemandSource,
    /// Its share of the present threads, for queues with unknown load.
    pub threads_now: u32,
    /// Its position among the queues of the running processes; the first matters most.
    pub importance: u32,
    /// Number of samples in which jobs in progress were searched for; 0 if it was not observed.
    pub samples: u32,
    /// How long the oldest of its jobs in progress has been running, in seconds; 0 if there was none, or
    /// if something delays jobs.
    pub oldest_seconds: f64,
    /// No process takes its jobs, as far as heartbeats show.
    pub is_unserved: bool,
    /// It became longer between two samples, by more than chance explains.
    pub grows: bool,
    /// The threads that serve it now serve no other queue.
    pub has_own_process: bool,
}
