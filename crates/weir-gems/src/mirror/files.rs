//! Fetches `.gem` files from upstreams into temporary files, and compares them with the checksum in
//! the index before they are served.

mod eager;
mod flights;

use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use percent_encoding::utf8_percent_encode;
use sha2::{Digest, Sha256};

pub use self::eager::EagerFiles;
pub(super) use self::flights::Flights;
use super::client::{Answer, Ask, FetchError};
use super::decide::forbidden;
use super::infos::PATH;
use super::{Mirror, Upstream};
use crate::blocking::blocking_io;
use crate::files::{Arriving, Files};
use crate::marshal::gemspec_rz;
use crate::metrics::{FetchFailure, Outcome};
use crate::package::{PackageLimits, read};
use crate::release::Checksum;
use crate::store::mirror::{MirroredFile, MirroredRelease};
use crate::store::{GemStore, StoreError, StoredFile};

/// Bytes to buffer before they are written on a blocking thread.
const WRITE_BYTES: usize = 1 << 20;

/// Reasons why a file could not be fetched. Cheap to clone, since all requests that wait for the
/// file get a copy.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum FileError {
    #[error("{file} is not here yet, and the upstream {upstream} does not answer: {problem}")]
    Away { file: String, upstream: String, problem: String },
    #[error("the upstream {upstream} has no {file}")]
    Absent { file: String, upstream: String },
    #[error(
        "the upstream {upstream} sends another {file} than its index says; it is not passed on"
    )]
    Checksum { file: String, upstream: String },
    #[error(
        "the upstream {upstream} sends {file} with more than {max} bytes (gems.limits.gem_bytes_max)"
    )]
    TooLong { file: String, upstream: String, max: u64 },
    #[error("{0}")]
    Full(String),
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl From<StoreError> for FileError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl Mirror {
    /// Fetches a file. Returns None if there is no such release, or if the policy forbids its
    /// upstream.
    pub(super) async fn fetch_file(
        &self,
        full_name: &str,
    ) -> Result<Option<StoredFile>, FileError> {
        let Some(release) = self.store.mirrored(full_name).await? else { return Ok(None) };
        // The policy may have changed since the release was added to the index.
        if forbidden(&self.policy.load(), release.name.as_str(), &release.upstream).is_some() {
            return Ok(None);
        }
        if let Some(bytes) = release.bytes {
            return Ok(Some(StoredFile { checksum: release.checksum, bytes }));
        }
        let Some(upstream) = self.upstream(&release.upstream) else {
            return Err(FileError::Away {
                file: full_name.to_owned(),
                upstream: release.upstream,
                problem: "it is not in gems.mirror.upstreams any more".to_owned(),
            });
        };
        let flight = self.flights.flight(release.checksum);
        let fetched = flight
            .get_or_init(|| async {
                let _permit = upstream.file_fetches.try_acquire().map_err(|full| {
                    self.metrics.file(Outcome::Full);
                    FileError::Full(full.to_string())
                })?;
                upstream.client.check_health().map_err(|error| away(&release, &error))?;
                self.fetch_release(upstream, &release).await
            })
            .await
            .clone();
        self.flights.landed(release.checksum, &flight);
        fetched.map(Some)
    }

    /// Like [`Mirror::fetch_file`], for a file that was lost or damaged.
    pub(super) async fn fetch_lost_file(
        &self,
        full_name: &str,
    ) -> Result<Option<StoredFile>, FileError> {
        match forget_file(&self.store, &self.files, full_name).await? {
            true => self.fetch_file(full_name).await,
            false => Ok(None),
        }
    }

    /// Fetches a file, checks it and stores it.
    async fn fetch_release(
        &self,
        upstream: &Upstream,
        release: &MirroredRelease,
    ) -> Result<StoredFile, FileError> {
        let fetched = self.fetch_without_count(upstream, release).await;
        self.metrics.file(match &fetched {
            Ok(_) => Outcome::Done,
            Err(_) => Outcome::Failed,
        });
        if let Err(error @ FileError::Checksum { .. }) = &fetched {
            upstream.metrics.failed(FetchFailure::Digest);
            tracing::error!(%error, "a file is not what the index says");
        }
        fetched
    }

    async fn fetch_without_count(
        &self,
        upstream: &Upstream,
        release: &MirroredRelease,
    ) -> Result<StoredFile, FileError> {
        let full_name = full_name(release);
        let path = format!("/gems/{}.gem", utf8_percent_encode(&full_name, PATH));
        let ask = Ask::all(&path, self.limits.download_limit());
        let answer = upstream.client.get(&ask).await.map_err(|error| away(release, &error))?;
        if answer.status().as_u16() != 200 {
            return Err(FileError::Absent { file: full_name, upstream: release.upstream.clone() });
        }
        let (file, bytes, checksum) = self.receive(answer, release).await?;
        if checksum != release.checksum {
            return Err(FileError::Checksum {
                file: full_name,
                upstream: release.upstream.clone(),
            });
        }
        let (files, limits) = (self.files.clone(), self.package.load_full());
        let specification = blocking(move || {
            let (file, specification) = specification(file, &limits)?;
            files.keep(file, checksum)?;
            Ok(specification)
        })
        .await?;
        let file = MirroredFile { bytes, specification };
        self.store.keep_file(release, file).await?;
        Ok(StoredFile { checksum, bytes })
    }

    async fn receive(
        &self,
        mut answer: Answer,
        release: &MirroredRelease,
    ) -> Result<(Arriving, u64, Checksum), FileError> {
        let max = self.package.load().gem_bytes_max;
        let files = self.files.clone();
        let mut file = blocking(move || files.arrive()).await?;
        let (mut digest, mut bytes, mut waiting) = (Sha256::new(), 0, Vec::new());
        loop {
            let chunk = answer.chunk().await.map_err(|error| away(release, &error))?;
            let is_end = chunk.is_none();
            if let Some(chunk) = chunk {
                bytes += chunk.len() as u64;
                if bytes > max {
                    let (file, upstream) = (full_name(release), release.upstream.clone());
                    return Err(FileError::TooLong { file, upstream, max });
                }
                digest.update(&chunk);
                waiting.extend_from_slice(&chunk);
            }
            if is_end || waiting.len() >= WRITE_BYTES {
                let piece = std::mem::take(&mut waiting);
                file = blocking(move || file.write(&piece).map(|()| file)).await?;
            }
            if is_end {
                return Ok((file, bytes, Checksum(digest.finalize().into())));
            }
        }
    }
}

