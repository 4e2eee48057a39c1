//! The spans of jobs that carry a trace context: one for the push, one for each run.
//!
//! Clients put the context into the job: instrumentation of Sidekiq as the member `traceparent`, clients
//! of Faktory as `custom.traceparent`. Weir does not change it, so the span of a worker and those of
//! Weir have the same parent: the client's span of the push. A run ends with its ACK or FAIL at this
//! node.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use memchr::memmem;
use weir_base::clock::{Clock, Timestamp};
use weir_base::seldom::Seldom;
use weir_traces::{DropReason, Span, SpanKind, TraceContext, Tracer};

use crate::key_path::KeyPath;
use crate::model::{Delivery, FailureReport, NewJob};
use crate::stamp;

/// A run without an end is forgotten after this long, if there is no room for another one. A
/// reservation is for half an hour, unless the job says otherwise.
const RUN_AGE_MAX: Duration = Duration::from_secs(60 * 60);

/// The name of the protocol in spans.
const SYSTEM: &str = "faktory";

/// The members that may hold the context.
static TRACEPARENT: LazyLock<[Option<KeyPath>; 2]> =
    LazyLock::new(|| ["/custom/traceparent", "/traceparent"].map(|path| path.parse().ok()));

/// The spans of a server's jobs. The default traces nothing.
#[derive(Debug, Default)]
pub(crate) struct JobTraces {
    tracer: Tracer,
    /// The runs in progress, by jid.
    runs: RefCell<HashMap<Box<str>, TracedRun>>,
    sweeps: Seldom,
}

#[derive(Debug)]
struct TracedRun {
    span: Span,
    began_at: Timestamp,
}

/// The spans of a push of several jobs: of those that are traced, with their index.
#[derive(Debug)]
pub(crate) struct PushSpans(Vec<(usize, Span)>);

impl JobTraces {
    pub(crate) fn new(tracer: Tracer) -> Self {
        Self { tracer, ..Self::default() }
    }

