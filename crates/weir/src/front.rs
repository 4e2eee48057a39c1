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

    async fn http(self: Rc<Self>, request: Request<Incoming>, _: Peer) -> Response<Body> {
        let path = request.uri().path();
        if Shard::serves(path) {
            return Rc::clone(&self.realtime).answer(request).await;
        }
        if path.starts_with(SOCKETS) {
            let text = "this address takes WebSockets only; is the Upgrade header lost in a proxy?";
            return answer(StatusCode::UPGRADE_REQUIRED, text);
        }
        let text = "nothing is served here; realtime is at /app/KEY and /apps/ID/";
        answer(StatusCode::NOT_FOUND, text)
    }
}

fn answer(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    if status == StatusCode::UPGRADE_REQUIRED {
        // RFC 9110, 15.5.22: the answer names the protocol.
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    response
}
