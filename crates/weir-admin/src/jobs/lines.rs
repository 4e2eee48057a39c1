//! Reads JSON lines in pieces, without buffering the whole body.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use http_body_util::BodyExt as _;
use memchr::memchr;
use tokio::time::sleep;
use weir_base::admin_api::AdminError;

use weir_jobs::handle::{Handle, HandleError};
use weir_jobs::view::Pushed;

/// A piece is stored once it has this many lines or bytes.
const PIECE_LINES: usize = 1_000;
const PIECE_BYTES: usize = 1 << 20;
/// Limit of rejected lines that the response lists; further ones are only counted.
const REJECTED_MAX: usize = 1_000;
/// A piece is retried while the server is busy, for five seconds in all.
const BUSY_WAIT: Duration = Duration::from_millis(50);
const BUSY_TRIES: u32 = 100;

/// The kind of the lines.
#[derive(Clone, Copy, Debug)]
pub(super) enum LineKind {
    /// Jobs to push.
    Jobs,
    /// Lines of an export.
    Exported,
}

/// Lines that are not stored yet.
struct Piece<'h> {
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
pub(super) async fn take(
    handle: &Handle,
    body: Body,
    kind: LineKind,
) -> Result<Pushed, AdminError> {
    let outcome = Pushed::default();
    let mut piece = Piece { handle, kind, lines: Vec::new(), bytes: 0, lines_before: 0, outcome };
    let mut begun: Vec<u8> = Vec::new();
    let mut body = body;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| piece.broken(StatusCode::BAD_REQUEST, &error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        piece.add(&mut begun, &data).await?;
    }
    piece.line(std::mem::take(&mut begun)).await?;
    piece.store().await?;
    Ok(piece.outcome)
}

impl Piece<'_> {
    async fn add(&mut self, begun: &mut Vec<u8>, data: &Bytes) -> Result<(), AdminError> {
        let mut rest: &[u8] = data;
        while let Some(end) = memchr(b'\n', rest) {
            begun.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            self.line(std::mem::take(begun)).await?;
        }
        begun.extend_from_slice(rest);
        let max = self.handle.line_bytes_max();
        if begun.len() > max {
            let error = format!("line longer than {max} bytes (jobs.limits.line_bytes_max)");
            return Err(self.broken(StatusCode::PAYLOAD_TOO_LARGE, &error));
        }
        Ok(())
    }

    async fn line(&mut self, line: Vec<u8>) -> Result<(), AdminError> {
        self.bytes += line.len();
        self.lines.push(line);
        if self.lines.len() >= PIECE_LINES || self.bytes >= PIECE_BYTES {
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
        let pushed = self.send(jobs).await.map_err(|error| self.interrupted(error))?;
        self.outcome.accepted += pushed.accepted;
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
        for _ in 1..BUSY_TRIES {
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
            LineKind::Exported => self.handle.import(jobs).await,
        }
    }

    fn broken(&self, status: StatusCode, error: &str) -> AdminError {
        let stored = self.outcome.accepted;
        let error = format!("{error}; {stored} jobs of the lines before were stored");
        AdminError::new(status, error, "the body is one JSON object per line")
    }

    fn interrupted(&self, error: HandleError) -> AdminError {
        let stored = self.outcome.accepted;
        super::problem::of_handle(error)
            .with_note(&format!("; {stored} jobs of the lines before were stored"))
    }
}
