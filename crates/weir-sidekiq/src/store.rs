//! Jobs of Weir's job server in Sidekiq's own Redis layout.
//!
//! Sidekiq's clients, processes and pages use the same data at the same time. Weir adds keys of its
//! own behind a prefix, above all the reserved jobs, so that no job is lost with the process that
//! has it.
//!
//! - `keys`: the names of all keys. `scripts`: the atomic steps.
//! - `members`, `stored`, `translate`, `names`, `seconds`, `backtrace`: the texts of jobs.
//! - `link`, `link_state`, `link_connection`: the connection. `permissions`: what a server must allow.
//!   `inspection`: the same for `weir check`.
//! - `cluster_figures`: the nodes of a Redis Cluster. `split`, `transfer`,
//!   `fetch_split`: the steps that differ where each uses the keys of one slot.
//! - `lease`, `owner`, `adopted`: this node's right to its reservations. `nodes`, `known_nodes`: what the
//!   nodes report to each other.
//! - `waiting`, `rounds`, `serve`, `fetch`, `handover`, `undelivered`: from a list to a FETCH.
//! - `features`, `feature_calls`: unique locks, batches and expiry of jobs. `batches`: BATCH.
//! - `limits`, `rate_reading`, `sleeping`: which queues may start jobs now. `type_classes`, `blocked_lists`,
//!   `blocked_names`: the same by the types of jobs.
//! - `push`, `push_call`, `push_memory`, `confirm`, `confirmed_pushes`, `confirm_command`: how a
//!   push becomes durable, and is stored once.
//! - `ack`, `fail`, `vanish`, `act`, `change_queue`, `moves`, `move_run`, `queues`: the other operations.
//! - `entries`, `scan`, `merged_pages`, `listed`, `find`, `overview`, `foreign`: what operators see.
//! - `schedule`, `reap`, `prune`, `tasks`: what happens by itself. `crons`, `cron_scripts`: the times
//!   of cron jobs. `tracks`, `track_notes`: the progress of tracked jobs.
//! - `queue_names`: names of queues, as many as are read at most.
//! - `presence`, `statistics`, `class_metrics`, `class_metrics_flush`, `metrics_layout`,
//!   `live_versions`: what Sidekiq's pages show about this node.
//! - `server_figures`, `server_info`, `memory_reading`, `command_kinds`: what Redis reports of itself.
//! - `sidekiq_processes`: the queues that Sidekiq's own processes fetch.
//! - `sharded`: a store over several of these.
//!
//! Promise: a payload that no worker could run stops nothing and is never dropped. It goes to the
//! dead set, byte for byte. Every step checks in Redis that a job is still where it was read, so
//! nodes need no agreement.

mod ack;
mod act;
mod adopted;
mod backtrace;
mod batches;
mod beats;
mod blocked_lists;
mod blocked_names;
mod change_queue;
mod class_metrics;
mod class_metrics_flush;
mod cluster_figures;
mod command_kinds;
mod confirm;
mod confirm_command;
mod confirm_settings;
mod confirmed_pushes;
mod cron_scripts;
mod crons;
mod entries;
mod fail;
mod feature_calls;
mod features;
mod fetch;
mod fetch_split;
mod find;
mod foreign;
mod handover;
mod inspection;
mod keys;
mod lease;
mod limits;
mod link;
mod link_connection;
mod link_state;
mod listed;
mod live_versions;
mod members;
mod memory_reading;
mod merged_pages;
mod metrics_layout;
mod move_run;
mod moves;
mod names;
mod nodes;
mod operations;
mod overview;
mod owner;
mod page_end;
#[doc(hidden)]
pub mod parsing;
mod permissions;
mod presence;
mod prune;
mod push;
mod push_call;
mod push_memory;
mod queue_names;
mod queues;
mod rate_reading;
mod reap;
mod repeated;
mod replies;
mod reservations;
mod returned;
mod rounds;
mod sample;
mod scan;
mod schedule;
mod scripts;
mod seconds;
mod serve;
mod server_figures;
mod server_info;
mod settings;
mod settlement;
mod sharded;
mod sidekiq_processes;
mod sleeping;
mod split;
mod statistics;
mod store_core;
mod stored;
mod tasks;
mod track_notes;
mod tracks;
mod transfer;
mod translate;
mod type_classes;
mod type_runs;
mod undelivered;
mod undelivered_job;
mod unsupported;
mod vanish;
mod waiting;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use tokio::task::JoinHandle;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::allocation::Allocation;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::settings::JobServerSettings;
use weir_jobs::store::StoreError;
use weir_redis::RedisEndpoint;

