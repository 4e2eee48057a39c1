//! Alert rules for Prometheus.

use super::mirror::{configure_hook, mirror_site};
use super::{GEMS, site};
use crate::alert_rules::assert_metrics_exist;
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
    assert_metrics_exist(rules, "weir_gems_", 7, &metrics);
}
