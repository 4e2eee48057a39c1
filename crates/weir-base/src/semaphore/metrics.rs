//! Metrics of semaphores, read at each scrape, so that permits do not get more expensive.

use std::collections::HashSet;
use std::fmt::Error;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Semaphore;

/// Registers `semaphore_in_use`, `semaphore_limit` (both in permits) and `semaphore_refused_total`
/// under the registry's prefix, with the label `semaphore` for the name.
///
/// Call it once per registry with all semaphores of the service. The list is fixed in the program,
/// so the label's values are limited.
///
/// # Panics
/// If two have the same name: their metrics would be indistinguishable.
pub fn register(registry: &mut Registry, semaphores: Vec<Arc<Semaphore>>) {
    let names: HashSet<&str> = semaphores.iter().map(|semaphore| semaphore.name()).collect();
    assert_eq!(names.len(), semaphores.len(), "semaphores have different names");
    registry.register_collector(Box::new(SemaphoreCollector(semaphores)));
}

#[derive(Debug)]
struct SemaphoreCollector(Vec<Arc<Semaphore>>);

impl Collector for SemaphoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        type Value = fn(&Semaphore) -> u32;
        let gauges: [(&str, &str, Value); 2] = [
            ("semaphore_in_use", "Permits in use", |semaphore| semaphore.usage().in_use),
            ("semaphore_limit", "Limit of permits", |semaphore| semaphore.usage().limit),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for semaphore in &self.0 {
                let label = [("semaphore", semaphore.name())];
                ConstGauge::new(value(semaphore)).encode(family.encode_family(&label)?)?;
            }
        }
        let help = "Requests for a permit that were rejected because all were in use";
        let mut family =
            encoder.encode_descriptor("semaphore_refused", help, None, MetricType::Counter)?;
        for semaphore in &self.0 {
            let label = [("semaphore", semaphore.name())];
            let refused = ConstCounter::new(semaphore.refused_total());
            refused.encode(family.encode_family(&label)?)?;
        }
        Ok(())
    }
}
