//! Routes of the HTTP API.

use std::borrow::Cow;

use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use super::response::{ApiFailure, shorten};

/// The app and the operation of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ApiRoute<'a> {
    /// The app's id. None for the app whose key signed the request, as Python's library omits the
    /// id in one path.
    pub(super) app_id: Option<&'a str>,
    pub(super) operation: Operation<'a>,
}

/// The operation that a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Operation<'a> {
    Publish,
    PublishBatch,
    PublishToUser(Cow<'a, str>),
    Terminate(Cow<'a, str>),
    ListChannels,
    Channel(Cow<'a, str>),
    Users(Cow<'a, str>),
    History(Cow<'a, str>),
}

impl Operation<'_> {
    /// Returns whether it publishes events.
    pub(super) const fn publishes(&self) -> bool {
        matches!(self, Self::Publish | Self::PublishBatch | Self::PublishToUser(_))
    }
}

impl<'a> ApiRoute<'a> {
    /// Parses method and path.
    pub(super) fn parse(method: &Method, path: &'a str) -> Result<Self, ApiFailure> {
        let (app_id, rest) = match path.strip_prefix("/apps/") {
            Some(rest) => {
                let (id, rest) = rest.split_once('/').ok_or_else(|| unknown(path))?;
                (Some(id), rest)
            }
            None => (None, path.trim_start_matches('/')),
        };
        let parts: Vec<&str> = rest.split('/').collect();
        let (expected, operation) = match parts[..] {
            ["events"] => (Method::POST, Operation::Publish),
            ["batch_events"] => (Method::POST, Operation::PublishBatch),
            ["users", user, "events"] => (Method::POST, Operation::PublishToUser(decode(user)?)),
            ["users", user, "terminate_connections"] => {
                (Method::POST, Operation::Terminate(decode(user)?))
            }
            ["channels"] => (Method::GET, Operation::ListChannels),
            ["channels", channel] => (Method::GET, Operation::Channel(decode(channel)?)),
            ["channels", channel, "users"] => (Method::GET, Operation::Users(decode(channel)?)),
            ["channels", channel, "history"] => (Method::GET, Operation::History(decode(channel)?)),
            _ => return Err(unknown(path)),
        };
        if *method != expected {
            let text = format!("this path takes {expected} only");
            return Err(ApiFailure::new(StatusCode::METHOD_NOT_ALLOWED, text));
        }
        if app_id.is_none() && !matches!(operation, Operation::Terminate(_)) {
            return Err(unknown(path));
        }
        Ok(Self { app_id, operation })
    }
}

pub(super) fn decode(part: &str) -> Result<Cow<'_, str>, ApiFailure> {
    percent_decode_str(part)
        .decode_utf8()
        .map_err(|_| ApiFailure::new(StatusCode::BAD_REQUEST, "the path is not UTF-8"))
}

fn unknown(path: &str) -> ApiFailure {
    let text = format!("nothing is at '{}'; the HTTP API is at /apps/ID/..", shorten(path));
    ApiFailure::new(StatusCode::NOT_FOUND, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation<'a>(method: &Method, path: &'a str) -> Option<(Option<&'a str>, Operation<'a>)> {
        ApiRoute::parse(method, path).ok().map(|route| (route.app_id, route.operation))
    }

    #[test]
    fn each_path_maps_to_its_operation() {
        use Operation as O;
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, expected) in [
            (&post, "/apps/1/events", Some((Some("1"), O::Publish))),
            (&post, "/apps/1/batch_events", Some((Some("1"), O::PublishBatch))),
            (&get, "/apps/1/channels", Some((Some("1"), O::ListChannels))),
            (&get, "/apps/1/channels/a%3Bb", Some((Some("1"), O::Channel("a;b".into())))),
            (&get, "/apps/1/channels/a/users", Some((Some("1"), O::Users("a".into())))),
            (&get, "/apps/1/channels/a/history", Some((Some("1"), O::History("a".into())))),
            (
                &post,
                "/apps/1/users/u%7C1/events",
                Some((Some("1"), O::PublishToUser("u|1".into()))),
            ),
            (&post, "/users/u/terminate_connections", Some((None, O::Terminate("u".into())))),
            (&post, "/users/u/events", None),
            (&get, "/apps/1/events", None),
            (&get, "/apps/1", None),
            (&get, "/apps/1/channels/a/b/c", None),
            (&get, "/apps/1/channels/%ff", None),
        ] {
            assert_eq!(operation(method, path), expected, "{method} {path}");
        }
    }
}
