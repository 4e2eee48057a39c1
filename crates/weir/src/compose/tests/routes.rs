//! Every route has a role: the routes of a Weir with all parts, compared with the table of rules.

use std::collections::{BTreeMap, BTreeSet};

use axum::Router;
use weir_access::rules::{self, RULES};

use super::*;

const ALL_PARTS: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n[gems]\n\
                         [[realtime.apps]]\nid = \"1\"\nkey = \"demo-key\"\nsecret = { env = \"SECRET\" }\n";

/// Returns the paths of a router with the methods that are not for reading, from its debug output: axum has no other way
/// to list them.
fn routes(router: &Router) -> BTreeMap<String, BTreeSet<&'static str>> {
    let text = format!("{router:?}");
    let text = text.split("fallback_router").next().unwrap_or_default();
    let (mut paths, mut methods) = (BTreeMap::new(), BTreeMap::new());
    for part in text.split("RouteId(").skip(1) {
        let Some((id, rest)) = part.split_once("): ") else { continue };
        if let Some(path) = rest.strip_prefix('"').and_then(|rest| rest.split('"').next()) {
            paths.insert(id, path.to_owned());
        } else if rest.starts_with("MethodRouter") {
            let has = |method: &&str| !rest.contains(&format!(" {method}: None"));
            let changing = ["post", "put", "patch", "delete"].into_iter().filter(has);
            methods.insert(id, changing.collect::<BTreeSet<_>>());
        }
    }
    let named = paths.into_iter().filter(|(_, path)| !path.contains("__private"));
    named.filter_map(|(id, path)| Some((path, methods.remove(id)?))).collect()
}

#[test]
fn every_change_has_a_rule_and_every_rule_a_route() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings_of(folder.path(), ALL_PARTS);
        let ((_, jobs), (_, front), (_, gems)) = (tcp_socket(), tcp_socket(), tcp_socket());
        let inherited = inherit(vec![
            (Part::Jobs.name().to_owned(), jobs),
            (core_socket_name(FRONT, 0), front),
            (core_socket_name(crate::parent::GEMS, 0), gems),
        ]);
        let (mut weir, mut unopened) =
            Weir::prepare(&settings, &[], inherited).await.expect("sound");
        weir.serve(&settings, &mut unopened, || {}).await.expect("started");
        let (pages, _) = weir.open_parts(&settings, unopened).await.expect("opened");
        let (socket, deps) = pages.routes(None).expect("routes");
        let (socket, console) = (routes(&socket), routes(&weir_console::router(deps)));
        assert!(console.contains_key("/queues") && socket.contains_key("/v1/jobs/tasks/{id}/stop"));
        for (path, methods) in &socket {
            assert_eq!(console.get(path), Some(methods), "{path} is the same on both");
        }
        let changes: BTreeSet<&str> = console
            .iter()
            .filter(|(_, methods)| !methods.is_empty())
            .inspect(|(path, methods)| assert_eq!(methods.len(), 1, "{path} {methods:?}"))
            .map(|(path, _)| path.as_str())
            // Before a login there is no role.
            .filter(|path| *path != "/login")
            .collect();
        let known: BTreeSet<&str> = RULES.iter().map(|rule| rule.path).collect();
        let without_rule: Vec<_> = changes.difference(&known).collect();
        assert!(without_rule.is_empty(), "add them to weir-access/src/rules.rs: {without_rule:?}");
        let without_route: Vec<_> = known.difference(&changes).collect();
        assert!(without_route.is_empty(), "no route has these paths: {without_route:?}");
        for path in rules::ADMIN_PAGES {
            assert!(console.contains_key(path), "{path}");
        }
        weir.stop(Duration::ZERO).await.expect("stopped");
    });
}