pub use self::confirm_settings::ConfirmSettings;
use self::confirmed_pushes::ConfirmedPushes;
pub use self::inspection::{
    NO_RESOURCES_IN_CLUSTER, ServerCheck, acl_line, check_server, cluster_acl_words,
    unchecked_server,
};
use self::keys::StoreKeys;
use self::link::RedisLink;
pub use self::metrics_layout::ClassMetricsLayout;
use self::rounds::Rounds;
pub use self::settings::RedisStoreSettings;
pub use self::sharded::{
    PushPlacement, SHARDS_MAX, ShardOptions, ShardedStore, ShardedStoreOptions,
};
use self::store_core::{StoreCore, StoreState};
use self::track_notes::TrackNotes;
pub use self::unsupported::{NO_BATCHES_OF_JOBS, NO_UNIQUE_JOBS};

/// How the store reaches and uses one Redis.
#[derive(Clone, Debug)]
pub struct RedisStoreOptions {
    /// The Redis.
    pub endpoint: RedisEndpoint,
    /// The file with this node's name, which is made if it is missing.
    pub node_file: PathBuf,
    pub settings: RedisStoreSettings,
}

/// A store in Redis. It connects with its first operation, and again whenever the connection breaks.
#[derive(Debug)]
pub struct RedisStore {
    core: Rc<StoreCore>,
    tasks: Vec<JoinHandle<()>>,
}

impl RedisStore {
    /// Opens the store. Must be called in a `LocalSet`.
    ///
    /// # Errors
    /// Returns an error if the node's name can be neither read nor written.
    pub fn open(
        options: &RedisStoreOptions,
        settings: &JobServerSettings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> std::io::Result<Self> {
        let allocation = Allocation::of_settings(settings);
        let core = Rc::new(StoreCore {
            link: RedisLink::of_store(&options.endpoint, &options.settings)
                .with_command_limit(settings.limits.store_commands_max, metrics.clone()),
            keys: StoreKeys::new(&options.settings.namespace, &options.settings.prefix),
            scripts: Default::default(),
            crons: Default::default(),
            tracks: Default::default(),
            push_memory: options.settings.push_memory(settings.limits.push_memory_jobs_max),
            confirmed: ConfirmedPushes::new(
                &options.endpoint,
                &options.settings,
                settings.limits.unconfirmed_jobs_max,
            ),
            limits: settings.limits.clone(),
            measured: metrics.store(&options.endpoint.to_string(), 1),
            class_metrics_layout: options.settings.class_metrics,
            metrics,
            lease: options.settings.lease,
            node: weir_base::node::node_name(&options.node_file)?,
            owner: RefCell::default(),
            registering: Default::default(),
            state: RefCell::new(StoreState {
                allocation,
                tracks: TrackNotes::new(&clock),
                ..StoreState::default()
            }),
            clock,
            waiting: Rc::default(),
            rounds: Rounds::new(options.settings.ask_alone_from),
            returning: Default::default(),
            work_arrived: Rc::default(),
            wait_began: Rc::default(),
            sleep_began: Rc::default(),
            closed: Cell::new(false),
            is_shard: Cell::new(false),
            foreign_search_from: Cell::new(None),
            last_counts: RefCell::default(),
            page_end: RefCell::default(),
            memory: RefCell::default(),
            sidekiq_queues: RefCell::default(),
            counted_at: Cell::new(Timestamp::default()),
        });
        let tasks = tasks::spawn(&core, &options.settings);
        Ok(Self { core, tasks })
    }

    /// Returns how many payloads were no jobs and went to the dead set, since the start.
    #[must_use]
    pub fn malformed_payloads(&self) -> u64 {
        self.core.state.borrow().malformed
    }

    /// Does everything that is due by the clock. The store's tasks do so by themselves; tests call
    /// it after they move a manual clock.
    ///
    /// # Errors
    /// Returns an error if Redis is away.
    pub async fn tick(&self) -> Result<(), StoreError> {
        self.core.run_due().await
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