/// Forgets a damaged file. If its release comes from an upstream, the next request fetches it
/// again. Returns whether it does.
///
/// # Errors
/// Returns the error of the store or the file system.
pub fn forget_file<'a>(
    store: &'a GemStore,
    files: &'a Files,
    full_name: &'a str,
) -> BoxFuture<'a, Result<bool, StoreError>> {
    Box::pin(async move {
        let Some(release) = store.mirrored(full_name).await? else { return Ok(false) };
        if release.bytes.is_none() {
            return Ok(true);
        }
        tracing::warn!(full_name, "a mirrored file is lost or damaged; it is to be fetched again");
        let (files, checksum) = (files.clone(), release.checksum);
        match blocking_io(move || files.remove(checksum)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::Io {
                    path: format!("{full_name}.gem ({checksum})"),
                    error,
                });
            }
            _ => store.forget_file(&release).await?,
        }
        Ok(true)
    })
}

/// Reads the specification from a file, for older clients and for readers. Some old gems have
/// specifications that are invalid by today's rules; they are served anyway, since the file matches
/// the index.
#[expect(clippy::type_complexity, reason = "the file is returned with the bytes that were read")]
fn specification(
    mut file: Arriving,
    limits: &PackageLimits,
) -> io::Result<(Arriving, Option<(Vec<u8>, String)>)> {
    let read = read(file.read_again()?, limits);
    let specification = read.ok().and_then(|package| {
        let about = serde_json::to_string(&package.specification.about).ok()?;
        Some((gemspec_rz(&package.specification), about))
    });
    Ok((file, specification))
}

pub(super) fn full_name(release: &MirroredRelease) -> String {
    format!("{}-{}", release.name, release.identity)
}

fn away(release: &MirroredRelease, error: &FetchError) -> FileError {
    FileError::Away {
        file: format!("{}.gem", full_name(release)),
        upstream: release.upstream.clone(),
        problem: error.to_string(),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, FileError> {
    blocking_io(work).await.map_err(|error| {
        let path = "the folder of .gem files".to_owned();
        StoreError::Io { path, error }.into()
    })
}
