//! Apps that no request could ever get to, and those that would ask Weir itself.

use std::net::SocketAddr;

use weir_front::UpstreamAddress;

use super::super::{App, Settings};
use weir_settings::Report;

pub(super) fn check(settings: &Settings, report: &mut Report) {
    let apps = settings.front.apps.iter().enumerate();
    let proxied: Vec<(usize, &App)> = apps.filter(|(_, app)| app.sockets.is_none()).collect();
    for (place, &(index, app)) in proxied.iter().enumerate() {
        if let Some(others) = hiders(app, &proxied[..place]) {
            let path = format!("front.apps[{index}]");
            let name = &app.settings.name;
            let message = format!(
                "{path}: {name} never receives a request, because {others} above it has the same hosts and paths; change the hosts or paths of one of them"
            );
            report.error_at(&format!("{path}.name"), message);
        }
        for upstream in settings.front.listen.iter().flat_map(|listen| own(app, *listen)) {
            let path = format!("front.apps[{index}].upstreams");
            let message = format!(
                "{path}: {upstream} is front.listen itself: each request would loop; use the address of a worker"
            );
            report.error_at(&path, message);
        }
    }
}

/// The names of those that answer, together, for everything that `app` would; None: it has
/// something of its own.
fn hiders(app: &App, before: &[(usize, &App)]) -> Option<String> {
    let takes = |route: &Route| {
        let mut others = before.iter().map(|(_, other)| *other);
        others.find(|other| routes(other).contains(route))
    };
    let takers: Option<Vec<&App>> = routes(app).iter().map(takes).collect();
    let mut names: Vec<&str> = takers?.iter().map(|it| it.settings.name.as_str()).collect();
    names.dedup();
    Some(names.join(", "))
}

/// A host (None: any) and a path, as the front compares them.
type Route = (Option<String>, String);

fn routes(app: &App) -> Vec<Route> {
    let own = &app.settings;
    let hosts: Vec<Option<String>> = match own.hosts.as_slice() {
        [] => vec![None],
        hosts => hosts.iter().map(|host| Some(host.to_ascii_lowercase())).collect(),
    };
    let paths: Vec<&str> = match own.paths.as_slice() {
        [] => vec![""],
        paths => paths.iter().map(|path| path.trim_end_matches('/')).collect(),
    };
    let of_host = |host: Option<String>| {
        let paths = paths.iter();
        paths.map(move |path| (host.clone(), (*path).to_owned())).collect::<Vec<_>>()
    };
    hosts.into_iter().flat_map(of_host).collect()
}

/// Those of its upstreams at which the front listens.
fn own(app: &App, front: SocketAddr) -> impl Iterator<Item = SocketAddr> {
    app.settings.workers.iter().filter_map(move |upstream| match upstream {
        UpstreamAddress::Tcp(address) if is_at(*address, front) => Some(*address),
        UpstreamAddress::Tcp(_) | UpstreamAddress::Unix(_) => None,
    })
}

fn is_at(address: SocketAddr, listen: SocketAddr) -> bool {
    let (ip, own) = (address.ip().to_canonical(), listen.ip().to_canonical());
    let is_same = ip == own || (own.is_unspecified() && (ip.is_loopback() || ip.is_unspecified()));
    is_same && address.port() == listen.port() && listen.port() != 0
}
