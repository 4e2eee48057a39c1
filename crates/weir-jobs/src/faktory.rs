//! The Faktory wire protocol, as Faktory 1.10 behaves.
//!
//! A connection is a task on the thread that owns the store. It reads the available bytes, runs all
//! complete lines in order ([`session`]) and sends the replies with one write ([`wire`]).
//! Consecutive PUSH commands become one batch for the store, and so do consecutive ACKs. Each
//! command family has a file that parses the arguments, calls the store and writes the reply; every
//! error text is in [`error`].
//!
//! If a client closes its side of the connection while its FETCH waits, the fetch is cancelled and
//! the job stays in the queue. All commands that it sent earlier are still run, whether or not the
//! client reads the replies.

mod ack;
mod batch;
mod beat;
mod buffers;
mod connection;
mod error;
mod fail;
mod fetch;
mod flush;
mod hello;
mod info;
mod job_batch;
mod lines;
mod mutate;
mod password;
mod payload;
mod push;
mod queue;
mod replies;
mod session;
mod signal;
mod track;
mod wire;

pub(crate) use buffers::Buffers;
pub(crate) use connection::{Admission, reject_immediately, serve};
pub(crate) use signal::{Signal, SignalLevel};
