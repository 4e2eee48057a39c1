//! App servers that `weir init front` knows.

use clap::ValueEnum;

/// An app server whose command and concurrency are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AppServer {
    /// Python, WSGI: one request per process
    Gunicorn,
    /// Python, ASGI
    Uvicorn,
    /// Python, ASGI
    Hypercorn,
    /// Python, ASGI
    Granian,
    /// Ruby, threads
    Puma,
    /// Ruby: one request per process
    Unicorn,
    /// JavaScript
    Node,
    /// Go's own server
    Go,
}
