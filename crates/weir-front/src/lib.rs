//! The front: accepts HTTP requests and passes each to an idle worker, never to a stuck one.
//!
//! - [`settings`]: what an app is, and its limits;
//! - [`apps`]: all apps, shared by the cores; an [`app`] has workers and a request queue;
//! - [`dispatch`]: decides which worker serves which request, and when; free of I/O;
//! - [`view`]: the state of the apps as plain data for operators;
//! - [`upstream`]: the HTTP/1.1 client for workers;
//! - [`proxy`]: passes requests and responses between clients and workers on one core.

mod access_log;
mod address;
mod app;
mod apps;
mod dispatch;
mod drain;
mod forwarded_headers;
mod latencies;
pub mod measure;
mod metrics;
mod paths;
mod proxy;
mod routes;
mod rules;
mod settings;
mod shed;
mod upstream;
pub mod view;

pub use access_log::{AccessLog, AccessLogMetrics, AccessLogSettings, LogFormat};
pub use address::{AddressError, UpstreamAddress};
pub use apps::{Apps, NoSuchApp};
pub use dispatch::ExternalLoad;
pub use drain::Drain;
pub use forwarded_headers::{ForwardedHeader, ForwardedHeaderError};
pub use latencies::Distribution;
pub use metrics::FrontMetrics;
pub use proxy::{Proxy, ProxySettings};
pub use rules::{Matcher, PriorityRule};
pub use settings::{AppLimits, AppSettings, Gzip};
pub use shed::{LatencySample, QueueSource, ShedSettings, WatchedQueue};
