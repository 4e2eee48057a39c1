//! The nodes that share the store, counted. Their names are not labels: they come and go.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use weir_base::node::NodeCondition;

use crate::node::NodeState;

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    nodes: &[NodeState],
) -> Result<(), Error> {
    // A store that is not shared has no such series.
    if nodes.is_empty() {
        return Ok(());
    }
    let help = "Nodes that share the job store, as this node sees them: up, away (no report for 35 s, \
                or its parent process ended) \
                or stopped in order; those without a report for an hour are left out";
    let mut family = encoder.encode_descriptor("nodes", help, None, MetricType::Gauge)?;
    for condition in NodeCondition::ALL {
        let count = nodes.iter().filter(|node| node.condition() == condition).count() as u64;
        let label = [("state", condition.label())];
        ConstGauge::new(count).encode(family.encode_family(&label)?)?;
    }
    Ok(())
}
