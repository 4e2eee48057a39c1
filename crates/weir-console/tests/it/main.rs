//! The console in front of a real job server (in memory) and real channels, on port 0.

mod acting;
mod autopilot;
mod docs;
mod escaping;
mod front;
mod gems;
mod guarding;
mod job_types;
mod live;
mod observed;
mod operating;
mod pages;
mod paging;
mod queue;
mod realtime;
mod roles;
mod site;
mod store;
