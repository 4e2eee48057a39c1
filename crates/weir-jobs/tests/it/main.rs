//! Integration tests of the job server, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that can not go on says where it stopped")]

mod contract;
mod damage;
mod faktory_batches;
mod faktory_cancel;
mod faktory_cases;
mod faktory_enterprise;
mod faktory_fairness;
mod faktory_life;
mod faktory_limits;
mod faktory_queue_limits;
mod faktory_rates;
mod faktory_resources;
mod faktory_server;
mod faktory_tls;
mod hostile;
mod limited;
mod regressions;
mod storage_faults;
