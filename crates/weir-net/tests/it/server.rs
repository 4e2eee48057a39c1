//! A whole server on port 0, and clients that speak to it over plain sockets.

mod echo;
mod routing;
mod stopping;
