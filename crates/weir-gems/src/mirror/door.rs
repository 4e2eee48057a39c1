//! What requests of clients and operators need of a mirror, whatever store it has.

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

/// A file that is asked for, while it comes.
pub type Fetched<'a> =
    Pin<Box<dyn Future<Output = Result<Option<StoredFile>, FileError>> + Send + 'a>>;
/// How it is, while that is read.
pub type Viewed<'a> = Pin<Box<dyn Future<Output = Result<MirrorView, StoreError>> + Send + 'a>>;
/// A release that is accepted, while that is written.
pub type Accepted<'a> =
    Pin<Box<dyn Future<Output = Result<Option<ReplacedRelease>, StoreError>> + Send + 'a>>;
type Received<'a> = Pin<Box<dyn Future<Output = Result<HookAnswer, StoreError>> + Send + 'a>>;

/// Which shape a webhook has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookRoute {
    /// The Bundler API's `/api/v1/add_spec.json`.
    AddSpec,
    /// Its `/api/v1/remove_spec.json`.
    RemoveSpec,
    /// That of rubygems.org.
    Rubygems,
}

/// What a webhook is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// It is on disk.
    Taken,
    /// It does not prove that it comes from an upstream.
    Denied,
    /// It can't be read.
    Malformed(String),
    /// Too many wait already.
    Full,
}

/// What requests need.
pub trait MirrorDoor: Send + Sync {
    /// The file of a mirrored release; fetched if it is not here. None: there is no such release.
    fn file<'a>(&'a self, full_name: &'a str) -> Fetched<'a>;

    /// The same for one that was here and is lost, or damaged. None: it comes from no upstream.
    fn lost_file<'a>(&'a self, full_name: &'a str) -> Fetched<'a>;

    /// A webhook: on disk before it is answered.
    fn hook<'a>(&'a self, route: HookRoute, headers: &'a HeaderMap, body: &'a [u8])
    -> Received<'a>;

    /// How it is.
    fn view(&self) -> Viewed<'_>;

    /// Takes the file that an upstream has now of a release ([`Mirror::accept`]).
    fn accept<'a>(&'a self, name: &'a GemName, identity: &'a Identity) -> Accepted<'a>;

    /// Has all upstreams looked at ([`Mirror::request_synchronization`]).
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
