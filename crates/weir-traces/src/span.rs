//! A span in progress.

use std::borrow::Cow;

use weir_base::clock::Timestamp;

use crate::context::TraceContext;
use crate::tracer::Tracer;

/// Bytes of a name, of an attribute's text or of an error's; longer ones are cut.
pub const TEXT_BYTES_MAX: usize = 1 << 10;

/// What a span is to the other side, with the numbers of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside of Weir.
    Internal = 1,
    /// A request that was received.
    Server = 2,
    /// A message that was sent.
    Producer = 4,
    /// A message that was processed.
    Consumer = 5,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    Text(Cow<'static, str>),
    Integer(i64),
    Number(f64),
}

/// A finished span, as it is exported.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    pub context: TraceContext,
    /// None: the trace begins with it.
    pub parent: Option<TraceContext>,
    pub name: Cow<'static, str>,
    pub kind: SpanKind,
    pub began_at: Timestamp,
    pub ended_at: Timestamp,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Why it failed. None: it did not.
    pub error: Option<String>,
}

/// A span in progress. It ends when it is dropped.
#[derive(Debug)]
pub struct Span {
    tracer: Tracer,
    /// None: ended.
    record: Option<Box<SpanRecord>>,
    context: TraceContext,
}

impl Span {
    pub(crate) fn begin(
        tracer: Tracer,
        name: &'static str,
        kind: SpanKind,
        context: TraceContext,
        parent: Option<TraceContext>,
    ) -> Self {
        let now = tracer.now();
        let record = SpanRecord {
            context,
            parent,
            name: Cow::Borrowed(name),
            kind,
            began_at: now,
            ended_at: now,
            attributes: Vec::new(),
            error: None,
        };
        Self { tracer, record: Some(Box::new(record)), context }
    }

    /// Returns the span's identity, for those that it calls.
    #[must_use]
    pub const fn context(&self) -> TraceContext {
        self.context
    }

    /// Returns whether the trace began elsewhere.
    #[must_use]
    pub fn has_parent(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.parent.is_some())
    }

    /// Begins a span within this one.
    #[must_use]
    pub fn child(&self, name: &'static str, kind: SpanKind) -> Self {
        let context = self.context.new_child();
        Self::begin(self.tracer.clone(), name, kind, context, Some(self.context))
    }

    /// Replaces the name.
    pub fn rename(&mut self, name: String) {
        self.update(|record| record.name = Cow::Owned(cut(name)));
    }

    /// Adds an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<AttributeValue>) {
        self.update(|record| record.attributes.push((name, value.into())));
    }

    /// Notes that the work failed.
    pub fn fail(&mut self, error: impl Into<String>) {
        self.update(|record| record.error = Some(cut(error.into())));
    }

    /// Ends the span without recording it.
    pub fn discard(mut self) {
        self.record = None;
    }

    fn update(&mut self, change: impl FnOnce(&mut SpanRecord)) {
        if let Some(record) = &mut self.record {
            change(record);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            // The clock may have been set back.
            record.ended_at = self.tracer.now().max(record.began_at);
            self.tracer.queue(record);
        }
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(cut(text)))
    }
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}
