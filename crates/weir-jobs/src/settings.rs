//! The settings of the job server, with their defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_settings::{COUNT, Choice, DAY, HOUR, MILLISECOND, SECOND, Section, TableReader, WAIT};

use crate::cron::CronSettings;
use crate::key_path::KeyPath;
use crate::lanes::LaneLimits;
use crate::model::QueueName;
use crate::start_rate::StartRate;

/// Where jobs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Choice)]
pub enum StoreKind {
    /// The segment log under `data_dir`: acknowledged means durable.
    #[default]
    Embedded,
    /// Nothing survives the process: for tests and development.
    Memory,
    /// Outside of this machine: opened by [`crate::store::OpenStore`].
    #[choice("redis")]
    External,
}

impl StoreKind {
    /// Returns the name that operators read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Memory => "memory",
            Self::External => "redis",
        }
    }
}

/// Resources that the settings may define: a set of them is one word.
pub const RESOURCES_MAX: usize = 64;
/// A name is a label of metrics.
const RESOURCE_NAME_BYTES_MAX: usize = 64;

/// When an acknowledged record is on the disk itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Choice)]
pub enum Fsync {
    /// Before the reply: survives a power cut.
    #[default]
    Always,
    /// Within a second; in the page cache before the reply: survives `kill -9`, not a power cut.
    #[choice("everysec")]
    EverySecond,
    /// When the system likes; in the page cache before the reply.
    Never,
}

/// How the queue is chosen that serves a FETCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Choice)]
pub enum Dispatch {
    /// By targets if any queue has one and the store can; otherwise strict.
    #[default]
    Auto,
    Strict,
    Weighted,
    Targets,
}

/// Settings of the job server: `[jobs]`.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "jobs", check = Self::read_queues)]
pub struct JobServerSettings {
    /// Where jobs are kept: the segment log under data_dir, memory (nothing survives; for tests and
    /// development), or a Redis that Sidekiq may use as well: { redis = [{ url = ".." }] }.
    #[setting(choice_or_table)]
    pub store: StoreKind,
    /// The servers of a store outside of this machine, without passwords.
    #[setting(skip)]
    pub store_servers: String,
    /// Folder of the segment log; made when missing.
    #[setting(skip, default = PathBuf::from("data/jobs"))]
    pub directory: PathBuf,
    /// File of the tasks, so that they continue after a restart. None: they end with the process.
    #[setting(skip)]
    pub tasks_file: Option<PathBuf>,
    /// When an acknowledged job is on the disk: before the reply, within a second, or when the
    /// system writes it.
    #[setting(choice)]
    pub fsync: Fsync,
    /// Whether ACKs, too, are on the disk before the reply (with fsync = "always"); otherwise
    /// within advanced.ack_sync_max.
    pub fsync_acks: bool,
    /// An ACK that no other record's sync covers is synced after this time.
    #[setting(advanced, range = MILLISECOND..=HOUR, default = Duration::from_millis(10))]
    pub ack_sync_max: Duration,
    /// How long a sync waits for more records to join it.
    #[setting(advanced, range = Duration::ZERO..=SECOND)]
    pub gather_wait: Duration,
    /// Announce FETCHB, ACKB and FAILB in the greeting (HI), with batch_jobs_max. They work without
    /// it, too; some clients reject a greeting with more than the version.
    #[setting(reload)]
    pub announce_batch: bool,
    /// Allow clients to delete all jobs (FLUSH): only for development.
    #[setting(reload)]
    pub allow_flush: bool,
    /// Password that clients prove in HELLO. None: every client that can connect may push and
    /// fetch jobs.
    #[setting(reload)]
    pub password: Option<Secret>,
    /// How the queue is chosen that serves a FETCH: the first of its queues that has jobs ("strict"),
    /// its queues in proportion to their weight ("weighted"), or so that jobs start within the
    /// target_latency of their queues ("targets"). "auto" is "targets" if any queue has a
    /// target_latency, otherwise "strict"; in Redis always "strict".
    #[setting(choice, reload)]
    pub dispatch: Dispatch,
    #[setting(section)]
    pub limits: JobServerLimits,
    /// Per-queue settings; a queue without an entry gets the defaults.
    #[setting(skip)]
    pub queues: BTreeMap<QueueName, QueueSettings>,
    /// Limits that jobs of several types and queues have together, by name.
    #[setting(skip)]
    pub resources: BTreeMap<String, ResourceSettings>,
    /// Jobs that are enqueued at the times of a schedule.
    #[setting(skip)]
    pub cron: Vec<CronSettings>,
}

