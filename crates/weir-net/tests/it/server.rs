//! A whole server on port 0, and clients that speak to it over plain sockets.

mod accepting;
mod clients;
mod crowds;
mod echo;
mod heads;
mod http2;
mod liveness;
mod routing;
mod stopping;
mod streams;
mod tls;
mod waiting;