    /// Begins the spans of a push.
    pub(crate) fn begin_push(&self, jobs: &[NewJob<'_>]) -> PushSpans {
        if !self.tracer.is_on() {
            return PushSpans(Vec::new());
        }
        let spans = jobs.iter().enumerate().filter_map(|(index, job)| {
            let mut span = self.start("push", SpanKind::Producer, job.json)?;
            span.rename(format!("push {}", job.queue));
            describe(&mut span, "push", job.queue, job.jid, job.jobtype);
            Some((index, span))
        });
        PushSpans(spans.collect())
    }

    /// Begins the runs of jobs that were fetched.
    pub(crate) fn begin_runs(&self, jobs: &[Delivery], clock: &Clock) {
        if self.tracer.is_on() {
            let now = clock.now();
            jobs.iter().for_each(|job| self.begin_run(job, now));
        }
    }

    fn begin_run(&self, job: &Delivery, now: Timestamp) {
        // A run of the same job that has no end: its worker was lost.
        self.end_run(&job.jid, |span| span.fail("the run ended without ACK or FAIL"));
        let member = |path: &str| {
            let path: Option<KeyPath> = path.parse().ok();
            path.and_then(|path| path.find(&job.json)).map(|text| text.into_owned())
        };
        let Some(mut span) = self.start("process", SpanKind::Consumer, &job.json) else { return };
        if !self.has_room(now) {
            self.tracer.count_dropped(DropReason::JobsFull);
            return span.discard();
        }
        let queue = member("/queue").unwrap_or_default();
        span.rename(format!("process {queue}"));
        let jobtype = member("/jobtype").unwrap_or_default();
        describe(&mut span, "process", &queue, &job.jid, &jobtype);
        if let Some(enqueued_at) = member("/enqueued_at").and_then(|text| stamp::parse(&text)) {
            span.set("weir.wait_seconds", now.since(enqueued_at).as_secs_f64());
        }
        self.runs.borrow_mut().insert(job.jid.clone(), TracedRun { span, began_at: now });
    }

    /// Notes why a run failed, which ends next.
    pub(crate) fn note_failure(&self, report: &FailureReport) {
        if self.tracer.is_on()
            && let Some(run) = self.runs.borrow_mut().get_mut(&report.jid)
        {
            // The message may contain data of the job.
            run.span.set("error.type", report.errtype.clone());
            run.span.fail(report.errtype.clone());
        }
    }

    /// Ends the runs of these jobs.
    pub(crate) fn end_runs(&self, jids: &[&str]) {
        if self.tracer.is_on() {
            jids.iter().for_each(|jid| self.end_run(jid, |_| {}));
        }
    }

    fn end_run(&self, jid: &str, change: impl FnOnce(&mut Span)) {
        let ended = self.runs.borrow_mut().remove(jid);
        if let Some(mut run) = ended {
            change(&mut run.span);
        }
    }

    /// Begins a span if the job carries the context of one that is recorded. Without a context, chance
    /// would decide for push and run separately.
    fn start(&self, name: &'static str, kind: SpanKind, json: &[u8]) -> Option<Span> {
        let context = trace_context(json)?;
        self.tracer.start(name, kind, Some(context))
    }

    /// Returns whether one more run fits. Forgets runs that are probably lost.
    fn has_room(&self, now: Timestamp) -> bool {
        let (mut runs, max) = (self.runs.borrow_mut(), self.tracer.jobs_max());
        if runs.len() >= max && self.sweeps.is_due(now) {
            let is_lost = |run: &TracedRun| now.since(run.began_at) > RUN_AGE_MAX;
            runs.extract_if(|_, run| is_lost(run)).for_each(|(_, mut run)| {
                run.span.fail("the run ended without ACK or FAIL at this node");
            });
        }
        runs.len() < max
    }
}

impl PushSpans {
    /// Ends the spans. `error` returns why the job with this index was not stored.
    pub(crate) fn end(self, error: impl Fn(usize) -> Option<String>) {
        for (index, mut span) in self.0 {
            if let Some(error) = error(index) {
                span.fail(error);
            }
        }
    }
}

/// Sets the attributes of OpenTelemetry's conventions for messaging.
fn describe(span: &mut Span, operation: &'static str, queue: &str, jid: &str, jobtype: &str) {
    span.set("messaging.system", SYSTEM);
    span.set("messaging.operation.name", operation);
    span.set("messaging.destination.name", queue.to_owned());
    span.set("messaging.message.id", jid.to_owned());
    span.set("weir.jobtype", jobtype.to_owned());
}

/// Returns the trace context that a job's JSON carries.
fn trace_context(json: &[u8]) -> Option<TraceContext> {
    // Each job is asked, and most have none.
    memmem::find(json, b"\"traceparent\"")?;
    let mut texts = TRACEPARENT.iter().flatten().filter_map(|path| path.find(json));
    texts.find_map(|text| TraceContext::parse(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::Receiver;
    use weir_traces::span::SpanRecord;
    use weir_traces::{TraceMetrics, TraceSettings};

    use super::*;

    #[test]
    fn the_context_is_read_where_clients_put_it() {
        for (json, has_context) in [
            (format!(r#"{{"jid":"1","custom":{{"traceparent":"{PARENT}"}}}}"#), true),
            (format!(r#"{{"jid":"1","traceparent":"{PARENT}"}}"#), true),
            (format!(r#"{{"custom":{{"traceparent":"x"}},"traceparent":"{PARENT}"}}"#), true),
            (format!(r#"{{"jid":"1","args":[{{"traceparent":"{PARENT}"}}]}}"#), false),
            (r#"{"jid":"1","traceparent":"00-xyz"}"#.to_owned(), false),
            (r#"{"jid":"1","traceparent":7,"custom":null}"#.to_owned(), false),
            (r#"{"jid":"1"}"#.to_owned(), false),
        ] {
            assert_eq!(trace_context(json.as_bytes()).is_some(), has_context, "{json}");
        }
    }

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn traces(jobs_max: usize) -> (JobTraces, Receiver<Box<SpanRecord>>, TraceMetrics) {
        let mut settings = TraceSettings { sample: 0.0, ..TraceSettings::default() };
        settings.limits.jobs_max = jobs_max;
        let metrics = TraceMetrics::default();
        let (tracer, spans) = Tracer::new(&settings, Clock::system(), metrics.clone());
        (JobTraces::new(tracer), spans, metrics)
    }

    fn delivery(jid: &str) -> Delivery {
        let json = format!(
            r#"{{"jid":"{jid}","jobtype":"T","queue":"q","custom":{{"traceparent":"{PARENT}"}},"enqueued_at":"2026-01-01T00:00:00Z"}}"#
        );
        Delivery { jid: jid.into(), json: json.into_bytes() }
    }

    /// A clock that stands this long after the jobs were enqueued.
    fn after(seconds: u64) -> Clock {
        // 2026-01-01
        Clock::manual(Timestamp::from_millis((1_767_225_600 + seconds) * 1_000))
    }

    #[test]
    fn a_run_lasts_from_its_fetch_to_its_end() {
        let (traces, mut spans, _) = traces(10);
        traces.begin_runs(&[delivery("a"), delivery("b")], &after(3));
        assert!(spans.try_recv().is_err());
        let report =
            FailureReport { jid: "b".into(), errtype: "KeyError".into(), ..Default::default() };
        traces.note_failure(&report);
        traces.end_runs(&["a", "b", "unknown"]);
        let (a, b) = (spans.try_recv().unwrap(), spans.try_recv().unwrap());
        assert_eq!((&*a.name, a.error, b.error.as_deref()), ("process q", None, Some("KeyError")));
        assert_eq!(a.parent, TraceContext::parse(PARENT.as_bytes()));
        assert!(a.attributes.contains(&("weir.wait_seconds", 3.0.into())));
        assert!(a.attributes.contains(&("messaging.message.id", "a".into())));
        assert!(spans.try_recv().is_err(), "they have ended");
        traces.end_runs(&["a"]);
        assert!(spans.try_recv().is_err());
    }

    #[test]
    fn a_job_that_is_handed_out_again_ends_its_first_run() {
        let (traces, mut spans, _) = traces(10);
        traces.begin_runs(&[delivery("a")], &after(0));
        traces.begin_runs(&[delivery("a")], &after(5));
        assert!(spans.try_recv().unwrap().error.is_some());
        traces.end_runs(&["a"]);
        assert_eq!(spans.try_recv().unwrap().error, None);
    }

    #[test]
    fn runs_in_progress_are_limited_and_lost_ones_make_room() {
        let (traces, mut spans, metrics) = traces(2);
        traces.begin_runs(&[delivery("a"), delivery("b"), delivery("c")], &after(0));
        assert_eq!(metrics.dropped_total(DropReason::JobsFull), 1);
        traces.begin_runs(&[delivery("d")], &after(2 * 60 * 60));
        let lost = [spans.try_recv().unwrap(), spans.try_recv().unwrap()];
        assert!(lost.iter().all(|span| span.error.is_some()));
        traces.end_runs(&["d"]);
        assert_eq!(spans.try_recv().unwrap().error, None);
    }

    #[test]
    fn a_job_without_a_context_or_an_unrecorded_one_is_not_traced() {
        let (traces, mut spans, _) = traces(10);
        let unrecorded = String::from_utf8(delivery("a").json).unwrap().replace("-01\"", "-00\"");
        let none = Delivery { jid: "b".into(), json: br#"{"jid":"b","args":[]}"#.to_vec() };
        traces.begin_runs(
            &[Delivery { jid: "a".into(), json: unrecorded.into_bytes() }, none],
            &after(0),
        );
        traces.end_runs(&["a", "b"]);
        assert!(spans.try_recv().is_err());
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(before: Vec<u8>, after: Vec<u8>) {
            let json = [&before[..], b"\"traceparent\":", &after].concat();
            let _ = trace_context(&json);
        }
    }
}
