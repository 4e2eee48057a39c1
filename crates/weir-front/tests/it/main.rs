//! The proxy on a port of its own, between clients and workers that the test turns by hand.

mod access_log;
mod bodies;
mod heads;
mod http2;
mod queueing;
mod rules;
mod sockets;
mod targets;
mod test_front;
mod traces;
mod workers;
