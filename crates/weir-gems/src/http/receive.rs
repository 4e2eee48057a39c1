//! Reads request bodies within their limits: a gem into a file, a form into memory.

use std::io;

use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use multer::{Constraints, Multipart, SizeLimit};

use super::patient::{BodyError, Patient, RequestBody};
use super::{Failure, Gems};
use crate::blocking::blocking_io;
use crate::files::Arriving;
use crate::metrics::Limit;
use crate::store::StoreError;

/// Bytes to buffer before they are written on a blocking thread.
const WRITE_BYTES: usize = 1 << 20;

/// Name of the form field that holds the gem.
const GEM_FIELD: &str = "gem";

/// A received gem, and the metadata of its upload.
pub(super) struct Received {
    pub(super) file: Arriving,
    /// Whether the request had attestations. They are not stored.
    pub(super) has_attestations: bool,
}

/// A file that is written in large chunks.
struct Writing {
    file: Option<Arriving>,
    waiting: Vec<u8>,
    bytes: u64,
}

impl Gems {
    /// Receives a pushed gem, which is either the whole body or a field of a form.
    pub(super) async fn receive_gem(
        &self,
        headers: &HeaderMap,
        body: RequestBody,
    ) -> Result<Received, Failure> {
        let settings = self.settings.load_full();
        let limits = &settings.limits;
        let form_bytes = limits.form_bytes_max as u64;
        let max = limits.package.gem_bytes_max;
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let announced = text(CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if announced.is_some_and(|announced| announced > max.saturating_add(form_bytes)) {
            return Err(self.too_large(max));
        }
        let mut body = Patient::new(body, limits.body_timeout);
        let files = self.files.clone();
        let file = blocking(move || files.arrive()).await?;
        let mut writing = Writing { file: Some(file), waiting: Vec::new(), bytes: 0 };
        let boundary = text(CONTENT_TYPE).and_then(|kind| multer::parse_boundary(kind).ok());
        let mut has_attestations = false;
        match boundary {
            Some(boundary) => {
                has_attestations =
                    self.receive_form(body, boundary, &mut writing, (max, form_bytes)).await?;
            }
            None => {
                while let Some(chunk) = body.chunk().await.map_err(|error| self.broken(&error))? {
                    self.write(&mut writing, &chunk, max).await?;
                }
            }
        }
        let file = writing.finish().await?;
        Ok(Received { file, has_attestations })
    }

    /// Receives a gem from a form. Returns whether the form has attestations.
    async fn receive_form(
        &self,
        body: Patient,
        boundary: String,
        writing: &mut Writing,
        (gem_bytes, form_bytes): (u64, u64),
    ) -> Result<bool, Failure> {
        let sizes = SizeLimit::new()
            .whole_stream(gem_bytes.saturating_add(form_bytes))
            .per_field(form_bytes)
            .for_field(GEM_FIELD, gem_bytes);
        let constraints = Constraints::new().size_limit(sizes);
        let mut form = Multipart::with_constraints(body, boundary, constraints);
        let (mut has_gem, mut has_attestations) = (false, false);
        while let Some(mut field) = form.next_field().await.map_err(|error| self.form(&error))? {
            let is_gem = field.name() == Some(GEM_FIELD);
            if is_gem && has_gem {
                return Err(bad("the form has the field \"gem\" twice"));
            }
            has_gem |= is_gem;
            has_attestations |= field.name() == Some("attestations");
            while let Some(chunk) = field.chunk().await.map_err(|error| self.form(&error))? {
                if is_gem {
                    self.write(writing, &chunk, gem_bytes).await?;
                }
            }
        }
        match has_gem {
            true => Ok(has_attestations),
            false => Err(bad("the form has no field \"gem\"")),
        }
    }

    async fn write(&self, writing: &mut Writing, chunk: &[u8], max: u64) -> Result<(), Failure> {
        writing.bytes += chunk.len() as u64;
        if writing.bytes > max {
            return Err(self.too_large(max));
        }
        writing.waiting.extend_from_slice(chunk);
        match writing.waiting.len() >= WRITE_BYTES {
            true => writing.flush().await,
            false => Ok(()),
        }
    }

    /// Reads a short body into memory.
    pub(super) async fn receive_text(&self, body: RequestBody) -> Result<Vec<u8>, Failure> {
        let settings = self.settings.load_full();
        let max = settings.limits.form_bytes_max;
        let mut body = Patient::new(body, settings.limits.body_timeout);
        let mut text = Vec::new();
        while let Some(chunk) = body.chunk().await.map_err(|error| self.broken(&error))? {
            if text.len() + chunk.len() > max {
                self.metrics.limit_hit(Limit::FormBytesMax);
                let text = format!(
                    "the body has more than {max} bytes (gems.limits.advanced.form_bytes_max)"
                );
                return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text));
            }
            text.extend_from_slice(&chunk);
        }
        Ok(text)
    }

    fn too_large(&self, max: u64) -> Failure {
        self.metrics.limit_hit(Limit::GemBytesMax);
        let text = format!("the gem has more than {max} bytes (gems.limits.gem_bytes_max)");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    fn broken(&self, error: &BodyError) -> Failure {
        match error {
            BodyError::Late => {
                self.metrics.limit_hit(Limit::BodyTimeout);
                Failure::new(StatusCode::REQUEST_TIMEOUT, error)
            }
            BodyError::Broken(_) => bad(error),
        }
    }

    fn form(&self, error: &multer::Error) -> Failure {
        match error {
            multer::Error::StreamReadFailed(inner) => match inner.downcast_ref::<BodyError>() {
                Some(error) => self.broken(error),
                None => bad(error),
            },
            multer::Error::FieldSizeExceeded { limit, field_name } => match field_name.as_deref() {
                Some(GEM_FIELD) => self.too_large(*limit),
                _ => self.form_too_large(error),
            },
            // Other fields are short, so it is the gem that is too large.
            multer::Error::StreamSizeExceeded { limit } => self.too_large(*limit),
            _ => bad(format!("the form can't be read: {error}")),
        }
    }

    fn form_too_large(&self, error: &multer::Error) -> Failure {
        self.metrics.limit_hit(Limit::FormBytesMax);
        let text = format!("the form is too large: {error} (gems.limits.advanced.form_bytes_max)");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }
}

fn bad(text: impl ToString) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, text)
}

impl Writing {
    async fn flush(&mut self) -> Result<(), Failure> {
        let Some(mut file) = self.file.take() else { return Err(bad("the file is gone")) };
        let bytes = std::mem::take(&mut self.waiting);
        let written = blocking(move || file.write(&bytes).map(|()| file)).await?;
        self.file = Some(written);
        Ok(())
    }

    async fn finish(mut self) -> Result<Arriving, Failure> {
        self.flush().await?;
        self.file.ok_or_else(|| bad("the file is gone"))
    }
}

/// Runs work that may block on the disk of the `.gem` files.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    blocking_io(work).await.map_err(|error| {
        let path = "the folder of .gem files".to_owned();
        StoreError::Io { path, error }.into()
    })
}
