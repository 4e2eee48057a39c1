//! Alert rules for Prometheus.

use super::mirror::{site_mirroring, tell};
use super::{GEMS, site};
use crate::http::get;

#[test]
fn alert_rules_about_gems_are_about_metrics_that_there_are() {
    let rules = include_str!("../../../../../deploy/prometheus/weir-gems.rules.yml");
    let mut upstream = site(GEMS).start();
    let mirror = site_mirroring(upstream.gems(), "none\n").start();
    tell(&mut upstream, &mirror);
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
