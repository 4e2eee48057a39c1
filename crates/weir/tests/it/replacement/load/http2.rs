//! A client that asks many things at once over one HTTP/2 connection.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Error, Reason};
use hyper::{Request, StatusCode};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Shared;
use crate::process::TEST_TIMEOUT;

/// Requests at once.
const STREAMS: usize = 4;

/// Sends requests on one connection until the server closes it, then on the next one.
pub(super) fn request_on_one_connection(front: SocketAddr, shared: &Shared, client: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        while shared.should_continue(client) {
            let socket = TcpStream::connect(front).await.expect("connects");
            let (requests, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
            let mut running = JoinSet::new();
            running.spawn(connection);
            let mut streams = JoinSet::new();
            for _ in 0..STREAMS {
                streams.spawn(request_until_closed(requests.clone(), shared.clone(), client));
            }
            drop(requests);
            while let Some(stream) = streams.join_next().await {
                stream.expect("no request lost");
            }
            timeout(TEST_TIMEOUT, running.join_next()).await.expect("an end in time");
        }
    });
}

/// Sends requests until the server accepts no more.
async fn request_until_closed(mut requests: SendRequest<Bytes>, shared: Shared, client: usize) {
    while shared.should_continue(client) {
        let Some(answer) = send_request(&mut requests) else { return };
        let answer = match timeout(TEST_TIMEOUT, answer).await.expect("an answer in time") {
            Ok(answer) => answer,
            Err(error) if is_refused_stream(&error) => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(answer.status(), StatusCode::OK);
        let mut body = answer.into_body();
        while let Some(data) = timeout(TEST_TIMEOUT, body.data()).await.expect("a body in time") {
            let data = data.expect("the whole body");
            body.flow_control().release_capacity(data.len()).expect("released");
        }
    }
}

/// None: the connection accepts no new requests, and nothing was sent.
fn send_request(requests: &mut SendRequest<Bytes>) -> Option<ResponseFuture> {
    let request = Request::builder().uri("http://shop/").body(()).expect("a request");
    requests.send_request(request, true).ok().map(|(answer, _)| answer)
}

/// Returns whether no worker got the request, so it may be sent again (RFC 9113, section 8.7).
fn is_refused_stream(error: &Error) -> bool {
    let is_behind_the_last = error.is_go_away() && error.is_remote();
    let is_refused = error.reason() == Some(Reason::REFUSED_STREAM);
    is_refused || is_behind_the_last && error.reason() == Some(Reason::NO_ERROR)
}