impl JobServerSettings {
    /// Reads the tables of queues and checks their names against the limits.
    fn read_queues(&mut self, table: &mut TableReader<'_>) {
        self.read_cron(table);
        if self.store == StoreKind::External && self.dispatch == Dispatch::Targets {
            let error = "\"targets\" needs the embedded store; jobs.store is a Redis";
            table.error_at("dispatch", error);
        }
        let is_external = self.store == StoreKind::External;
        let Self { queues, limits, .. } = self;
        table.named("queues", |name, table| {
            let mut queue = QueueSettings::default();
            queue.read(table);
            if is_external && queue.fair_by.is_some() {
                let error = "needs the embedded store; jobs.store is a Redis, where Sidekiq takes the jobs of a queue in their order, whatever their tenants";
                table.error_at("fair_by", error);
            }
            if is_external && queue.bytes_max.is_some() {
                let error = "needs the embedded store; jobs.store is a Redis, which counts the jobs of a queue and not their bytes: use jobs_max";
                table.error_at("bytes_max", error);
            }
            match QueueName::parse(name, limits) {
                Ok(name) => drop(queues.insert(name, queue)),
                Err(error) => table.error(error.to_string()),
            }
        });
        self.read_resources(table);
        if self.store != StoreKind::Embedded && self.limits.disk_max.is_some() {
            let error =
                "jobs.limits.disk_max needs the embedded store: only it has a log on the disk";
            table.error_at("limits", error);
        }
    }

    fn read_resources(&mut self, table: &mut TableReader<'_>) {
        let Self { resources, limits, .. } = self;
        table.named("resources", |name, table| {
            let mut resource = ResourceSettings::default();
            resource.read(table);
            resource.check(table, limits);
            if name.is_empty() || name.len() > RESOURCE_NAME_BYTES_MAX {
                table.error(format!("jobs.resources.{name}: the name of a resource has 1 to {RESOURCE_NAME_BYTES_MAX} bytes"));
            }
            resources.insert(name.to_owned(), resource);
        });
        if resources.len() > RESOURCES_MAX {
            let count = resources.len();
            table.error_at(
                "resources",
                &format!("{count} resources, and at most {RESOURCES_MAX} may be defined"),
            );
        }
        self.check_resources_of_jobs(table);
    }

    /// Checks that no job uses more resources than it may.
    fn check_resources_of_jobs(&self, table: &mut TableReader<'_>) {
        let most = self.limits.resources_per_job_max;
        let by_type = users(&self.resources, |resource| &resource.types);
        let by_queue = users(&self.resources, |resource| &resource.queues);
        let quoted = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
        let limit = JobServerLimits::RESOURCES_PER_JOB_MAX;
        let mut report = |who: String, uses: &BTreeSet<&str>| {
            if uses.len() > most {
                let (count, names) = (uses.len(), quoted(uses));
                table.error_at(
                    "resources",
                    &format!(
                        "{who} use {count} resources ({names}), and a job may use {most} ({limit})"
                    ),
                );
            }
        };
        for (jobtype, uses) in &by_type {
            report(format!("jobs of type {jobtype}"), uses);
        }
        for (queue, uses) in &by_queue {
            report(format!("jobs of queue {queue}"), uses);
            let of_types = by_type.iter().filter(|(_, of_type)| of_type.len() <= most);
            for (jobtype, of_type) in of_types.filter(|_| uses.len() <= most) {
                let both = uses.union(of_type).copied().collect();
                report(format!("jobs of type {jobtype} in queue {queue}"), &both);
            }
        }
    }

    fn read_cron(&mut self, table: &mut TableReader<'_>) {
        let mut names = BTreeSet::new();
        table.each("cron", |table| {
            let mut cron = CronSettings::default();
            cron.read(table);
            if !names.insert(cron.name.clone()) {
                table.error_at("name", &format!("{:?} is the name of another one", cron.name));
            }
            self.cron.push(cron);
        });
    }
}

