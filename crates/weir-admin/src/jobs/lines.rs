//! Reads JSON lines in pieces, without buffering the whole body.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::BodyExt as _;
use memchr::memchr;
use tokio::time::sleep;
use weir_base::admin_api::AdminError;

use weir_jobs::handle::{Handle, HandleError, ImportMode};
use weir_jobs::view::Pushed;

/// A piece is stored once it has this many lines or bytes.
const BATCH_LINES: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;
/// Limit of rejected lines that the response lists; further ones are only counted.
const REJECTED_MAX: usize = 1_000;
/// A piece is retried while the server is busy, for five seconds in all.
const BUSY_WAIT: Duration = Duration::from_millis(50);
const BUSY_ATTEMPTS: u32 = 100;

/// The kind of the lines.
#[derive(Clone, Copy, Debug)]
pub(super) enum LineKind {
    /// Jobs to push.
    Jobs,
    /// Lines of an export.
    Exported(ImportMode),
}

/// Lines that are not stored yet.
struct LineBatch<'h> {
    handle: &'h Handle,
    kind: LineKind,
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// Lines before this piece.
    lines_before: u64,
    outcome: Pushed,
}

/// Stores all lines of `body`. Lines stored before an error stay stored; the error text has their
/// count.
pub(super) async fn store_lines(
    handle: &Handle,
    body: Body,
    kind: LineKind,
) -> Result<Pushed, AdminError> {
    let outcome = Pushed::default();
    let mut batch =
        LineBatch { handle, kind, lines: Vec::new(), bytes: 0, lines_before: 0, outcome };
    let mut partial_line: Vec<u8> = Vec::new();
    let mut body = body;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| batch.body_error(StatusCode::BAD_REQUEST, &error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        batch.add_data(&mut partial_line, &data).await?;
    }
    batch.add_line(std::mem::take(&mut partial_line)).await?;
    batch.store().await?;
    Ok(batch.outcome)
}

impl LineBatch<'_> {
    async fn add_data(
        &mut self,
        partial_line: &mut Vec<u8>,
        data: &Bytes,
    ) -> Result<(), AdminError> {
        let mut rest: &[u8] = data;
        while let Some(end) = memchr(b'\n', rest) {
            partial_line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            self.add_line(std::mem::take(partial_line)).await?;
        }
        partial_line.extend_from_slice(rest);
        let max = self.handle.line_bytes_max();
        if partial_line.len() > max {
            let error = format!("line longer than {max} bytes (jobs.limits.line_bytes_max)");
            return Err(self.body_error(StatusCode::PAYLOAD_TOO_LARGE, &error));
        }
        Ok(())
    }

    async fn add_line(&mut self, line: Vec<u8>) -> Result<(), AdminError> {
        self.bytes += line.len();
        self.lines.push(line);
        if self.lines.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES {
            self.store().await?;
        }
        Ok(())
    }

    async fn store(&mut self) -> Result<(), AdminError> {
        let lines = std::mem::take(&mut self.lines);
        self.bytes = 0;
        let count = lines.len() as u64;
        // Empty lines count, so that line numbers match those of an editor.
        let numbers: Vec<u64> = (self.lines_before + 1..)
            .zip(&lines)
            .filter(|(_, line)| !line.trim_ascii().is_empty())
            .map(|(number, _)| number)
            .collect();
        let jobs: Vec<Vec<u8>> =
            lines.into_iter().filter(|line| !line.trim_ascii().is_empty()).collect();
        self.lines_before += count;
        if jobs.is_empty() {
            return Ok(());
        }
        let pushed = self.send(jobs).await.map_err(|error| self.store_interrupted(error))?;
        self.outcome.accepted += pushed.accepted;
        self.outcome.present += pushed.present;
        self.outcome.entries += pushed.entries;
        self.outcome.rejected_total += pushed.rejected_total;
        for mut rejected in pushed.rejected {
            if self.outcome.rejected.len() < REJECTED_MAX {
                let index = usize::try_from(rejected.line - 1).unwrap_or(usize::MAX);
                rejected.line = numbers.get(index).copied().unwrap_or(rejected.line);
                self.outcome.rejected.push(rejected);
            }
        }
        Ok(())
    }

    async fn send(&self, jobs: Vec<Vec<u8>>) -> Result<Pushed, HandleError> {
        for _ in 1..BUSY_ATTEMPTS {
            match self.send_once(jobs.clone()).await {
                Err(HandleError::Busy) => sleep(BUSY_WAIT).await,
                result => return result,
            }
        }
        self.send_once(jobs).await
    }

    async fn send_once(&self, jobs: Vec<Vec<u8>>) -> Result<Pushed, HandleError> {
        match self.kind {
            LineKind::Jobs => self.handle.push(jobs).await,
            LineKind::Exported(mode) => self.handle.import(jobs, mode).await,
        }
    }

    fn body_error(&self, status: StatusCode, error: &str) -> AdminError {
        let stored = self.outcome.accepted;
        let error = format!("{error}; {stored} jobs of the lines before were stored");
        AdminError::new(status, error, "the body is one JSON object per line")
    }

    fn store_interrupted(&self, error: HandleError) -> AdminError {
        let stored = self.outcome.accepted;
        super::errors::handle_error(error)
            .with_note(&format!("; {stored} jobs of the lines before were stored"))
    }
}
