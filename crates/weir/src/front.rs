//! What each core does with HTTP: realtime at `/app/`, `/apps/` and `/users/`, and nothing else yet.

use std::rc::Rc;

use axum::http::HeaderValue;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode, header};
use weir_net::server::{Body, Peer, Refused, Service, Upgrade};
use weir_realtime::shard::Shard;

/// What the paths of WebSockets begin with; the key of an app follows.
const SOCKETS: &str = "/app/";

/// One core's routes.
#[derive(Debug)]
pub(crate) struct Front {
    realtime: Rc<Shard>,
}

impl Front {
    /// In front of a core's part of realtime.
    pub(crate) fn new(realtime: Rc<Shard>) -> Self {
        Self { realtime }
    }
}

impl Service for Front {
    fn claims_upgrade(&self, path: &str) -> bool {
        path.starts_with(SOCKETS)
    }

    fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), Refused> {
        self.realtime.connect(upgrade)
    }

    async fn run(self: Rc<Self>) {
        Rc::clone(&self.realtime).run().await;
    }

    async fn http(self: Rc<Self>, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        if Shard::serves(request.uri().path()) {
            return Rc::clone(&self.realtime).answer(request, peer).await;
        }
        nothing_here()
    }
}

fn nothing_here() -> Response<Body> {
    let text = "nothing is served here; realtime is at /app/KEY and /apps/ID/\n";
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
