//! The interface of a mirror for requests from clients and operators, independent of the store.

use std::future::Future;
use std::pin::Pin;

use hyper::header::{self, HeaderMap};

use super::files::FileError;
use super::{Mirror, Scope, hooks};
use crate::name::GemName;
use crate::release::Identity;
use crate::store::mirror::ReplacedRelease;
use crate::store::{StoreError, StoredFile};
use crate::view::MirrorView;

/// Future of a file that is being fetched.
pub type Fetched<'a> =
    Pin<Box<dyn Future<Output = Result<Option<StoredFile>, FileError>> + Send + 'a>>;
/// Future of the state of a mirror.
pub type Viewed<'a> = Pin<Box<dyn Future<Output = Result<MirrorView, StoreError>> + Send + 'a>>;
/// Future of accepting a release.
pub type Accepted<'a> =
    Pin<Box<dyn Future<Output = Result<Option<ReplacedRelease>, StoreError>> + Send + 'a>>;
type Received<'a> = Pin<Box<dyn Future<Output = Result<HookAnswer, StoreError>> + Send + 'a>>;

/// Formats of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookRoute {
    /// The Bundler API's `/api/v1/add_spec.json`.
    AddSpec,
    /// The Bundler API's `/api/v1/remove_spec.json`.
    RemoveSpec,
    /// The webhook of rubygems.org.
    Rubygems,
}

/// Outcome of receiving a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// The webhook is saved to disk.
    Taken,
    /// The webhook does not prove that it comes from an upstream.
    Denied,
    /// The webhook can't be parsed.
    Malformed(String),
    /// Too many webhooks are waiting.
    Full,
}

/// The operations of a mirror that requests use.
pub trait MirrorDoor: Send + Sync {
    /// Returns the file of a mirrored release, fetching it if it is missing, or None if there is no
    /// such release.
    fn file<'a>(&'a self, full_name: &'a str) -> Fetched<'a>;

    /// Fetches a file again that was lost or damaged. Returns None if the release comes from no
    /// upstream.
    fn lost_file<'a>(&'a self, full_name: &'a str) -> Fetched<'a>;

    /// Receives a webhook. It is saved to disk before this returns.
    fn hook<'a>(&'a self, route: HookRoute, headers: &'a HeaderMap, body: &'a [u8])
    -> Received<'a>;

    /// Returns the state of the mirror.
    fn view(&self) -> Viewed<'_>;

    /// Accepts the changed file of a release ([`Mirror::accept`]).
    fn accept<'a>(&'a self, name: &'a GemName, identity: &'a Identity) -> Accepted<'a>;

    /// Requests a synchronization of all upstreams ([`Mirror::request_synchronization`]).
    fn request_synchronization(&self, scope: Scope) -> u64;
}

impl MirrorDoor for Mirror {
    fn file<'a>(&'a self, full_name: &'a str) -> Fetched<'a> {
        Box::pin(self.fetch_file(full_name))
    }

    fn lost_file<'a>(&'a self, full_name: &'a str) -> Fetched<'a> {
        Box::pin(self.fetch_lost_file(full_name))
    }

    fn hook<'a>(
        &'a self,
        route: HookRoute,
        headers: &'a HeaderMap,
        body: &'a [u8],
    ) -> Received<'a> {
        let authorization =
            headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        Box::pin(hooks::receive(self, route, authorization, body))
    }

    fn view(&self) -> Viewed<'_> {
        self.view()
    }

    fn accept<'a>(&'a self, name: &'a GemName, identity: &'a Identity) -> Accepted<'a> {
        self.accept(name, identity)
    }

    fn request_synchronization(&self, scope: Scope) -> u64 {
        self.request_synchronization(scope)
    }
}
