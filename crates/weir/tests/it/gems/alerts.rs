//! Alert rules for Prometheus.

use super::mirror::{configure_hook, mirror_site};
use super::{GEMS, site};
use crate::http::get;

#[test]
fn gem_alert_rules_use_existing_metrics() {
    let rules = include_str!("../../../../../deploy/prometheus/weir-gems.rules.yml");
    let mut upstream = site(GEMS).start();
    let mirror = mirror_site(upstream.gems(), "none\n").start();
    configure_hook(&mut upstream, &mirror);
    assert_eq!(get(upstream.gems(), "/names", "").0, "HTTP/1.1 200 OK");
    let metrics =
        get(upstream.console(), "/metrics", "").1 + &get(mirror.console(), "/metrics", "").1;
    let selectors = crate::front::selectors(rules, "weir_gems_");
    assert!(selectors.len() >= 7, "{selectors:?}");
    for (name, labels) in selectors {
        let is_it = |line: &str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        };
        assert!(metrics.lines().any(is_it), "{name} {labels:?} is missing:\n{metrics}");
    }
}
