//! Encodes the measurements of all shards for a scrape.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use weir_base::clock::Timestamp;

use super::Shards;
use super::operation::{CommandKind, StoreOperation};
use super::store::{StoreSample, StoreServerFigures};

/// Encodes the measurements of all shards.
#[derive(Debug)]
pub(super) struct StoreCollector(pub(super) Shards);

type NamedSample = (String, StoreSample);
type NamedServer = (String, StoreServerFigures);

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let read = |shard: &super::StoreMetrics| {
            (shard.shard().to_owned(), shard.read(Timestamp::default()))
        };
        let shards = self.0.all();
        let samples: Vec<NamedSample> = shards.iter().map(read).collect();
        encode_operations(&mut encoder, &samples)?;
        let servers: Vec<NamedServer> =
            shards.iter().flat_map(super::StoreMetrics::servers).collect();
        if servers.is_empty() {
            return Ok(());
        }
        encode_servers(&mut encoder, &servers)?;
        encode_commands(&mut encoder, &servers)
    }
}

fn encode_operations(
    encoder: &mut DescriptorEncoder<'_>,
    samples: &[NamedSample],
) -> Result<(), Error> {
    let help = "Duration of an operation of the store, without the wait for a job; the embedded \
                store times one of eight";
    let mut family =
        encoder.encode_descriptor("store_seconds", help, None, MetricType::Histogram)?;
    for (shard, sample) in samples {
        for operation in StoreOperation::ALL {
            let latency = &sample.latencies[operation as usize];
            let label = [("shard", shard.as_str()), ("operation", operation.label())];
            let (sum, count) = (latency.seconds(), latency.count());
            let mut metric = family.encode_family(&label)?;
            metric.encode_histogram::<NoLabelSet>(sum, count, &latency.buckets(), None)?;
        }
    }
    let help = "Operations of the store that began";
    let mut family =
        encoder.encode_descriptor("store_operations", help, None, MetricType::Counter)?;
    for (shard, sample) in samples {
        for operation in StoreOperation::ALL {
            let label = [("shard", shard.as_str()), ("operation", operation.label())];
            let total = ConstCounter::new(sample.totals[operation as usize]);
            total.encode(family.encode_family(&label)?)?;
        }
    }
    let help = "Payloads in Redis that no worker could run, moved to the dead set";
    let mut family =
        encoder.encode_descriptor("store_malformed_payloads", help, None, MetricType::Counter)?;
    for (shard, sample) in samples {
        let label = [("shard", shard.as_str())];
        ConstCounter::new(sample.malformed).encode(family.encode_family(&label)?)?;
    }
    Ok(())
}

fn encode_servers(
    encoder: &mut DescriptorEncoder<'_>,
    servers: &[NamedServer],
) -> Result<(), Error> {
    type Value = fn(&StoreServerFigures) -> u64;
    let gauges: [(&str, &str, Value); 2] = [
        ("store_memory_bytes", "Memory that the Redis of the jobs uses", |it| it.memory_bytes),
        ("store_memory_max_bytes", "Its maxmemory; 0: no limit", |it| it.memory_bytes_max),
    ];
    for (name, help, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (shard, server) in servers {
            let label = [("shard", shard.as_str())];
            ConstGauge::new(value(server)).encode(family.encode_family(&label)?)?;
        }
    }
    let help = "CPU time of the Redis of the jobs";
    let mut family =
        encoder.encode_descriptor("store_cpu_seconds", help, None, MetricType::Counter)?;
    for (shard, server) in servers {
        let label = [("shard", shard.as_str())];
        ConstCounter::new(server.cpu_seconds).encode(family.encode_family(&label)?)?;
    }
    Ok(())
}

fn encode_commands(
    encoder: &mut DescriptorEncoder<'_>,
    servers: &[NamedServer],
) -> Result<(), Error> {
    let help = "Commands that the Redis of the jobs has run, for all its clients; those in a \
                script count as well";
    let mut family =
        encoder.encode_descriptor("store_commands", help, None, MetricType::Counter)?;
    for (shard, server) in servers {
        for kind in CommandKind::ALL {
            let label = [("shard", shard.as_str()), ("kind", kind.label())];
            ConstCounter::new(server.of_kind(kind).0).encode(family.encode_family(&label)?)?;
        }
    }
    let help = "Time that these commands took; that of a script includes its commands";
    let mut family =
        encoder.encode_descriptor("store_command_seconds", help, None, MetricType::Counter)?;
    for (shard, server) in servers {
        for kind in CommandKind::ALL {
            let label = [("shard", shard.as_str()), ("kind", kind.label())];
            let seconds = server.of_kind(kind).1.as_secs_f64();
            ConstCounter::new(seconds).encode(family.encode_family(&label)?)?;
        }
    }
    Ok(())
}