/// `[jobs.resources.NAME]`: a limit that jobs of several types and queues have together.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "jobs.resources.NAME")]
pub struct ResourceSettings {
    /// Jobs that use the resource and run at once, over all workers and queues.
    #[setting(range = 1..=u64::from(u32::MAX))]
    pub concurrency: Option<u32>,
    /// How many jobs that use the resource may start per second (s), minute (m), hour (h) or day (d), such as "100/s" or
    /// "100/s burst 20".
    #[setting(optional_parsed)]
    pub rate: Option<StartRate>,
    /// Job types whose jobs use the resource, in any queue. In Redis, the limits hold for workers of Weir, and need a single
    /// server that is no Redis Cluster; a job of an adapter of ActiveJob is of the type that it wraps.
    #[setting(some_texts)]
    pub types: Vec<String>,
    /// Queues whose jobs use the resource, of any type. In Redis, the limits hold for workers of Weir, and need a single
    /// server that is no Redis Cluster.
    #[setting(some_texts)]
    pub queues: Vec<String>,
}

impl ResourceSettings {
    fn check(&self, table: &mut TableReader<'_>, limits: &JobServerLimits) {
        let meaning = "a resource without a limit has no effect";
        table.require_either("concurrency", "rate", meaning);
        table.require_either("types", "queues", "they say which jobs use the resource");
        for name in &self.queues {
            if let Err(error) = QueueName::parse(name, limits) {
                table.error_at("queues", &error.to_string());
            }
        }
        for jobtype in self.types.iter().filter(|name| name.len() > limits.id_bytes_max) {
            let most = limits.id_bytes_max;
            let error = format!("{jobtype:?} is longer than a job type may be: {most} bytes");
            table.error_at("types", &error);
        }
    }
}

/// Returns the resources of each type or queue, in the order of their names.
fn users<'a>(
    resources: &'a BTreeMap<String, ResourceSettings>,
    of: impl Fn(&'a ResourceSettings) -> &'a [String],
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut users = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (name, resource) in resources {
        for user in of(resource) {
            users.entry(user).or_default().insert(name);
        }
    }
    users
}

/// `[jobs.queues.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "jobs.queues.NAME", check = Self::read_tenants)]
pub struct QueueSettings {
    /// Jobs of the queue are to start within this time, at which jobs.dispatch aims. A job that waits
    /// longer counts as late, on the console and for fresh_lane.
    #[setting(range = MILLISECOND..=DAY.saturating_mul(400))]
    pub target_latency: Option<Duration>,
    /// Jobs of the queue that run at once, over all workers.
    #[setting(range = 1..=u64::from(u32::MAX))]
    pub concurrency: Option<u32>,
    /// How many jobs of the queue may start per second (s), minute (m), hour (h) or day (d), such as "100/s". After a
    /// pause, as many start at once as the rate allows in 100 ms, but at least one; or so many as are written: "100/s
    /// burst 20". In Redis, it holds for workers of Weir, and needs a single server or a Redis Cluster.
    #[setting(optional_parsed)]
    pub rate: Option<StartRate>,
    /// Jobs that may wait in the queue; one more is rejected when it is pushed. Jobs that return to the queue (retries,
    /// scheduled jobs that are due, jobs of workers that ended) are always accepted. In Redis, the number of jobs is up
    /// to a second old, and jobs that other programs push are not limited.
    #[setting(range = 1..=1 << 40)]
    pub jobs_max: Option<u64>,
    /// Bytes of the jobs that may wait in the queue; a push of more is rejected, as with jobs_max. A job that is larger
    /// than this is always rejected. Needs the embedded store.
    #[setting(optional_size, range = 1 << 10..=1 << 50)]
    pub bytes_max: Option<u64>,
    /// While the oldest job has waited longer than target_latency: serve the newest of the jobs in time
    /// first, and the oldest job with a fifth of the workers' time (in Redis: with every fifth fetch).
    pub fresh_lane: bool,
    /// Weight of the queue if jobs.dispatch is "weighted", which counts jobs, or "targets", which shares
    /// the workers' time that queues in time leave.
    #[setting(range = 1..=1_000, default = 1)]
    pub weight: u32,
    /// What names the tenant of a job: a JSON pointer into it, such as "/args/0/domain", or custom.NAME. The queue then
    /// serves the tenant that has the fewest jobs in progress; among equals, the one whose jobs took the least time.
    #[setting(optional_parsed)]
    pub fair_by: Option<KeyPath>,
    /// Free workers that only tenants with less than their share may take, so that their jobs start at once; 0: all
    /// tenants may take all workers. Workers are counted by concurrency; without it, by the FETCHes that wait for the
    /// queue, which needs a connection for each job that a worker runs at once.
    #[setting(range = 0..=1_000_000)]
    pub fair_headroom: u32,
    /// Jobs of each tenant (fair_by) that run at once, over all workers. Jobs of a tenant at its limit are left out until
    /// one of its jobs has ended.
    #[setting(range = 1..=u64::from(u32::MAX))]
    pub tenant_concurrency: Option<u32>,
    /// How many jobs of each tenant (fair_by) may start per second (s), minute (m), hour (h) or day (d), such as
    /// "5/s" or "5/s burst 10". Jobs of a tenant are left out until its next one may start.
    #[setting(optional_parsed)]
    pub tenant_rate: Option<StartRate>,
    /// Jobs of each tenant (fair_by) that may wait; one more is rejected when it is pushed, as with jobs_max.
    #[setting(range = 1..=1 << 40)]
    pub tenant_jobs_max: Option<u64>,
    /// Tenants with a weight or a limit of their own, by name.
    #[setting(skip)]
    pub tenants: BTreeMap<String, TenantSettings>,
}

