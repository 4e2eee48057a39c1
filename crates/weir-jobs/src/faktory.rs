//! The Faktory wire protocol, as Faktory 1.10 behaves.
//!
//! A connection is a task on the thread that owns the store. It reads what has arrived, answers all
//! complete lines in order ([`session`]) and sends the replies with one write ([`wire`]): PUSH
//! after PUSH becomes one batch for the store, ACK after ACK likewise. Each command family has a
//! file that parses, calls the store and answers; every error text is in [`refusal`].
//!
//! Hanging up is an explicit choice: a client that closes its side while its FETCH waits has left,
//! and the job that was on its way stays in the queue. Anything else that it sent before is
//! answered, whether it reads or not.

mod ack;
mod batch;
mod beat;
mod buffers;
mod connection;
mod fail;
mod fetch;
mod flush;
mod hello;
mod info;
mod lines;
mod mutate;
mod password;
mod payload;
mod push;
mod queue;
mod refusal;
mod replies;
mod session;
mod signal;
mod wire;

pub(crate) use buffers::Buffers;
pub(crate) use connection::{Admission, serve, turn_away};
pub(crate) use push::{push_all, store_all};
pub(crate) use signal::{Signal, SignalLevel};
