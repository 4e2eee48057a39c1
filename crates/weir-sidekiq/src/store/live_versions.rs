//! Which versions of Sidekiq run, and so which layouts of metrics are written.

use std::time::Duration;

use super::link_connection::LinkConnection;
use redis::{Pipeline, Value, from_redis_value};
use tokio::time::Instant;
use weir_jobs::store::StoreError;

use super::metrics_layout::{ClassMetricsLayout, Layouts, LayoutsRead};
use super::store_core::StoreCore;
use crate::heartbeat::HeartbeatInfo;

/// The versions of the processes are read again after this long.
const READ_AGAIN: Duration = Duration::from_secs(60);
/// Processes whose versions are read. Of more, others are read the next time.
const PROCESSES_MAX: usize = 1_000;

impl StoreCore {
    /// Returns the layouts to write.
    pub(super) async fn class_metrics_layouts(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<Layouts, StoreError> {
        match self.class_metrics_layout {
            ClassMetricsLayout::Off => return Ok(Layouts::NONE),
            ClassMetricsLayout::Sidekiq7 => return Ok(Layouts::SIDEKIQ7),
            ClassMetricsLayout::Sidekiq8 => return Ok(Layouts::SIDEKIQ8),
            ClassMetricsLayout::Auto => {}
        }
        let last = self.state.borrow().layouts;
        if let Some(last) = last.filter(|last| last.at.elapsed() < READ_AGAIN) {
            return Ok(last.layouts);
        }
        let versions = self.versions_of_processes(connection).await?;
        let seen = Layouts::of_versions(versions.iter().map(String::as_str));
        let layouts = seen.or(last.map(|last| last.layouts)).unwrap_or(Layouts::SIDEKIQ7);
        self.state.borrow_mut().layouts = Some(LayoutsRead { at: Instant::now(), layouts });
        Ok(layouts)
    }

    /// Returns the versions of the processes that live. Weir's workers have none.
    async fn versions_of_processes(
        &self,
        connection: &mut LinkConnection,
    ) -> Result<Vec<String>, StoreError> {
        let mut members = redis::cmd("SRANDMEMBER");
        let members = members.arg(self.keys.processes()).arg(PROCESSES_MAX);
        let identities = members.query_async(connection).await;
        let identities: Vec<String> = identities.map_err(|error| self.link.failed(&error))?;
        if identities.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors();
        for identity in &identities {
            pipeline.hget(self.keys.process(identity), "info");
        }
        let infos = pipeline.query_async(connection).await;
        let infos: Vec<Value> = infos.map_err(|error| self.link.failed(&error))?;
        let version = |info| {
            let info: Option<Vec<u8>> = from_redis_value(info).ok().flatten();
            HeartbeatInfo::parse(&info?)?.version
        };
        Ok(infos.into_iter().filter_map(version).collect())
    }
}
