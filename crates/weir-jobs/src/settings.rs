//! What an operator can set about jobs, with the defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use weir_base::secret::Secret;

use crate::model::QueueName;

/// Where jobs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// The segment log under `data_dir`: acknowledged means durable.
    #[default]
    Embedded,
    /// Nothing survives the process: for tests and development.
    Memory,
}

/// When an acknowledged record is on the disk itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fsync {
    /// Before the reply: survives a power cut.
    #[default]
    Always,
    /// Within a second; in the page cache before the reply: survives `kill -9`, not a power cut.
    EverySecond,
    /// When the system likes; in the page cache before the reply.
    Never,
}

/// Settings of the job server. Field names are the names in `weir.toml` under `[jobs]`.
#[derive(Clone, Debug)]
pub struct Settings {
    pub store: StoreKind,
    /// Folder of the segment log; made when missing.
    pub directory: PathBuf,
    pub fsync: Fsync,
    /// ACK is on disk before its reply (with `fsync = "always"`); otherwise within `ack_sync_max`.
    pub fsync_acks: bool,
    /// An ACK that waits for nobody else's sync is synced after this long.
    pub ack_sync_max: Duration,
    /// How long a sync waits for more records to join it.
    pub gather_wait: Duration,
    /// Any client may FLUSH: only for development.
    pub allow_flush: bool,
    /// What clients prove in HELLO; none: everybody may connect.
    pub password: Option<Secret>,
    pub limits: Limits,
    /// Per-queue settings; a queue without an entry gets the defaults.
    pub queues: BTreeMap<QueueName, QueueSettings>,
}

/// What a queue may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// A wait above this counts as late: for people, and for `fresh_lane`. None: no target.
    pub target_latency: Option<Duration>,
    /// At most this many jobs of the queue run at once, over all workers.
    pub concurrency: Option<u32>,
    /// Past its target latency: newest first, and the oldest with every fifth fetch.
    pub fresh_lane: bool,
}

/// Every limit of the job server. Each has a metric `weir_jobs_limit_hits_total{limit="NAME"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; one more gets `-ERR too many connections`.
    pub connections_max: usize,
    /// Bytes of one command line, job included.
    pub line_bytes_max: usize,
    /// Bytes of half-read lines and unread replies, over all connections.
    pub buffered_bytes_max: usize,
    /// Open files of the process that connections may not take: the log and the console need them.
    pub descriptors_reserved: usize,
    /// Connections over `connections_max` that are told so in the protocol's way (after HELLO);
    /// more are told at once.
    pub refusals_max: usize,
    /// Bytes of the HELLO line, which anybody may send.
    pub hello_bytes_max: usize,
    /// Wrong passwords a minute from one address that are answered at once; after that every
    /// password from there, right or wrong, waits `wrong_password_delay`.
    pub wrong_passwords_max: u32,
    /// How long a password from an address over `wrong_passwords_max` waits for its check.
    pub wrong_password_delay: Duration,
    /// Passwords that wait for their check at once, over all addresses; more are refused.
    pub password_checks_max: usize,
    /// Worker processes known at once.
    pub workers_max: usize,
    /// Labels kept of one worker.
    pub worker_labels_max: usize,
    /// Queues kept, of those that one worker asks for, to be shown.
    pub worker_queues_max: usize,
    /// Jobs in one PUSHB.
    pub pushb_jobs_max: usize,
    /// FETCHes that wait at once.
    pub waiting_fetches_max: usize,
    /// Queues named in one FETCH.
    pub fetch_queues_max: usize,
    /// Queues that exist at once.
    pub queues_max: usize,
    /// Bytes of a queue's name.
    pub queue_name_bytes_max: usize,
    /// Bytes of a jid, a wid, a jobtype.
    pub id_bytes_max: usize,
    /// How deep the JSON of a job may nest.
    pub json_depth_max: usize,
    /// Jobs in the dead set; the oldest go first.
    pub dead_jobs_max: usize,
    /// A dead job is forgotten after this long (the protocol's 180 days).
    pub dead_age_max: Duration,
    /// HELLO must arrive within this long.
    pub hello_timeout: Duration,
    /// A line that has begun must be complete within this long.
    pub line_timeout: Duration,
    /// How long a connection that is closed with an error is still read, so that the error arrives.
    pub linger_timeout: Duration,
    /// A FETCH waits this long for work before it answers null.
    pub fetch_wait: Duration,
    /// A client that doesn't read its replies is cut off after this long.
    pub write_timeout: Duration,
    /// A worker that doesn't BEAT for this long is gone.
    pub heartbeat_timeout: Duration,
    /// A job handed back this often because its worker vanished counts as failed.
    pub returns_max: u8,
    /// Bytes of one log segment.
    pub segment_bytes: u32,
    /// Room that pushes may not use, kept for ACK and FAIL on a full disk.
    pub reserve_bytes: u32,
    /// Bytes of damaged records that are set aside until an operator has acknowledged them, and as
    /// many that were acknowledged last.
    pub set_aside_bytes_max: u32,
    /// Bytes of jobs in the store `memory`; the embedded store is limited by its disk.
    pub memory_bytes_max: usize,
    /// Requests of the console, the admin API and the command line that run or wait at once.
    pub admin_requests_max: usize,
    /// Jobs in one page of a list.
    pub page_jobs_max: usize,
    /// Jobs that a search or MUTATE looks at before it lets others run.
    pub scan_jobs_max: usize,
    /// Queues with metrics of their own; the rest share `queue="other"`.
    pub metrics_queues_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: StoreKind::Embedded,
            directory: PathBuf::from("data/jobs"),
            fsync: Fsync::Always,
            fsync_acks: false,
            ack_sync_max: Duration::from_millis(10),
            gather_wait: Duration::ZERO,
            allow_flush: false,
            password: None,
            limits: Limits::default(),
            queues: BTreeMap::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        const DAY: u64 = 24 * 60 * 60;
        Self {
            connections_max: 10_000,
            line_bytes_max: 16 << 20,
            buffered_bytes_max: 256 << 20,
            descriptors_reserved: 256,
            refusals_max: 100,
            hello_bytes_max: 16 << 10,
            wrong_passwords_max: 10,
            wrong_password_delay: Duration::from_secs(1),
            password_checks_max: 100,
            workers_max: 10_000,
            worker_labels_max: 64,
            worker_queues_max: 64,
            pushb_jobs_max: 10_000,
            waiting_fetches_max: 10_000,
            fetch_queues_max: 1_000,
            queues_max: 10_000,
            queue_name_bytes_max: 255,
            id_bytes_max: 255,
            json_depth_max: 128,
            dead_jobs_max: 1_000_000,
            dead_age_max: Duration::from_secs(180 * DAY),
            hello_timeout: Duration::from_secs(2),
            line_timeout: Duration::from_secs(60),
            linger_timeout: Duration::from_secs(1),
            fetch_wait: Duration::from_secs(2),
            write_timeout: Duration::from_secs(30),
            heartbeat_timeout: Duration::from_secs(60),
            returns_max: 3,
            segment_bytes: 64 << 20,
            reserve_bytes: 16 << 20,
            set_aside_bytes_max: 64 << 20,
            memory_bytes_max: 1 << 30,
            admin_requests_max: 256,
            page_jobs_max: 1_000,
            scan_jobs_max: 10_000,
            metrics_queues_max: 200,
        }
    }
}
