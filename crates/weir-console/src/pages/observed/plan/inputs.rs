//! The form of the plan: what the visitor entered, and observed or default values for the rest.

use serde::Deserialize;
use weir_advisor::Observation;
use weir_advisor::observation::SidekiqObservation;
use weir_advisor::plan::{
    PlanInput, ProcessMemory, QueueDemand, RESERVED_CONNECTIONS, Storage, WebDemand,
    observed_redis_policy,
};

use crate::figures;
use crate::page_error::PageError;

/// The fields of the form.
#[derive(Clone, Debug, Default, Deserialize)]
pub(in crate::pages) struct PlanQuery {
    pub(super) range: Option<String>,
    pub(super) redis: Option<String>,
    cores: Option<String>,
    memory_gib: Option<String>,
    postgres_memory_gib: Option<String>,
    max_connections: Option<String>,
    reserve: Option<String>,
    web_requests: Option<String>,
    web_seconds: Option<String>,
    streaming: Option<String>,
}

/// The values of all fields.
pub(super) struct PlanInputs {
    pub(super) cores: u32,
    pub(super) memory_gib: f64,
    pub(super) max_connections: u32,
    pub(super) reserve: u32,
    pub(super) reserved_connections: u32,
    pub(super) pooler_connections: Option<u32>,
    pub(super) web_requests: f64,
    pub(super) web_seconds: f64,
    pub(super) streaming: u32,
    /// The memory of Postgres, as entered or from `[observe.postgres] memory`.
    pub(super) postgres_memory_gib: Option<f64>,
}

const GIB: f64 = 1_073_741_824.0;
/// The defaults of `weir plan`.
const MAX_CONNECTIONS: u32 = 200;
const RESERVE: u32 = 15;
const WEB_THREADS: u32 = 5;
const STREAMING_POOL: u32 = 10;

impl PlanInputs {
    pub(super) fn new(query: &PlanQuery, observation: &Observation) -> Result<Self, PageError> {
        let machine = observation.machine.known();
        let settings = observation.postgres.known().and_then(|postgres| postgres.settings.known());
        let memory = machine.map_or(8.0, |machine| figures::as_float(machine.memory_bytes) / GIB);
        let ceiling = settings.map_or(MAX_CONNECTIONS, |settings| settings.max_connections);
        Ok(Self {
            cores: integer(
                "cores",
                query.cores.as_deref(),
                machine.map_or(4, |machine| machine.cores),
            )?
            .max(1),
            memory_gib: number(
                "memory",
                query.memory_gib.as_deref(),
                (memory * 10.0).round() / 10.0,
            )?,
            max_connections: integer("max_connections", query.max_connections.as_deref(), ceiling)?,
            reserve: integer("reserve", query.reserve.as_deref(), RESERVE)?,
            reserved_connections: settings
                .map_or(RESERVED_CONNECTIONS, |settings| settings.superuser_reserved_connections),
            pooler_connections: observation.pooler.as_ref().and_then(|pooler| pooler.connections),
            web_requests: number("web_requests", query.web_requests.as_deref(), 10.0)?,
            web_seconds: number("web_seconds", query.web_seconds.as_deref(), 0.1)?,
            streaming: integer("streaming", query.streaming.as_deref(), 1)?,
            postgres_memory_gib: postgres_memory(query, observation)?,
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was checked to be from 0 to a million"
    )]
    pub(super) fn demand(&self, queues: Vec<QueueDemand>, observation: &Observation) -> PlanInput {
        let local_bytes = (self.memory_gib * GIB) as u64;
        let postgres_memory_bytes =
            self.postgres_memory_gib.map_or(local_bytes / 4, |gib| (gib * GIB) as u64);
        // More than this machine has must be another machine's, and uses no memory here.
        let remote_bytes =
            if postgres_memory_bytes >= local_bytes { postgres_memory_bytes } else { 0 };
        PlanInput {
            cores: self.cores,
            memory_bytes: local_bytes.saturating_add(remote_bytes),
            postgres_memory_bytes,
            redis_memory_bytes: local_bytes / 16,
            storage: Storage::Ssd,
            max_connections: self.max_connections,
            reserve: self.reserve,
            reserved_connections: self.reserved_connections,
            pooler_connections: self.pooler_connections,
            web: WebDemand {
                requests_per_second: self.web_requests,
                service_seconds: self.web_seconds,
                threads: WEB_THREADS,
                processes_now: 0,
            },
            streaming: (self.streaming, STREAMING_POOL),
            queues,
            process_memory: ProcessMemory::default(),
            redis_policy: observed_redis_policy(observation),
            lacks_pool_connections: observation
                .jobs
                .known()
                .is_some_and(SidekiqObservation::lacks_pool_connections),
        }
    }
}

/// Returns the memory of Postgres. None: not set; Postgres gets a quarter of the memory.
fn postgres_memory(query: &PlanQuery, observation: &Observation) -> Result<Option<f64>, PageError> {
    let host = observation.postgres.known().and_then(|postgres| postgres.host.known());
    let host = host.filter(|host| host.is_said);
    let configured = host.map(|host| figures::as_float(host.memory_bytes) / GIB);
    let typed = query.postgres_memory_gib.as_deref().filter(|typed| !typed.is_empty());
    if typed.is_none() {
        return Ok(configured);
    }
    number("postgres_memory_gib", typed, 0.0).map(Some)
}

fn number(name: &str, text: Option<&str>, default: f64) -> Result<f64, PageError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(default) };
    let number = text.parse().ok().filter(|it: &f64| (0.0..=1e6).contains(it));
    number.ok_or_else(|| {
        PageError::Invalid(format!("{name}: {text:?} is not a number from 0 to 1,000,000"))
    })
}

fn integer(name: &str, text: Option<&str>, default: u32) -> Result<u32, PageError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(default) };
    let number = text.parse().ok().filter(|it| *it <= 100_000);
    number.ok_or_else(|| {
        PageError::Invalid(format!("{name}: {text:?} is not a number from 0 to 100,000"))
    })
}
