//! Distributed traces: which requests, jobs and events belong together, by the W3C trace context, and
//! their export to a collector over OTLP/HTTP.
//!
//! - [`context`]: the identity of a span, as the header `traceparent` carries it.
//! - [`tracer`]: decides what is traced, and queues finished spans. Off by default: then each decision
//!   is one branch.
//! - [`span`]: a span in progress; it ends when it is dropped.
//! - [`exporter`]: the task that sends queued spans in batches; [`otlp`]: their encoding.
//! - [`settings`], [`metrics`].
//!
//! Promise: nothing waits for the collector. Spans that the queue has no room for, or that the
//! collector does not accept, are dropped and counted.

pub mod context;
pub mod exporter;
pub mod metrics;
pub mod otlp;
pub mod settings;
pub mod span;
pub mod tracer;

pub use self::context::TraceContext;
pub use self::exporter::Exporter;
pub use self::metrics::{DropReason, TraceMetrics};
pub use self::settings::TraceSettings;
pub use self::span::{AttributeValue, Span, SpanKind};
pub use self::tracer::Tracer;
