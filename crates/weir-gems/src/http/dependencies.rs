//! Handler of `/api/v1/dependencies?gems=a,b`, in Marshal and in JSON.

use std::borrow::Cow;
use std::collections::VecDeque;

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::task::yield_now;
use weir_net::server::ResponseBody;

use super::memory::{Account, with_end};
use super::representation::{BINARY, REVALIDATE};
use super::route::Format;
use super::{Answer, Call, Failure, Gems, body};
use crate::dependency_api::{Document, Fragment};
use crate::metrics::{Budget, Limit};
use crate::settings::GemsLimits;
use crate::store::StoreError;

/// Bytes of a response that are written before yielding to other tasks: well under a millisecond of
/// work.
const SLICE_BYTES: usize = 64 << 10;

impl Gems {
    pub(super) async fn dependencies(&self, call: &Call<'_>, format: Format) -> Answer {
        let limits = &call.settings.limits;
        let gems = names(call.request.uri.query().unwrap_or_default());
        let names = split(&gems);
        self.metrics.dependency_names(names.len());
        if names.len() > limits.dependency_names_max {
            self.metrics.limit_hit(Limit::DependencyNamesMax);
            let max = limits.dependency_names_max;
            let text = format!("Too many gems! (use --full-index instead; at most {max})");
            return Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, text));
        }
        if names.is_empty() {
            // Clients send a request without names to find out whether the API exists.
            return Ok(response(format, ResponseBody::empty()));
        }
        let stored = self.store.fragments(&names).await?;
        let packed = stored.iter().map(|(_, bytes)| bytes.len()).sum();
        // A packed fragment is shorter than its response, so this check is safe before unpacking.
        self.check_length(packed, limits)?;
        let account = Account::of(call, Budget::Dependencies);
        let _room = self.room(account, packed, limits)?;
        let slices = self.written(&stored, format, account, limits).await?;
        Ok(with_end(response(format, body::of_pieces(slices)), limits))
    }

    /// Writes the response. It yields to other tasks and reserves memory after each slice, and
    /// unpacks one gem at a time.
    async fn written(
        &self,
        gems: &[(String, Vec<u8>)],
        format: Format,
        account: Account,
        limits: &GemsLimits,
    ) -> Result<VecDeque<Bytes>, Failure> {
        let mut document = match format {
            Format::Marshal => Document::marshal(count(gems)?),
            Format::Json => Document::json(),
        };
        let mut slices = VecDeque::new();
        let mut length = 0;
        for (name, packed) in gems {
            let fragment = Fragment::read(packed).map_err(StoreError::from)?;
            document.gem(&fragment);
            for release in fragment.releases() {
                document.release(name, &fragment, release);
                self.check_length(length + document.len(), limits)?;
                if document.len() >= SLICE_BYTES {
                    let mut slice = document.take();
                    length += slice.len();
                    // The buffer may have grown to twice the size of its content.
                    slice.shrink_to_fit();
                    slices.push_back(self.kept(account, slice, limits)?);
                    yield_now().await;
                }
            }
        }
        slices.push_back(self.kept(account, document.finish(), limits)?);
        Ok(slices)
    }

    fn check_length(&self, bytes: usize, limits: &GemsLimits) -> Result<(), Failure> {
        let max = limits.dependency_answer_bytes_max;
        if bytes <= max {
            return Ok(());
        }
        self.metrics.limit_hit(Limit::DependencyAnswerBytesMax);
        let text = format!(
            "the answer has more than {max} bytes (gems.limits.advanced.dependency_answer_bytes_max); ask for \
             fewer gems, or use the compact index"
        );
        Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text))
    }
}

/// Counts the releases of all gems.
fn count(gems: &[(String, Vec<u8>)]) -> Result<usize, StoreError> {
    let counts = gems.iter().map(|(_, packed)| Fragment::count(packed));
    Ok(counts.sum::<Result<_, _>>()?)
}

/// Returns the value of the parameter `gems`. If it occurs several times, the last one counts.
fn names(query: &str) -> Cow<'_, str> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.filter(|(key, _)| key == "gems").last().map(|(_, value)| value).unwrap_or_default()
}

/// Splits the list of names, without duplicates, in the order of the request.
fn split(gems: &str) -> Vec<&str> {
    let mut names: Vec<(usize, &str)> =
        gems.split(',').filter(|name| !name.is_empty()).enumerate().collect();
    names.sort_unstable_by_key(|(place, name)| (*name, *place));
    names.dedup_by_key(|(_, name)| *name);
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name).collect()
}

fn response(format: Format, answer: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(answer);
    let kind = match format {
        Format::Marshal => BINARY,
        Format::Json => HeaderValue::from_static("application/json; charset=utf-8"),
    };
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert(header::CACHE_CONTROL, REVALIDATE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_asked_for_once_and_in_order() {
        assert_eq!(split(&names("gems=b,a,,b,c&x=1")), ["b", "a", "c"]);
        assert_eq!(split(&names("gems=a%2Cb+c")), ["a", "b c"]);
        assert_eq!(split(&names("x=1")), [""; 0]);
    }
}
