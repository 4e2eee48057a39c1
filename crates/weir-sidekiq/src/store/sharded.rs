//! A store over several Redis servers that do not know each other, as Sidekiq's users run them.
//!
//! Each shard is a whole store of its own: reservations, leases, statistics and the pages of Sidekiq
//! show what happens on it. A job stays on the shard that it was pushed to.
//!
//! - `shard`: one server, and whether it can be used. `tasks`: probes, polls, drains.
//! - `placement`, `push`: which shard gets a pushed job.
//! - `readings`, `plan`, `held`, `serve`: which shard serves a FETCH.
//! - `ends`: ACK, FAIL and what else concerns a reservation.
//! - `tracks`: the progress of tracked jobs, each on the shard of its job.
//! - `operators`, `scan`, `overview`: what operators do and see. `evacuate`: empties the sets of a
//!   shard that drains.
//!
//! Promise: a shard that can't be used delays no other for longer than one command may take, and an
//! answer without it says so.

mod ends;
mod evacuate;
mod held;
mod operations;
mod operators;
mod overview;
mod placement;
mod plan;
mod push;
mod readings;
mod sample;
mod scan;
mod serve;
mod shard;
mod sharded_core;
mod tasks;
mod tracks;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use tokio::task::JoinHandle;
use weir_base::clock::Clock;
use weir_jobs::allocation::Allocation;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::settings::JobServerSettings;
use weir_jobs::store::StoreError;

use self::placement::Placement;
pub use self::placement::{PushPlacement, SHARDS_MAX};
use self::shard::Shard;
pub use self::shard::ShardOptions;
use self::sharded_core::ShardedCore;
use super::{RedisStore, RedisStoreOptions, RedisStoreSettings};

/// How the store reaches and uses several Redis servers.
#[derive(Clone, Debug)]
pub struct ShardedStoreOptions {
    /// The servers: from 1 to [`SHARDS_MAX`], with different names.
    pub shards: Vec<ShardOptions>,
    /// The file with this node's name, which is made if it is missing.
    pub node_file: PathBuf,
    pub settings: RedisStoreSettings,
}

/// A store in several Redis servers.
#[derive(Debug)]
pub struct ShardedStore {
    core: Rc<ShardedCore>,
    tasks: Vec<JoinHandle<()>>,
}

impl ShardedStore {
    /// Opens the store. Must be called in a `LocalSet`.
    ///
    /// # Errors
    /// Returns an error if the node's name can be neither read nor written.
    ///
    /// # Panics
    /// Panics if there is no shard, or more than [`SHARDS_MAX`].
    pub fn open(
        options: &ShardedStoreOptions,
        settings: &JobServerSettings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> std::io::Result<Self> {
        assert!((1..=SHARDS_MAX).contains(&options.shards.len()), "settings limit the shards");
        let open = |shard: &ShardOptions| {
            let options = RedisStoreOptions {
                endpoint: shard.endpoint.clone(),
                node_file: options.node_file.clone(),
                settings: options.settings.clone(),
            };
            let store = RedisStore::open(&options, settings, clock.clone(), metrics.clone())?;
            store.core.is_shard.set(true);
            Ok(Shard::new(shard, store, clock.clone()))
        };
        let shards: Vec<Shard> = options.shards.iter().map(open).collect::<std::io::Result<_>>()?;
        let names = options.shards.iter().map(|shard| shard.name.as_str());
        let core = Rc::new(ShardedCore {
            placement: Placement::new(options.settings.placement, names),
            shards,
            limits: settings.limits.clone(),
            metrics,
            clock,
            line: Rc::default(),
            rounds: Default::default(),
            work_arrived: Rc::default(),
            allocation: RefCell::new(Allocation::of_settings(settings)),
            dispatcher: RefCell::default(),
            rotation: Cell::new(0),
            closed: Cell::new(false),
        });
        let tasks = tasks::spawn(&core, &options.settings);
        Ok(Self { core, tasks })
    }

    /// Does everything that is due by the clock. The store's tasks do so by themselves; tests call
    /// it after they move a manual clock.
    ///
    /// # Errors
    /// Returns an error if no shard can be used.
    pub async fn tick(&self) -> Result<(), StoreError> {
        self.core.run_due().await
    }
}

impl Drop for ShardedStore {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
