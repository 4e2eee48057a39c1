//! Events to all subscribers of a channel.

use anyhow::Result;

use super::scenario::Bench;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<()> {
    bench.connect_clients()?;
    bench.run.load = Some(bench.publish_for(bench.settings.duration)?);
    Ok(())
}
