//! Handles HTTP requests on the core that accepted them.
//!
//! Reads that touch only memory or the page cache run on that core. Work that waits for a disk runs
//! on blocking threads.

mod authorize;
mod body;
mod compact_index;
mod credentials;
mod dependencies;
mod download;
mod failure;
mod hook;
mod known_keys;
mod memory;
mod patient;
mod push;
mod range;
mod receive;
mod representation;
mod root;
mod route;
mod specs;
mod yank;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use hyper::{Method, Request, Response};
use weir_base::clock::{Clock, Timestamp};
use weir_base::failed_attempts::FailedAttempts;
use weir_base::semaphore::Semaphore;
use weir_base::switch::Switches;
use weir_net::server::{BoxError, ResponseBody};

use self::failure::Failure;
use self::known_keys::KnownKeys;
use self::patient::RequestBody;
use self::representation::set_private;
pub use self::route::Endpoint;
use self::route::{Route, not_served};
use self::specs::SpecLists;
use crate::files::Files;
use crate::metrics::GemsMetrics;
use crate::mirror::MirrorDoor;
use crate::settings::{GemsSettings, Readers};
use crate::store::GemStore;

/// Components of the service.
#[derive(Debug)]
pub struct GemsParts {
    pub store: GemStore,
    pub files: Files,
    pub settings: Arc<ArcSwap<GemsSettings>>,
    pub clock: Clock,
    pub metrics: GemsMetrics,
    /// Switches that turn endpoints off, by [`Endpoint::name`].
    pub switches: Arc<Switches>,
}

/// The service. All cores share it.
pub struct Gems {
    store: Arc<GemStore>,
    files: Files,
    settings: Arc<ArcSwap<GemsSettings>>,
    clock: Clock,
    metrics: GemsMetrics,
    switches: Arc<Switches>,
    pushes: Semaphore,
    known_keys: KnownKeys,
    /// A std mutex: it is locked only to count or look up one client.
    wrong_keys: Mutex<FailedAttempts>,
    waiting_keys: Semaphore,
    specs: SpecLists,
    /// The mirror that fetches files which this index does not have yet, if there is one.
    mirror: OnceLock<Arc<dyn MirrorDoor>>,
}

impl fmt::Debug for Gems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Gems").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The head of a request, and its parsed path.
struct Call<'a> {
    request: &'a hyper::http::request::Parts,
    settings: &'a GemsSettings,
}

type Answer = Result<Response<ResponseBody>, Failure>;

impl Gems {
    /// Creates the service from its components.
    #[must_use]
    pub fn new(parts: GemsParts) -> Arc<Self> {
        let pushes_max = parts.settings.load().limits.pushes_max;
        let GemsParts { store, files, settings, clock, metrics, switches } = parts;
        let waiting_keys_max = settings.load().limits.waiting_keys_max;
        let setting = "gems.limits.advanced.waiting_keys_max";
        let waiting_keys = Semaphore::new("API keys that wait", setting, waiting_keys_max);
        let pushes = Semaphore::new("pushes of gems", "gems.limits.pushes_max", pushes_max);
        Arc::new(Self {
            store: Arc::new(store),
            files,
            settings,
            clock,
            metrics,
            switches,
            pushes,
            known_keys: KnownKeys::default(),
            wrong_keys: Mutex::default(),
            waiting_keys,
            specs: SpecLists::default(),
            mirror: OnceLock::new(),
        })
    }

    /// Returns the store, for commands and views.
    #[must_use]
    pub fn store(&self) -> &GemStore {
        &self.store
    }