const NEEDS_FAIR_BY: &str = "needs fair_by, which says what names the tenant of a job";

impl QueueSettings {
    fn read_tenants(&mut self, table: &mut TableReader<'_>) {
        table.named("tenants", |name, table| {
            let mut tenant = TenantSettings::default();
            tenant.read(table);
            if self.fair_by.is_none() {
                let LaneLimits { concurrency, rate } = tenant.limits();
                reject_without_fair_by(table, "concurrency", concurrency.is_some());
                reject_without_fair_by(table, "rate", rate.is_some());
                reject_without_fair_by(table, "jobs_max", tenant.jobs_max.is_some());
            }
            self.tenants.insert(name.to_owned(), tenant);
        });
        if self.fair_by.is_none() {
            let LaneLimits { concurrency, rate } = self.tenant_limits();
            reject_without_fair_by(table, "tenant_concurrency", concurrency.is_some());
            reject_without_fair_by(table, "tenant_rate", rate.is_some());
            reject_without_fair_by(table, "tenant_jobs_max", self.tenant_jobs_max.is_some());
        }
    }

    /// Returns whether pushes to the queue are rejected by a cap.
    pub(crate) fn has_caps(&self) -> bool {
        self.jobs_max.is_some() || self.bytes_max.is_some() || self.has_tenant_caps()
    }

    /// Returns whether the jobs of a tenant that wait have a limit.
    pub(crate) fn has_tenant_caps(&self) -> bool {
        self.tenant_jobs_max.is_some()
            || self.tenants.values().any(|tenant| tenant.jobs_max.is_some())
    }

    /// Returns the limits of each tenant.
    pub(crate) fn tenant_limits(&self) -> LaneLimits {
        LaneLimits {
            concurrency: self.tenant_concurrency,
            rate: self.tenant_rate.map(StartRate::rate),
        }
    }
}

fn reject_without_fair_by(table: &mut TableReader<'_>, name: &str, is_set: bool) {
    if is_set {
        table.error_at(name, NEEDS_FAIR_BY);
    }
}

/// `[jobs.queues.NAME.tenants.TENANT]`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "jobs.queues.NAME.tenants.NAME")]
pub struct TenantSettings {
    /// Part of the workers that the tenant gets, in proportion to those of the other tenants (fair_by).
    #[setting(range = 1..=1_000, default = 1)]
    pub weight: u16,
    /// Jobs of the tenant that run at once, in place of tenant_concurrency.
    #[setting(range = 1..=u64::from(u32::MAX))]
    pub concurrency: Option<u32>,
    /// How often jobs of the tenant may start, in place of tenant_rate.
    #[setting(optional_parsed)]
    pub rate: Option<StartRate>,
    /// Jobs of the tenant that may wait, in place of tenant_jobs_max.
    #[setting(range = 1..=1 << 40)]
    pub jobs_max: Option<u64>,
}

