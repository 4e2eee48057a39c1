//! Metrics of the process, read from `/proc/self` at each scrape: CPU, memory, open files, start
//! time. Their names are those of Prometheus's client libraries.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use weir_base::clock::Clock;

/// Collects the metrics.
#[derive(Debug)]
pub struct ProcessMetrics {
    started_seconds: f64,
}

impl ProcessMetrics {
    pub fn new(clock: &Clock) -> Self {
        Self { started_seconds: clock.now().as_secs_f64() }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let cpu = ConstCounter::new(cpu_seconds().unwrap_or(f64::NAN));
        let descriptor = encoder.encode_descriptor(
            "process_cpu",
            "User and system CPU time",
            Some(&Unit::Seconds),
            cpu.metric_type(),
        )?;
        cpu.encode(descriptor)?;
        let gauges = [
            ("process_resident_memory", "Resident memory", Some(Unit::Bytes), resident_bytes()),
            ("process_open_fds", "Open file descriptors", None, open_descriptors()),
            (
                "process_start_time",
                "Start time, in seconds since the epoch",
                Some(Unit::Seconds),
                Some(self.started_seconds),
            ),
        ];
        for (name, help, unit, value) in gauges {
            let gauge = ConstGauge::new(value.unwrap_or(f64::NAN));
            let descriptor =
                encoder.encode_descriptor(name, help, unit.as_ref(), gauge.metric_type())?;
            gauge.encode(descriptor)?;
        }
        Ok(())
    }
}

/// Reads fields 14 and 15 of proc(5)'s stat, counted after the name, which may contain spaces.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    Some((f64::from(user) + f64::from(system)) / f64::from(per_second))
}

/// Reads the second field of statm, in pages.
fn resident_bytes() -> Option<f64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u32 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let page_bytes = u32::try_from(rustix::param::page_size()).ok()?;
    Some(f64::from(pages) * f64::from(page_bytes))
}

fn open_descriptors() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(count).ok().map(f64::from)
}
