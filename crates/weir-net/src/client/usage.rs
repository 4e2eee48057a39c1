//! Counts what each client has open, over all cores: connections, requests in progress and streams.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use hyper::header::HeaderMap;
use weir_base::clock::Clock;
use weir_base::seldom::Seldom;
use weir_settings::{COUNT, Section};

use super::{ClientAddress, TrustedProxies};
use crate::NetMetrics;
use crate::metrics::HttpServerLimit;
use crate::server::{HttpRequestHead, HttpServerLimits, Peer};

/// The number of shards of the table, each with a lock, so that cores that serve different clients
/// rarely wait for each other.
const PARTS: usize = 16;

/// `[front.clients]`: what one client may have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "front.clients")]
pub struct ClientLimits {
    /// Connections that one client may have open; one more gets 503. Those of front.trusted_proxies
    /// are not counted. A client is an address, of IPv6 the /64 that it is in; behind trusted
    /// proxies it is the address they forward; clients on this machine have no limit.
    // A school or a mobile carrier has thousands of users behind one address. A browser has up to
    // six connections (one with HTTP/2) and few requests in progress. At this default, an attacker
    // needs four addresses to use up `front.limits.connections_max`.
    #[setting(range = COUNT, default = 16_384)]
    pub connections_max: u32,
    /// Requests of one client that wait for a worker or are being served, WebSockets and event
    /// streams aside; one more gets 503.
    #[setting(range = COUNT, default = 4_096)]
    pub requests_max: u32,
    /// WebSockets and event streams that one client may have open, of apps and of realtime; one
    /// more gets 503, from realtime the close code 4100.
    #[setting(range = COUNT, default = 8_192)]
    pub streams_max: u32,
}

/// A resource that is limited for each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientUse {
    Connections,
    Requests,
    Streams,
}

/// The error when a client has as many of a resource as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.reason())]
pub struct ClientFull(pub ClientUse);

impl ClientUse {
    const ALL: [Self; 3] = [Self::Connections, Self::Requests, Self::Streams];

    const fn max(self, limits: &ClientLimits) -> u32 {
        match self {
            Self::Connections => limits.connections_max,
            Self::Requests => limits.requests_max,
            Self::Streams => limits.streams_max,
        }
    }

    const fn limit(self) -> HttpServerLimit {
        match self {
            Self::Connections => HttpServerLimit::ClientConnections,
            Self::Requests => HttpServerLimit::ClientRequests,
            Self::Streams => HttpServerLimit::ClientStreams,
        }
    }

    /// Returns the message for the rejected client.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Connections => {
                "your address has too many connections open (front.clients.connections_max); try again later"
            }
            Self::Requests => {
                "your address has too many requests in progress (front.clients.requests_max); try again later"
            }
            Self::Streams => {
                "your address has too many WebSockets and event streams open (front.clients.streams_max); try again later"
            }
        }
    }
}

/// The counts of all clients. Cheap to clone; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Clients(Arc<Table>);

#[derive(Debug)]
struct Table {
    /// Only clients that use something. A std mutex: it is held for an addition.
    parts: [Mutex<HashMap<ClientAddress, [u32; ClientUse::ALL.len()]>>; PARTS],
    proxies: TrustedProxies,
    limits: Arc<ArcSwap<HttpServerLimits>>,
    metrics: NetMetrics,
    clock: Clock,
    /// Limits the log lines, for each resource.
    logged: [Seldom; ClientUse::ALL.len()],
}

/// One unit of a client's use, which is released on drop.
#[derive(Debug)]
pub(crate) struct UsageShare {
    clients: Clients,
    client: ClientAddress,
    /// The index of a [`ClientUse`]; it changes when a request becomes a stream.
    used: AtomicUsize,
}

/// A request that counts for a client; an extension of the request. It counts until all clones are
/// dropped, which is after the response has ended.
#[derive(Clone, Debug)]
pub struct ClientRequest(Arc<UsageShare>);

