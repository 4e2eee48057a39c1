//! The HTTP front door: every request to a worker that is free, no request to one that is stuck.
//!
//! - [`settings`]: what an app is, and its limits;
//! - [`apps`]: all apps, shared by the cores; an [`app`] has workers and a queue;
//! - [`dispatch`]: which worker serves which request, and when; pure;
//! - [`view`]: what an operator sees;
//! - [`upstream`]: HTTP/1.1 to workers;
//! - [`proxy`]: HTTP in, HTTP to the worker, on one core.

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
mod proxy;
mod routes;
mod rules;
mod settings;
mod upstream;
pub mod view;

pub use access_log::{AccessLog, AccessLogMetrics, AccessLogSettings, LogFormat};
pub use address::{AddressError, UpstreamAddress};
pub use apps::{Apps, NoSuchApp};
pub use dispatch::Elsewhere;
pub use drain::Drain;
pub use forwarded_headers::{ForwardedHeader, ForwardedHeaderError};
pub use latencies::Distribution;
pub use metrics::FrontMetrics;
pub use proxy::{Proxy, ProxySettings};
pub use rules::{Matcher, PriorityRule, ShedSettings};
pub use settings::{AppLimits, AppSettings, Gzip};
