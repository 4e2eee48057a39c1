//! The log on standard error: text or one JSON object a line. The level can change at run time.

use std::fs::File;
use std::io::IsTerminal;
use std::sync::{Arc, OnceLock};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::EitherWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use weir_config::{Log, LogFormat, LogLevel};

/// Changes the log level.
#[derive(Debug)]
pub(crate) struct Logging {
    level: reload::Handle<LevelFilter, Registry>,
    own_output: OwnOutput,
}

/// Where the log goes once standard error, which the parent process reads, leads nowhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnOutput(Arc<OnceLock<Arc<File>>>);

impl OwnOutput {
    /// Logs to `output` from now on.
    pub(crate) fn set(&self, output: File) {
        let _ = self.0.set(Arc::new(output));
    }
}

/// Starts the log. `is_coloured`: its destination is a terminal.
pub(crate) fn start(log: &Log, is_coloured: bool) -> Logging {
    let (level, handle) = reload::Layer::new(filter(log.level));
    let own_output = OwnOutput::default();
    let output = own_output.clone();
    let writer = move || match output.0.get() {
        Some(own) => EitherWriter::A(Arc::clone(own)),
        None => EitherWriter::B(std::io::stderr()),
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_target(true);
    let layer = match log.format {
        LogFormat::Text => layer.with_ansi(is_coloured).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(level).with(layer).init();
    Logging { level: handle, own_output }
}

impl Logging {
    /// Returns where the log of a process goes when its parent has ended.
    pub(crate) fn own_output(&self) -> OwnOutput {
        self.own_output.clone()
    }

    /// Logs `level` and more severe levels from now on.
    pub(crate) fn set_level(&self, level: LogLevel) {
        let _ = self.level.reload(filter(level));
    }
}

/// Returns whether standard error is a terminal and colours are not disabled.
pub(crate) fn stderr_is_coloured() -> bool {
    std::io::stderr().is_terminal() && !weir_config::environment::no_color()
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
