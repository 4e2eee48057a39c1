//! `/api/v1/dependencies?gems=a,b`, in Marshal and in JSON.

use std::borrow::Cow;

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use weir_net::server::Body;

use super::representation::{BINARY, REVALIDATE};
use super::route::Format;
use super::{Answer, Call, Failure, Gems};
use crate::dependency_api::{AnswerTooLarge, Fragment, json, marshal};
use crate::metrics::Limit;
use crate::store::Store;

impl<S: Store> Gems<S> {
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
            // Clients ask so whether there is such an API.
            return Ok(response(format, Vec::new()));
        }
        let stored = self.store.fragments(&names).await?;
        let read = stored.iter().map(|(name, bytes)| {
            Ok::<_, Failure>((name.as_str(), Fragment::read(bytes).map_err(unreadable)?))
        });
        let gems = read.collect::<Result<Vec<_>, _>>()?;
        let bytes_max = limits.dependency_answer_bytes_max;
        let answer = match format {
            Format::Marshal => marshal(&gems, bytes_max),
            Format::Json => json(&gems, bytes_max),
        };
        let answer = answer.map_err(|error: AnswerTooLarge| {
            self.metrics.limit_hit(Limit::DependencyAnswerBytesMax);
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, error)
        })?;
        Ok(response(format, answer))
    }
}

fn unreadable(error: crate::dependency_api::FragmentError) -> Failure {
    crate::store::StoreError::from(error).into()
}

/// The value of `gems`; the last one counts.
fn names(query: &str) -> Cow<'_, str> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.filter(|(key, _)| key == "gems").last().map(|(_, value)| value).unwrap_or_default()
}

/// Each name once, in the order in which they are asked for.
fn split(gems: &str) -> Vec<&str> {
    let mut names: Vec<(usize, &str)> =
        gems.split(',').filter(|name| !name.is_empty()).enumerate().collect();
    names.sort_unstable_by_key(|(place, name)| (*name, *place));
    names.dedup_by_key(|(_, name)| *name);
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name).collect()
}

fn response(format: Format, answer: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(answer));
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