    pub(crate) fn switches(&self) -> &Switches {
        &self.switches
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the shared store, for a mirror.
    #[must_use]
    pub fn shared_store(&self) -> Arc<GemStore> {
        Arc::clone(&self.store)
    }

    /// Attaches a mirror: from now on, missing files of mirrored releases are fetched through it,
    /// and its webhooks are accepted. Returns false if a mirror is already attached.
    pub fn attach_mirror(&self, mirror: Arc<dyn MirrorDoor>) -> bool {
        self.mirror.set(mirror).is_ok()
    }

    /// Clears the cache of valid keys, so that a revoked key stops working at once.
    pub(crate) fn forget_keys(&self) {
        self.known_keys.forget();
    }

    pub(crate) fn mirror(&self) -> Option<&dyn MirrorDoor> {
        self.mirror.get().map(|mirror| &**mirror)
    }

    /// Returns whether `path` belongs to this service.
    #[must_use]
    pub fn serves(&self, path: &str) -> bool {
        Route::parse(path, &self.settings.load().mount).is_some()
    }

    /// Handles a request whose path begins with the mount of the settings.
    pub fn answer<B>(&self, request: Request<B>) -> BoxFuture<'_, Response<ResponseBody>>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let request = boxed(request);
        Box::pin(async move {
            let settings = self.settings.load_full();
            self.answer_boxed(&settings.mount, request).await
        })
    }

    /// Handles a request whose path begins with `mount`. One index may be served under several
    /// mounts.
    pub fn answer_below<'a, B>(
        &'a self,
        mount: &'a str,
        request: Request<B>,
    ) -> BoxFuture<'a, Response<ResponseBody>>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.answer_boxed(mount, boxed(request))
    }

    fn answer_boxed<'a>(
        &'a self,
        mount: &'a str,
        request: Request<RequestBody>,
    ) -> BoxFuture<'a, Response<ResponseBody>> {
        Box::pin(async move {
            let start = self.clock.now();
            let (request, body) = request.into_parts();
            let settings = self.settings.load_full();
            let Some(route) = Route::parse(request.uri.path(), mount) else {
                return not_served(request.uri.path(), mount).into_response();
            };
            let endpoint = route.endpoint();
            let call = Call { request: &request, settings: &settings };
            let is_private = endpoint.is_read() && settings.read == Readers::WithKey;
            let answer = match self.admit(&call, endpoint, is_private).await {
                Ok(()) => self.route(&call, route, body).await,
                Err(failure) => Err(failure),
            };
            let mut response = answer.unwrap_or_else(Failure::into_response);
            if is_private {
                set_private(response.headers_mut());
            }
            // The body of a response to HEAD is not sent.
            let is_sent = request.method != Method::HEAD;
            let bytes = response.body().size_hint().exact().filter(|_| is_sent).unwrap_or_default();
            let took = self.clock.now().since(start);
            self.metrics.answered(endpoint, response.status(), bytes, took);
            response
        })
    }

    /// Checks that the endpoint supports the method, that it is on, and that the client may read if
    /// `read` requires a key.
    async fn admit(
        &self,
        call: &Call<'_>,
        endpoint: Endpoint,
        is_private: bool,
    ) -> Result<(), Failure> {
        if !endpoint.takes(&call.request.method) {
            return Err(Failure::method_not_allowed(endpoint.methods()));
        }
        if self.switches.is_off(endpoint.name(), self.clock.now()) {
            return Err(Failure::switched_off(endpoint));
        }
        match is_private {
            true => self.authorize_reader(call).await,
            false => Ok(()),
        }
    }

    async fn route(&self, call: &Call<'_>, route: Route<'_>, body: RequestBody) -> Answer {
        match route {
            Route::Root => self.root(call),
            Route::Text(kind) => self.text(call, kind).await,
            Route::Info(name) => self.info(call, &name).await,
            Route::Dependencies(format) => self.dependencies(call, format).await,
            Route::Specs(list) => self.spec_list(call, list).await,
            Route::Gemspec(full_name) => self.gemspec(call, &full_name).await,
            Route::File(full_name) => self.file(call, &full_name).await,
            Route::Push => self.push(call, body).await,
            Route::Yank => self.yank(call, body).await,
            Route::Hook(route) => self.hook(call, route, body).await,
        }
    }
}

fn boxed<B>(request: Request<B>) -> Request<RequestBody>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    request.map(|body| body.map_err(Into::into).boxed_unsync())
}
