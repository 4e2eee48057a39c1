//! `[front.clients]`: what one client may have at once.

use weir_net::client::ClientLimits;

use super::super::keys::{Key, Keys};
use super::COUNT_MAX;

pub(super) fn read(keys: &mut Keys<'_>, limits: &mut ClientLimits) {
    let ClientLimits { connections_max, requests_max, streams_max } = limits;
    let mut count = |name, field: &mut u32, doc| {
        keys.number(Key::live(name, doc), 1..=COUNT_MAX, field);
    };
    count(
        "connections_max",
        connections_max,
        "Connections that one client may have open; one more gets 503. Those of front.trusted_proxies are not counted. A client is an address, of IPv6 the /64 that it is in; behind trusted proxies it is the address they forward; clients on this machine have no limit.",
    );
    count(
        "requests_max",
        requests_max,
        "Requests of one client that wait for a worker or are being served, WebSockets and event streams aside; one more gets 503.",
    );
    count(
        "streams_max",
        streams_max,
        "WebSockets and event streams that one client may have open, of apps and of realtime; one more gets 503, from realtime the close code 4100.",
    );
}
