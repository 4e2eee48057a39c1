//! Converts a request's head as the proxy does, without a socket, for fuzzers.

use weir_base::clock::Timestamp;
use weir_net::client::TrustedProxies;
use weir_net::server::{HttpRequestHead, Peer};

use super::head::{self, BodyHead, Forwarded, RequestId, RequestStart, Target};
use super::socket;
use crate::forwarded_headers::{ForwardedHeader, ForwardedHeaders};

/// Returns the head for the worker, or None if the client's head is rejected or incomplete.
#[must_use]
pub fn head_for_worker(bytes: &[u8]) -> Option<Vec<u8>> {
    let parts = HttpRequestHead::read(bytes, socket::parts_of).flatten()?;
    let target = Target::new(&parts).ok()?;
    let peer = Peer { address: Some([127, 0, 0, 1].into()), is_tls: false, listener: 0 };
    let origin = TrustedProxies::default().origin(peer, &parts.headers);
    let start = RequestStart::default().header_value(Timestamp::from_millis(1));
    let forwarded = Forwarded {
        headers: ForwardedHeaders::from_list(&ForwardedHeader::ALL),
        origin,
        start: Some(start),
        id: Some(RequestId::new(&target, &parts.headers)),
        trace: None,
    };
    Some(head::write(&parts, &target, &forwarded, BodyHead::None))
}
