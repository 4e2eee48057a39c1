//! Finds the app that serves a request, by host and path.

use std::sync::Arc;

use crate::app::ProxiedApp;
use crate::paths::is_below;

/// The routes of all apps.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// The most specific first: routes with a host before those without, longer paths before
    /// shorter ones.
    routes: Vec<AppRoute>,
}

#[derive(Debug)]
struct AppRoute {
    /// None: any host.
    host: Option<String>,
    /// Without a trailing slash.
    path: String,
    app: Arc<ProxiedApp>,
}

impl Routes {
    /// Adds the routes of an app; `hosts` and `paths` as in [`crate::settings::AppSettings`].
    pub(crate) fn add(&mut self, hosts: &[String], paths: &[String], app: &Arc<ProxiedApp>) {
        let any_host = [None];
        let hosts: Vec<Option<String>> = match hosts {
            [] => any_host.to_vec(),
            hosts => hosts.iter().cloned().map(Some).collect(),
        };
        let any_path = [String::new()];
        let paths = if paths.is_empty() { &any_path[..] } else { paths };
        for host in &hosts {
            for path in paths {
                let path = path.trim_end_matches('/').to_owned();
                self.routes.push(AppRoute { host: host.clone(), path, app: Arc::clone(app) });
            }
        }
        self.routes.sort_by_key(|route| (route.host.is_none(), usize::MAX - route.path.len()));
    }

    /// Returns the app for a path. `host`: as the client sent it, with its port.
    pub(crate) fn find(&self, host: &[u8], path: &str) -> Option<&Arc<ProxiedApp>> {
        // Routes with a host are first. If there are none, the host does not matter.
        let has_hosts = self.routes.first().is_some_and(|route| route.host.is_some());
        let host = if has_hosts { without_port(host) } else { host };
        let route = self.routes.iter().find(|route| route.matches(host, path))?;
        Some(&route.app)
    }
}

impl AppRoute {
    fn matches(&self, host: &[u8], path: &str) -> bool {
        let required = self.host.as_ref().map(String::as_bytes);
        let is_host = required.is_none_or(|required| required.eq_ignore_ascii_case(host));
        is_host && is_below(path, &self.path)
    }
}

fn without_port(host: &[u8]) -> &[u8] {
    let end = match host.iter().rposition(|byte| *byte == b':') {
        // In `[::1]` the last colon is within the address.
        Some(colon) if !host[colon..].contains(&b']') => colon,
        _ => host.len(),
    };
    // A name may end with the root's dot (RFC 3986, section 3.2.2).
    let mut name = &host[..end];
    while let [rest @ .., b'.'] = name {
        name = rest;
    }
    name
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use weir_base::clock::Clock;

    use super::*;
    use crate::metrics::FrontMetrics;
    use crate::settings::AppSettings;

    fn routes(apps: &[(&str, &[&str], &[&str])]) -> Routes {
        let metrics = FrontMetrics::register(&mut Registry::default());
        let mut routes = Routes::default();
        for (name, hosts, paths) in apps {
            let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
            let (hosts, paths) = (owned(hosts), owned(paths));
            let settings = AppSettings { hosts, paths, ..AppSettings::new(*name) };
            let (hosts, paths) = (settings.hosts.clone(), settings.paths.clone());
            let app = ProxiedApp::new(settings, Clock::system(), metrics.for_app(name));
            routes.add(&hosts, &paths, &app);
        }
        routes
    }

    #[test]
    fn the_most_specific_route_wins() {
        let routes = routes(&[
            ("rest", &[], &[]),
            ("shop", &["shop.example"], &[]),
            ("cart", &["shop.example"], &["/cart/", "/basket"]),
            ("api", &[], &["/api"]),
        ]);
        let find =
            |host: &str, path| routes.find(host.as_bytes(), path).map(|app| app.name.as_str());
        assert_eq!(find("other.example", "/"), Some("rest"));
        assert_eq!(find("Shop.Example:8080", "/x"), Some("shop"));
        assert_eq!(find("shop.example.", "/cart"), Some("cart"));
        assert_eq!(find("shop.example", "/basket/1"), Some("cart"));
        assert_eq!(find("shop.example", "/cartoon"), Some("shop"));
        assert_eq!(find("shop.example", "/api/x"), Some("shop"), "a host is more than a path");
        assert_eq!(find("[::1]:80", "/api/x"), Some("api"));
        assert_eq!(find("", "*"), Some("rest"));
    }

    #[test]
    fn a_request_without_a_matching_route_has_no_app() {
        let routes = routes(&[("shop", &["shop.example"], &["/shop"])]);
        assert!(routes.find(b"other.example", "/shop").is_none());
        assert!(routes.find(b"shop.example", "/").is_none());
        assert!(routes.find(b"shop.example", "*").is_none());
    }
}