impl ClientRequest {
    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> ClientAddress {
        self.0.client
    }

    /// Makes it count as a stream instead of a request in progress.
    ///
    /// # Errors
    /// Fails if the client has as many streams as it may have, which is counted and logged.
    pub fn become_stream(&self) -> Result<(), ClientFull> {
        self.0.change_use(ClientUse::Streams)
    }
}

impl Clients {
    pub(crate) fn new(
        proxies: TrustedProxies,
        limits: Arc<ArcSwap<HttpServerLimits>>,
        metrics: NetMetrics,
        clock: Clock,
    ) -> Self {
        let (parts, logged) = (Default::default(), Default::default());
        Self(Arc::new(Table { parts, proxies, limits, metrics, clock, logged }))
    }

    /// Counts a connection from `address`. None: no particular client, such as a trusted proxy.
    pub(crate) fn connection(
        &self,
        address: Option<IpAddr>,
    ) -> Result<Option<Box<UsageShare>>, ClientFull> {
        let Some(client) = address.and_then(ClientAddress::from_ip) else { return Ok(None) };
        if self.0.proxies.trusts(address) {
            return Ok(None);
        }
        self.take(client, ClientUse::Connections).map(|share| Some(Box::new(share)))
    }

    /// Counts a request. None: no particular client.
    pub(crate) fn request(
        &self,
        peer: Peer,
        headers: &HeaderMap,
    ) -> Result<Option<ClientRequest>, ClientFull> {
        self.count_request(self.0.proxies.origin(peer, headers).address)
    }

    /// Counts a request whose head was not parsed by hyper.
    pub(crate) fn request_of(
        &self,
        peer: Peer,
        head: &HttpRequestHead<'_>,
    ) -> Result<Option<ClientRequest>, ClientFull> {
        self.count_request(self.0.proxies.origin_of_head(peer, head).address)
    }

    fn count_request(&self, address: Option<IpAddr>) -> Result<Option<ClientRequest>, ClientFull> {
        let Some(client) = address.and_then(ClientAddress::from_ip) else { return Ok(None) };
        let share = self.take(client, ClientUse::Requests)?;
        Ok(Some(ClientRequest(Arc::new(share))))
    }

    fn take(&self, client: ClientAddress, used: ClientUse) -> Result<UsageShare, ClientFull> {
        let table = &self.0;
        let max = used.max(&table.limits.load().clients);
        let mut part = table.part(client);
        let counts = part.entry(client).or_default();
        if counts[used as usize] < max {
            counts[used as usize] += 1;
            let used = AtomicUsize::new(used as usize);
            return Ok(UsageShare { clients: self.clone(), client, used });
        }
        if counts.iter().all(|count| *count == 0) {
            part.remove(&client);
        }
        drop(part);
        Err(table.reject(client, used, max))
    }
}