impl TenantSettings {
    /// Returns the limits that the tenant has in place of those of each tenant.
    pub(crate) fn limits(&self) -> LaneLimits {
        LaneLimits { concurrency: self.concurrency, rate: self.rate.map(StartRate::rate) }
    }
}

/// `[jobs.limits]`: every limit of the job server. Each has a metric `weir_jobs_limit_hits_total{limit="NAME"}`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "jobs.limits", removed = "worker_labels_max")]
pub struct JobServerLimits {
    /// Connections at once; one more gets `-ERR too many connections`.
    #[setting(range = COUNT, default = 10_000)]
    pub connections_max: usize,
    /// Bytes of one command line, job included.
    #[setting(size, range = 1 << 10..=1 << 30, default = 16 << 20)]
    pub line_bytes_max: usize,
    /// Bytes of half-read lines and unread replies, over all connections.
    #[setting(advanced, size, range = 1 << 20..=1 << 40, default = 256 << 20)]
    pub buffered_bytes_max: usize,
    /// Open files of the process that connections may not take: the log and the console need them.
    #[setting(advanced, range = COUNT, default = 256)]
    pub descriptors_reserved: usize,
    /// Connections over connections_max that are rejected with an error message after HELLO;
    /// further ones are rejected immediately.
    #[setting(advanced, range = COUNT, default = 100)]
    pub refusals_max: usize,
    /// Bytes of the HELLO line, which precedes the password.
    #[setting(advanced, size, range = 256..=1 << 20, default = 16 << 10)]
    pub hello_bytes_max: usize,
    /// Wrong passwords per minute from one address that are rejected immediately; after that,
    /// each further password from there waits wrong_password_delay.
    #[setting(range = COUNT, default = 10)]
    pub wrong_passwords_max: u32,
    /// How long a password from an address over wrong_passwords_max waits for its check.
    #[setting(advanced, range = WAIT, default = SECOND)]
    pub wrong_password_delay: Duration,
    /// Passwords that wait for their check at once; further ones are rejected.
    #[setting(advanced, range = COUNT, default = 100)]
    pub password_checks_max: usize,
    /// Worker processes known at once.
    #[setting(range = COUNT, default = 10_000)]
    pub workers_max: usize,
    /// Queues of one worker that are shown.
    #[setting(advanced, range = COUNT, default = 64)]
    pub worker_queues_max: usize,
    /// Jobs in one PUSHB.
    #[setting(range = COUNT, default = 10_000)]
    pub pushb_jobs_max: usize,
    /// Jobs in one FETCHB, ACKB or FAILB.
    #[setting(range = COUNT, default = 1_000)]
    pub batch_jobs_max: usize,
    /// A FETCHB takes no further job once its jobs have so many bytes.
    #[setting(size, range = 1 << 10..=1 << 30, default = 4 << 20)]
    pub batch_bytes_max: usize,
    /// FETCHes that wait at once.
    #[setting(restart, range = COUNT, default = 10_000)]
    pub waiting_fetches_max: usize,
    /// Queues named in one FETCH.
    #[setting(advanced, range = COUNT, default = 1_000)]
    pub fetch_queues_max: usize,
    /// Queues that exist at once.
    #[setting(advanced, restart, range = 1..=65_536, default = 10_000)]
    pub queues_max: usize,
    /// Bytes of a queue's name.
    #[setting(advanced, range = 1..=255, default = 255)]
    pub queue_name_bytes_max: usize,
    /// Bytes of a jid, a wid, a jobtype.
    #[setting(advanced, range = 1..=4_096, default = 255)]
    pub id_bytes_max: usize,
    /// How deep the JSON of a job may nest.
    #[setting(advanced, range = 1..=1_000, default = 128)]
    pub json_depth_max: usize,
    /// Jobs in the dead set; for one more, the oldest is deleted.
    #[setting(restart, range = COUNT, default = 1_000_000)]
    pub dead_jobs_max: usize,
    /// Age at which a dead job is deleted.
    #[setting(restart, range = MILLISECOND..=DAY.saturating_mul(4_000), default = DAY.saturating_mul(180))]
    pub dead_age_max: Duration,
    /// HELLO must arrive within this long.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(2))]
    pub hello_timeout: Duration,
    /// A line that has begun must be complete within this long.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(60))]
    pub line_timeout: Duration,
    /// How long a connection that is closed with an error is still read, so that the error arrives.
    #[setting(advanced, range = WAIT, default = SECOND)]
    pub linger_timeout: Duration,
    /// How long a FETCH waits for a job before the reply is null.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(2))]
    pub fetch_wait: Duration,
    /// A client that does not read its replies for this long is disconnected.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(30))]
    pub write_timeout: Duration,
    /// A worker without a BEAT for this long counts as dead, and its jobs return to their
    /// queues.
    #[setting(range = WAIT, default = Duration::from_secs(60))]
    pub heartbeat_timeout: Duration,
    /// A job is dead once it has killed this many workers within three days: they were cut off while they ran it.
    /// 0: never.
    #[setting(advanced, restart, range = 0..=255, default = 3)]
    pub returns_max: u8,
    /// Bytes of one log segment.
    #[setting(advanced, size, restart, range = 1 << 20..=1 << 28, default = 64 << 20)]
    pub segment_bytes: u32,
    /// Disk space that pushes may not use, reserved for ACK and FAIL.
    #[setting(advanced, size, restart, range = 1 << 20..=1 << 28, default = 16 << 20)]
    pub reserve_bytes: u32,
    /// Bytes of damaged records that are set aside until an operator acknowledges them, and as
    /// many of those that were acknowledged last.
    #[setting(advanced, size, restart, range = 1 << 16..=1 << 27, default = 64 << 20)]
    pub set_aside_bytes_max: u32,
    /// Bytes of the job store on the disk; pushes are rejected while it has more. ACK, FAIL and jobs that return are
    /// accepted. The store has up to twice the bytes of its jobs, and two segments (segment_bytes) more. None: pushes are
    /// rejected when the disk is full.
    #[setting(optional_size, range = 1 << 24..=1 << 50)]
    pub disk_max: Option<u64>,
    /// Bytes of jobs in the store `memory`; the embedded store is limited by its disk.
    #[setting(size, restart, range = 1 << 20..=1 << 40, default = 1 << 30)]
    pub memory_bytes_max: usize,
    /// Jobs in pushes that wait until Redis confirms them (jobs.redis.confirm), over all
    /// connections; the next push gets an error.
    #[setting(restart, advanced, range = COUNT, default = 100_000)]
    pub unconfirmed_jobs_max: usize,
    /// Jobs of one queue that Redis remembers as pushed (jobs.redis.push_memory). If more are pushed
    /// in this time, the oldest are forgotten early. One takes about 100 bytes.
    #[setting(restart, advanced, range = 2..=100_000_000, default = 200_000)]
    pub push_memory_jobs_max: usize,
    /// Unique jobs (custom.unique_for) that hold a lock at once; one more is rejected. One takes about
    /// 350 bytes of memory.
    #[setting(restart, range = COUNT, default = 1_000_000)]
    pub unique_locks_max: usize,
    /// Tenants of one queue (fair_by) with a lane of their own: those with jobs waiting or in progress, and some that had
    /// jobs recently. Further tenants share up to 1,024 lanes. A lane takes about 80 bytes of memory.
    #[setting(restart, range = 1..=10_000_000, default = 100_000)]
    pub tenants_max: usize,
    /// Shared resources (jobs.resources) that one job may use, by its type and its queue together. The settings are
    /// rejected if a job may use more.
    #[setting(advanced, range = 1..=64, default = 8)]
    pub resources_per_job_max: usize,
    /// Jobs whose progress is known to TRACK at once; for one more, the one that was updated longest ago
    /// is forgotten. One takes about 300 bytes of memory and its description.
    #[setting(restart, range = COUNT, default = 100_000)]
    pub tracks_max: usize,
    /// How long TRACK knows a job after its last update.
    #[setting(advanced, restart, range = SECOND..=DAY.saturating_mul(30), default = Duration::from_secs(1_800))]
    pub track_age_max: Duration,
    /// Batches (BATCH NEW) that exist at once; one more is rejected. The embedded store has room for one
    /// for each 56 bytes by which segment_bytes exceeds reserve_bytes.
    #[setting(restart, range = 1..=1_000_000, default = 10_000)]
    pub batches_max: usize,
    /// Bytes of a BATCH NEW: its description and its callbacks.
    #[setting(advanced, size, range = 1 << 10..=1 << 20, default = 64 << 10)]
    pub batch_definition_bytes_max: usize,
    /// Bytes of the descriptions and callbacks of all batches, which are in memory; a batch with more is
    /// rejected.
    #[setting(advanced, size, restart, range = 1 << 20..=1 << 40, default = 64 << 20)]
    pub batch_memory_bytes_max: usize,
    /// A batch that is not committed for this long is forgotten. A batch whose jobs and callbacks have
    /// succeeded is kept for as long, so that its status can be read.
    #[setting(advanced, restart, range = SECOND..=DAY.saturating_mul(30), default = Duration::from_secs(1_800))]
    pub batch_commit_timeout: Duration,
    /// A committed batch is forgotten after this long, whether or not its jobs have ended.
    #[setting(advanced, restart, range = SECOND..=DAY.saturating_mul(4_000), default = DAY.saturating_mul(30))]
    pub batch_age_max: Duration,
    /// Requests of the console, the admin API and the command line that run or wait at once.
    #[setting(restart, range = COUNT, default = 256)]
    pub admin_requests_max: usize,
    /// Commands to a store outside of this process that have no reply yet; further ones are rejected.
    #[setting(advanced, restart, range = COUNT, default = 10_000)]
    pub store_commands_max: usize,
    /// Jobs in one page of a list.
    #[setting(advanced, range = COUNT, default = 1_000)]
    pub page_jobs_max: usize,
    /// Jobs that a search or MUTATE examines before other work continues.
    #[setting(advanced, range = COUNT, default = 10_000)]
    pub scan_jobs_max: usize,
    /// Tasks (actions on all matching jobs, which Weir runs in the background) that run at once; one more is
    /// rejected.
    #[setting(range = 1..=1_000, default = 8)]
    pub tasks_max: usize,
    /// Tasks that have ended and are remembered; for one more, the one that ended first is forgotten.
    #[setting(advanced, range = COUNT, default = 100)]
    pub ended_tasks_max: usize,
    /// Queues with metrics of their own; the rest share `queue="other"`.
    #[setting(advanced, restart, range = 0..=100_000_000, default = 200)]
    pub metrics_queues_max: usize,
    /// Classes (jobtypes) per ten seconds whose runs are counted and timed for Sidekiq's page of
    /// metrics; further ones are left out.
    #[setting(advanced, restart, range = COUNT, default = 1_000)]
    pub metrics_classes_max: usize,
    /// Types of jobs (jobtypes) with statistics and metrics of their own; the rest share those of "other". A new type
    /// takes the place of one that had no job for an hour. One takes about 14 KB of memory, and up to 0.8 KB for each
    /// class of errors.
    #[setting(advanced, restart, range = 1..=10_000, default = 200)]
    pub job_types_max: usize,
    /// Classes of errors of each type of job that are counted on their own, and as many queues; the rest share
    /// those of "other". A new one takes the place of one that did not occur for an hour.
    #[setting(advanced, restart, range = 1..=1_000, default = 10)]
    pub job_type_groups_max: usize,
}

/// Bytes of a batch in the snapshot at the start of each segment.
const BATCH_SNAPSHOT_BYTES: usize = 28;

impl JobServerLimits {
    /// Returns the maximum number of batches whose counts fit into half a segment of the log.
    #[must_use]
    pub const fn batches_that_fit(&self) -> usize {
        let room = self.segment_bytes.saturating_sub(self.reserve_bytes) as usize;
        room / 2 / BATCH_SNAPSHOT_BYTES
    }
}
