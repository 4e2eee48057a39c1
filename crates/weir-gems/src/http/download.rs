//! Handlers of `/gems/NAME-VERSION.gem` and `/quick/Marshal.4.8/NAME-VERSION.gemspec.rz`.

use std::fs::File;
use std::io;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use weir_net::server::ResponseBody;

use super::representation::{BINARY, Described, FOR_A_YEAR};
use super::{Answer, Call, Failure, Gems, body};
use crate::blocking::blocking_io;
use crate::index::digest::Digests;
use crate::platform::Platform;
use crate::store::StoredFile;
use crate::store::cuts::{Cut, cuts};

/// Characters to escape in the path of a redirect.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

impl Gems {
    pub(super) async fn file(&self, call: &Call<'_>, full_name: &str) -> Answer {
        if let Some(base) = &call.settings.files_url {
            return redirect(base, full_name);
        }
        if let Some(stored) = self.file_or_fetched(full_name).await? {
            return self.send(call, full_name, stored).await;
        }
        if let Some(listed) = self.listed_as(full_name).await?
            && let Some(stored) = self.file_or_fetched(&listed).await?
        {
            return self.send(call, &listed, stored).await;
        }
        Err(self.absent(full_name).await?)
    }

    async fn send(&self, call: &Call<'_>, full_name: &str, stored: StoredFile) -> Answer {
        let (stored, file) = self.open(full_name, stored).await?;
        Ok(described(&stored).answer(call.request, |range| body::of_file(file, range)))
    }

    /// Returns the stored file, or fetches it from an upstream.
    async fn file_or_fetched(&self, full_name: &str) -> Result<Option<StoredFile>, Failure> {
        if let Some(stored) = self.store.file(full_name).await? {
            return Ok(Some(stored));
        }
        match self.mirror.get() {
            Some(mirror) => Ok(mirror.file(full_name).await?),
            None => Ok(None),
        }
    }

    /// Returns the stored specification, or fetches the file from an upstream, which includes the
    /// specification.
    async fn gemspec_or_fetched(&self, full_name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let gemspec = self.store.gemspec(full_name).await?;
        match self.mirror.get() {
            Some(mirror) if gemspec.is_none() => match mirror.file(full_name).await? {
                Some(_) => Ok(self.store.gemspec(full_name).await?),
                None => Ok(None),
            },
            _ => Ok(gemspec),
        }
    }

    /// Opens the file of a release. A missing file is fetched again if the release comes from an
    /// upstream.
    async fn open(
        &self,
        full_name: &str,
        stored: StoredFile,
    ) -> Result<(StoredFile, File), Failure> {
        let failed = |error| {
            let path = format!("{full_name}.gem ({})", stored.checksum);
            Failure::unreadable_file(full_name, path, error)
        };
        let error = match self.open_here(stored).await {
            Ok(file) => return Ok((stored, file)),
            Err(error) => error,
        };
        if is_lost(&error)
            && let Some(mirror) = self.mirror.get()
            && let Some(stored) = mirror.lost_file(full_name).await?
        {
            return Ok((stored, self.open_here(stored).await.map_err(failed)?));
        }
        Err(failed(error))
    }

    async fn open_here(&self, stored: StoredFile) -> io::Result<File> {
        let files = self.files.clone();
        let opening = blocking_io(move || {
            let file = files.get(stored.checksum)?;
            match file.metadata()?.len() == stored.bytes {
                true => Ok(file),
                false => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "it has another length than it was pushed with",
                )),
            }
        });
        opening.await
    }

    /// Returns the response for a release without a file or specification.
    async fn absent(&self, full_name: &str) -> Result<Failure, Failure> {
        let text = match self.is_listed(full_name).await? {
            true => format!(
                "the file of {full_name} is not here, though the release is listed: it was imported \
                 without it, or came from an upstream that is not in the settings any more; who runs \
                 this index can say with gems.files_url where it is"
            ),
            false => format!("there is no release {full_name:?} here"),
        };
        Ok(Failure::not_found(text))
    }

    /// Finds the release that a client means whose RubyGems formats platforms differently, such as
    /// `a-1.0-x86_64-linux` for `a-1.0-x86_64-linux-gnu`. Returns its full name, or None if there
    /// is no such release or more than one.
    async fn listed_as(&self, full_name: &str) -> Result<Option<String>, Failure> {
        let mut found = None;
        for Cut { name, identity } in cuts(full_name).filter(|cut| !cut.identity.platform.is_ruby())
        {
            let Some(info) = self.store.info(name).await? else { continue };
            let text = String::from_utf8_lossy(&info.content);
            let beginning = format!("{}-", identity.number);
            for line in text.lines().filter_map(|line| line.strip_prefix(&beginning)) {
                let platform = line.split(' ').next().unwrap_or_default();
                let is_it = |it: Platform| it.is_known_as(identity.platform.as_str());
                if platform.parse().is_ok_and(is_it)
                    && found.replace(format!("{name}-{beginning}{platform}")).is_some()
                {
                    return Ok(None);
                }
            }
        }
        Ok(found)
    }

    async fn is_listed(&self, full_name: &str) -> Result<bool, Failure> {
        for cut in cuts(full_name) {
            let Some(info) = self.store.info(cut.name).await? else { continue };
            let beginning = format!("{} ", cut.identity);
            if String::from_utf8_lossy(&info.content).lines().any(|it| it.starts_with(&beginning)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) async fn gemspec(&self, call: &Call<'_>, full_name: &str) -> Answer {
        let mut gemspec = self.gemspec_or_fetched(full_name).await?;
        if gemspec.is_none()
            && let Some(listed) = self.listed_as(full_name).await?
        {
            gemspec = self.gemspec_or_fetched(&listed).await?;
        }
        let Some(gemspec) = gemspec else { return Err(self.absent(full_name).await?) };
        let digests = Digests::of(&gemspec);
        let described = Described::by(&digests, gemspec.len() as u64, BINARY);
        self.for_one(call, described, gemspec)
    }
}

/// Returns whether the file is missing or damaged. Other errors, such as too many open files, say
/// nothing about the file.
fn is_lost(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
}

/// Describes a file by its stored checksum, without reading it: files never change.
fn described(stored: &StoredFile) -> Described {
    let base64 = BASE64_STANDARD.encode(stored.checksum.0);
    Described {
        length: stored.bytes,
        etag: format!("\"{}\"", stored.checksum),
        repr_digest: format!("sha-256=:{base64}:"),
        digest: format!("sha-256={base64}"),
        kind: BINARY,
        cache: FOR_A_YEAR,
    }
}

fn redirect(base: &str, full_name: &str) -> Answer {
    let (base, name) = (base.trim_end_matches('/'), utf8_percent_encode(full_name, PATH));
    let wrong = |_| {
        let text = "gems.files_url can't be sent to a client";
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    };
    let location = HeaderValue::from_str(&format!("{base}/{name}.gem")).map_err(wrong)?;
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}
