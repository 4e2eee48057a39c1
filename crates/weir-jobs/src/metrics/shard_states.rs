//! The servers among which the jobs are divided. Settings limit their number.

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::store::shard_state::ShardState;

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    shards: &[ShardState],
) -> Result<(), Error> {
    // A store that is not divided has none of these series.
    if shards.is_empty() {
        return Ok(());
    }
    type Value = fn(&ShardState) -> u64;
    let gauges: [(&str, &str, Value); 3] = [
        ("shard_up", "Whether the shard of the job store can be used (1) or not (0)", |shard| {
            u64::from(shard.away_since.is_none())
        }),
        (
            "shard_draining",
            "Whether the shard gets no more jobs (1), so that it can be removed",
            |shard| u64::from(shard.drains),
        ),
        ("shard_memory_bytes", "Memory that the shard uses, when last read", |shard| {
            shard.memory_bytes
        }),
    ];
    for (name, help, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for shard in shards {
            let label = [("shard", shard.name.as_str())];
            ConstGauge::new(value(shard)).encode(family.encode_family(&label)?)?;
        }
    }
    let help = "Jobs on the shard by state, when last read";
    let mut family = encoder.encode_descriptor("shard_jobs", help, None, MetricType::Gauge)?;
    for shard in shards {
        for (state, jobs) in [
            ("enqueued", shard.enqueued),
            ("working", shard.reserved),
            ("scheduled", shard.scheduled),
            ("retries", shard.retries),
            ("dead", shard.dead),
        ] {
            let labels = [("shard", shard.name.as_str()), ("state", state)];
            ConstGauge::new(jobs).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
