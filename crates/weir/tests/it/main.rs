//! The whole product as a process on port 0.

mod admin;
mod cli;
mod config;
mod crash;
mod damage;
mod doctor;
mod faktory;
mod front;
mod gems;
mod hostile;
mod http;
mod job_workers;
mod jobs_in_redis;
mod lifecycle;
mod lock;
mod move_jobs;
mod operating;
mod process;
mod realtime;
mod redis_connection;
mod reference;
mod reload;
mod replacement;
mod stopped_node;
mod systemd;
mod weir;
