//! Apps that no request can reach, and apps whose upstream is Weir itself.

use std::net::SocketAddr;

use weir_front::UpstreamAddress;

use super::super::{App, Settings};
use weir_settings::Report;

pub(super) fn check(settings: &Settings, report: &mut Report) {
    let apps = settings.front.apps.iter().enumerate();
    let proxied: Vec<(usize, &App)> = apps.filter(|(_, app)| app.sockets.is_none()).collect();
    for (place, &(index, app)) in proxied.iter().enumerate() {
        if let Some(others) = shadowing_apps(app, &proxied[..place]) {
            let path = format!("front.apps[{index}]");
            let name = &app.settings.name;
            let message = format!(
                "{path}: {name} never receives a request, because {others} above it has the same hosts and paths; change the hosts or paths of one of them"
            );
            report.error_at(&format!("{path}.name"), message);
        }
        for upstream in settings.front.listen.iter().flat_map(|listen| own_addresses(app, *listen))
        {
            let path = format!("front.apps[{index}].upstreams");
            let message = format!(
                "{path}: {upstream} is front.listen itself: each request would loop; use the address of a worker"
            );
            report.error_at(&path, message);
        }
    }
}

/// Returns the names of the earlier apps that together serve all routes of `app`. None: it has a route of its own.
fn shadowing_apps(app: &App, previous: &[(usize, &App)]) -> Option<String> {
    let find_app = |route: &Route| {
        let mut others = previous.iter().map(|(_, other)| *other);
        others.find(|other| routes(other).contains(route))
    };
    let shadowing: Option<Vec<&App>> = routes(app).iter().map(find_app).collect();
    let mut names: Vec<&str> = shadowing?.iter().map(|it| it.settings.name.as_str()).collect();
    names.dedup();
    Some(names.join(", "))
}

/// A host (None: any) and a path, in the form that the front compares.
type Route = (Option<String>, String);

fn routes(app: &App) -> Vec<Route> {
    let listen_ip = &app.settings;
    let hosts: Vec<Option<String>> = match listen_ip.hosts.as_slice() {
        [] => vec![None],
        hosts => hosts.iter().map(|host| Some(host.to_ascii_lowercase())).collect(),
    };
    let paths: Vec<&str> = match listen_ip.paths.as_slice() {
        [] => vec![""],
        paths => paths.iter().map(|path| path.trim_end_matches('/')).collect(),
    };
    let routes_of_host = |host: Option<String>| {
        let paths = paths.iter();
        paths.map(move |path| (host.clone(), (*path).to_owned())).collect::<Vec<_>>()
    };
    hosts.into_iter().flat_map(routes_of_host).collect()
}

/// Returns the upstreams of an app that are the front's own address.
fn own_addresses(app: &App, front: SocketAddr) -> impl Iterator<Item = SocketAddr> {
    app.settings.workers.iter().filter_map(move |upstream| match upstream {
        UpstreamAddress::Tcp(address) if is_listen_address(*address, front) => Some(*address),
        UpstreamAddress::Tcp(_) | UpstreamAddress::Unix(_) => None,
    })
}

fn is_listen_address(address: SocketAddr, listen: SocketAddr) -> bool {
    let (ip, listen_ip) = (address.ip().to_canonical(), listen.ip().to_canonical());
    let is_same = ip == listen_ip
        || (listen_ip.is_unspecified() && (ip.is_loopback() || ip.is_unspecified()));
    is_same && address.port() == listen.port() && listen.port() != 0
}
