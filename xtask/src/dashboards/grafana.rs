//! What all dashboards have in common.

use serde_json::{Value, json};

/// Grafana's grid is 24 wide: two panels beside each other.
pub(super) const PANEL_WIDTH: usize = 12;
pub(super) const PANEL_HEIGHT: usize = 8;

pub(super) fn datasource_json() -> Value {
    json!({ "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus" })
}

pub(super) fn source_variable() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}
