//! The proxy on a port of its own, between clients and workers that the test turns by hand.

mod bodies;
mod door;
mod heads;
mod http2;
mod queueing;
mod sockets;
mod workers;
