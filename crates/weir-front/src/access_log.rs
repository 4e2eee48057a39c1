//! The access log: one line for each request, written by a thread of its own, so that a slow disk
//! delays no request. Lines that exceed its queue are counted and dropped.

mod entry;
mod line;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use weir_settings::Choice;

pub(crate) use self::entry::{PendingLogEntry, Timing};
use self::line::AccessLogRecord;

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Choice)]
pub enum LogFormat {
    /// The Common Log Format of web servers.
    Common,
    /// The same with referrer and user agent.
    Combined,
    /// A JSON object with all that is known.
    Json,
}

/// The file, format and queue limit of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// The file. None: standard output.
    pub path: Option<PathBuf>,
    pub format: LogFormat,
    /// Lines that may wait to be written; further ones are dropped.
    pub queue_max: usize,
}

/// The metrics of the access log, named `weir_front_access_log_*`.
#[derive(Clone, Debug, Default)]
pub struct AccessLogMetrics {
    written: Counter,
    dropped: Counter,
    errors: Counter,
}

impl AccessLogMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "weir_front_access_log_lines",
            "Lines written to the access log",
            metrics.written.clone(),
        );
        registry.register(
            "weir_front_access_log_dropped",
            "Lines dropped because queue_max lines were waiting",
            metrics.dropped.clone(),
        );
        registry.register(
            "weir_front_access_log_errors",
            "Failed writes to the access log; their lines are lost",
            metrics.errors.clone(),
        );
        metrics
    }
}

/// A handle to the access log; clones share it. The drop of the last one writes all queued lines.
#[derive(Clone, Debug)]
pub struct AccessLog(Arc<AccessLogShared>);

#[derive(Debug)]
struct AccessLogShared {
    /// None while it is dropped: a closed channel ends the writer.
    sender: Option<SyncSender<WriterMessage>>,
    metrics: AccessLogMetrics,
    /// A std mutex: it is locked once, at the end.
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
enum WriterMessage {
    Line(Box<AccessLogRecord>),
    /// Log rotation has moved the file: open a new one.
    Reopen,
}

impl AccessLog {
    /// Opens or creates the file and starts the writer's thread.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or the thread cannot be started.
    pub fn open(settings: AccessLogSettings, metrics: AccessLogMetrics) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(settings.queue_max.max(1));
        let mut writer = AccessLogWriter {
            output: open(&settings)?,
            settings,
            metrics: metrics.clone(),
            text: Vec::new(),
            is_failing: false,
        };
        let thread = thread::Builder::new().name("weir-access-log".to_owned());
        let thread = thread.spawn(move || writer.run(&receiver))?;
        let writer = Mutex::new(Some(thread));
        Ok(Self(Arc::new(AccessLogShared { sender: Some(sender), metrics, writer })))
    }

    /// Reopens the file, after log rotation has moved it.
    pub fn reopen(&self) {
        if let Some(sender) = &self.0.sender {
            // If the queue is full, the old file stays open until the next signal.
            let _ = sender.try_send(WriterMessage::Reopen);
        }
    }

    fn add(&self, record: Box<AccessLogRecord>) {
        let Some(sender) = &self.0.sender else { return };
        if sender.try_send(WriterMessage::Line(record)).is_err() {
            self.0.metrics.dropped.inc();
        }
    }
}

impl Drop for AccessLogShared {
    fn drop(&mut self) {
        drop(self.sender.take());
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // The panic hook has printed a panic of the writer.
            let _ = writer.join();
        }
    }
}

type Output = BufWriter<Box<dyn Write + Send>>;

fn open(settings: &AccessLogSettings) -> io::Result<Output> {
    Ok(BufWriter::new(match &settings.path {
        None => Box::new(io::stdout()),
        Some(path) => {
            let file: File = OpenOptions::new().append(true).create(true).open(path)?;
            Box::new(file)
        }
    }))
}

struct AccessLogWriter {
    output: Output,
    settings: AccessLogSettings,
    metrics: AccessLogMetrics,
    text: Vec<u8>,
    /// True while writes fail, so that only the first failure is logged.
    is_failing: bool,
}

impl AccessLogWriter {
    fn run(&mut self, messages: &Receiver<WriterMessage>) {
        while let Ok(first) = messages.recv() {
            self.take(first);
            // Writes all queued lines before the flush.
            while let Ok(next) = messages.try_recv() {
                self.take(next);
            }
            let flushed = self.output.flush();
            self.track_result(&flushed);
        }
    }

    fn take(&mut self, message: WriterMessage) {
        match message {
            WriterMessage::Line(record) => {
                self.text.clear();
                record.write(self.settings.format, &mut self.text);
                let written = self.output.write_all(&self.text);
                if written.is_ok() {
                    self.metrics.written.inc();
                }
                self.track_result(&written);
            }
            WriterMessage::Reopen => {
                let flushed = self.output.flush();
                self.track_result(&flushed);
                match open(&self.settings) {
                    Ok(output) => self.output = output,
                    Err(error) => tracing::error!(%error, "the access log could not be reopened"),
                }
            }
        }
    }

    fn track_result(&mut self, result: &io::Result<()>) {
        match result {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                self.metrics.errors.inc();
                if !self.is_failing {
                    tracing::error!(%error, "the access log could not be written; requests are still served");
                }
                self.is_failing = true;
            }
        }
    }
}
