//! One file per verb.

pub(crate) mod autopilot;
pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod completions;
mod confirm;
pub(crate) mod demo;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod gems;
pub(crate) mod init;
pub(crate) mod jobs;
pub(crate) mod man;
pub(crate) mod plan;
pub(crate) mod realtime;
pub(crate) mod reference;
pub(crate) mod restart;
pub(crate) mod restore;
pub(crate) mod sidekiq;
pub(crate) mod simulate;
mod sources;
pub(crate) mod status;
pub(crate) mod switch;
pub(crate) mod up;
pub(crate) mod workers;

pub(crate) use self::autopilot::AutopilotCommand;
pub(crate) use self::doctor::DoctorArguments;
pub(crate) use self::gems::GemsCommand;
pub(crate) use self::jobs::JobsCommand;
pub(crate) use self::plan::PlanArguments;
pub(crate) use self::realtime::RealtimeCommand;
pub(crate) use self::sidekiq::SidekiqCommand;
pub(crate) use self::simulate::SimulateArguments;
pub(crate) use self::switch::SwitchCommand;
pub(crate) use self::workers::WorkersCommand;