impl Table {
    fn part(
        &self,
        client: ClientAddress,
    ) -> std::sync::MutexGuard<'_, HashMap<ClientAddress, [u32; ClientUse::ALL.len()]>> {
        let last = match client.0 {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(address) => address.octets()[7],
        };
        self.parts[usize::from(last) % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a rejection, and logs it at intervals.
    #[cold]
    fn reject(&self, client: ClientAddress, used: ClientUse, max: u32) -> ClientFull {
        self.metrics.limit_hit(used.limit());
        if self.logged[used as usize].is_due(self.clock.now()) {
            let limit = used.limit().name();
            tracing::warn!(%client, max, "front.{limit}: a client has as many as it may; one more was refused. If this is a proxy, list it in front.trusted_proxies");
        }
        ClientFull(used)
    }
}

impl UsageShare {
    fn change_use(&self, used: ClientUse) -> Result<(), ClientFull> {
        let table = &self.clients.0;
        let max = used.max(&table.limits.load().clients);
        let mut part = table.part(self.client);
        let counts = part.entry(self.client).or_default();
        let before = self.used.load(Ordering::Relaxed);
        if before == used as usize {
            return Ok(());
        }
        if counts[used as usize] >= max {
            drop(part);
            return Err(table.reject(self.client, used, max));
        }
        counts[before] -= 1;
        counts[used as usize] += 1;
        self.used.store(used as usize, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for UsageShare {
    fn drop(&mut self) {
        if let Entry::Occupied(mut counts) = self.clients.0.part(self.client).entry(self.client) {
            counts.get_mut()[self.used.load(Ordering::Relaxed)] -= 1;
            if counts.get().iter().all(|count| *count == 0) {
                counts.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(proxies: &[&str], limits: ClientLimits) -> Clients {
        let proxies = proxies.iter().map(|text| text.parse().expect("a network"));
        let proxies: Vec<super::super::TrustedProxy> = proxies.collect();
        let limits = HttpServerLimits { clients: limits, ..HttpServerLimits::default() };
        Clients::new(
            proxies.into(),
            Arc::new(ArcSwap::from_pointee(limits)),
            NetMetrics::detached(),
            Clock::system(),
        )
    }

    fn limits(connections_max: u32, requests_max: u32, streams_max: u32) -> ClientLimits {
        ClientLimits { connections_max, requests_max, streams_max }
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    fn known(clients: &Clients) -> usize {
        clients.0.parts.iter().map(|part| part.lock().expect("a lock").len()).sum()
    }

    #[test]
    fn connections_are_counted_per_client_and_forgotten_at_zero() {
        let clients = clients(&[], limits(2, 1, 1));
        let full = Err(ClientFull(ClientUse::Connections));
        let connect = |text| clients.connection(address(text));
        let first = connect("192.0.2.7").expect("room");
        let second = connect("192.0.2.7").expect("room");
        assert_eq!(connect("192.0.2.7").map(|_| ()), full);
        // A /64 is one client.
        let others = ["2001:db8::1", "2001:db8::2"].map(|text| connect(text).expect("room"));
        assert_eq!(connect("2001:db8::3").map(|_| ()), full);
        assert!(others.iter().all(Option::is_some));
        assert_eq!(known(&clients), 2);
        drop(first);
        let again = connect("192.0.2.7").expect("room again");
        drop((second, again, others));
        assert_eq!(known(&clients), 0);
        assert_eq!(clients.0.metrics.limit_hits(HttpServerLimit::ClientConnections), 2);
    }

    #[test]
    fn loopback_and_trusted_proxies_are_not_counted_as_clients() {
        let clients = clients(&["10.0.0.0/8"], limits(0, 0, 0));
        for one in [None, address("127.0.0.1"), address("::1"), address("10.1.2.3")] {
            assert!(clients.connection(one).expect("no limit").is_none(), "{one:?}");
        }
        assert!(clients.connection(address("192.0.2.7")).is_err());
        assert_eq!(known(&clients), 0);
    }

    #[test]
    fn a_request_counts_for_the_client_that_a_trusted_proxy_reports() {
        let clients = clients(&["10.0.0.1"], limits(1, 1, 1));
        let peer = Peer { address: address("10.0.0.1"), is_tls: false, listener: 0 };
        let ask = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", text.parse().expect("a value"));
            clients.request(peer, &headers)
        };
        let held = ask("192.0.2.7").expect("room").expect("a client");
        assert_eq!(ask("6.6.6.6, 192.0.2.7").map(|_| ()), Err(ClientFull(ClientUse::Requests)));
        assert!(ask("192.0.2.8").expect("room").is_some());
        // A request that became a stream leaves room for another request.
        held.become_stream().expect("room");
        let more = ask("192.0.2.7").expect("room").expect("a client");
        assert_eq!(more.become_stream(), Err(ClientFull(ClientUse::Streams)));
        drop(held);
        more.become_stream().expect("room again");
        drop(more);
        assert_eq!(known(&clients), 0);
    }
}
