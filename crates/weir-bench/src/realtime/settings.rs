//! The flags of a realtime run, checked once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::presence;
use crate::checks::{as_seconds, check_range, check_range_f64};
use crate::rounds::JudgedBy;

/// One process can have 20,000 descriptors on many machines; a few are needed for other things.
const CLIENTS_MAX: u64 = 1_000_000;
const CHANNELS_MAX: u64 = 10_000;
const IN_FLIGHT_MAX: u64 = 64;
const CLIENT_THREADS_MAX: u64 = 64;
const RATE_MAX: f64 = 1e6;
const PAYLOAD_BYTES_MAX: u64 = 1_000_000;
const SECONDS_MAX: f64 = 86_400.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// All clients subscribe; events are published at --rate, or --in-flight at once.
    Fanout,
    /// All clients connect and subscribe as fast as the server lets them.
    Connect,
    /// All connections are cut at once while events go on; the clients come back as client libraries do.
    Storm,
    /// All clients join one presence channel, evenly over --seconds; then every second one leaves, in half of that.
    Presence,
    /// As fanout, first with all clients reading, then with --slow of them not reading any more.
    Slow,
    /// No server: a plain loop writes the same bytes to as many sockets.
    Floor,
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fanout => "fanout",
            Self::Connect => "connect",
            Self::Storm => "storm",
            Self::Presence => "presence",
            Self::Slow => "slow",
            Self::Floor => "floor",
        }
    }
}

/// What ends the connections of a storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StormBy {
    /// The clients, all at once, without a word (RST).
    Client,
    /// The server (somebody restarts it): the run waits for that for --seconds.
    Server,
}

/// How much of what. An operation is a delivery: one event that one client got.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadFlags {
    // Required, but optional by type: `realtime compare` carries a set of these flags of its own.
    #[arg(long, value_enum, required = true)]
    pub(crate) scenario: Option<Scenario>,
    /// Clients connect from 127.0.0.1, 127.0.0.2 ..: one address has 28,000 ports.
    #[arg(long, default_value_t = 1)]
    pub(crate) source_addresses: u8,
    /// Clients are spread evenly over so many channels.
    #[arg(long, default_value_t = 1)]
    pub(crate) channels: usize,
    /// Events per second, over all channels in turn; storm and slow have 10 by default.
    #[arg(long, conflicts_with = "in_flight")]
    pub(crate) rate: Option<f64>,
    /// Events under way at once: the next is published when the last client has one of them.
    #[arg(long)]
    pub(crate) in_flight: Option<usize>,
    /// Exact size of an event's data. 128 by default; slow: 4096, so that a server's queue for one client gets full.
    #[arg(long)]
    pub(crate) payload_bytes: Option<usize>,
    /// How long to publish; storm: the longest wait for --storm server; presence: how long the joining takes. 10 by
    /// default; slow: 30, with a slow half of 600 kB for each client.
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Clients of scenario slow that stop reading half-way.
    #[arg(long, default_value_t = 100)]
    pub(crate) slow: usize,
    /// Receive buffer of a slow client's socket (the kernel doubles it).
    #[arg(long, default_value_t = 4096)]
    pub(crate) slow_receive_buffer_bytes: usize,
    /// Clients of scenario presence that hold the list of members: at most half of all. 100 by default, if
    /// there are enough; 0 for a server that does not know weir:members.
    #[arg(long)]
    pub(crate) followers: Option<usize>,
    /// What ends the connections of a storm.
    #[arg(long, value_enum, default_value = "client")]
    pub(crate) storm: StormBy,
    /// Longest time from the cut of a storm until all are back and have what they missed. After it the run stops
    /// publishing, waits for what is under way (at most --stall-timeout-seconds), and says how many never came back.
    #[arg(long, default_value_t = 60.0)]
    pub(crate) patience_seconds: f64,
    /// Clients that are on their way in at once, over all client threads.
    #[arg(long, default_value_t = 256)]
    pub(crate) connects_in_flight: usize,
    /// Threads that connect and subscribe the clients; one reads afterwards. Not in scenario presence.
    #[arg(long, default_value_t = 1)]
    pub(crate) client_threads: usize,
    /// Calm between the last subscription and the reading of the server's memory; before a storm and after it.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) settle_seconds: f64,
    /// Longest time in which nothing arrives that should; what is missing then is lost.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) stall_timeout_seconds: f64,
}

/// When the next event is due.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pace {
    Rate(f64),
    InFlight(usize),
}

/// Validated flags.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LoadSettings {
    #[serde(skip)]
    pub(crate) scenario: Scenario,
    pub(crate) clients: usize,
    pub(crate) source_addresses: u8,
    pub(crate) channels: usize,
    pub(crate) pace: Pace,
    pub(crate) payload_bytes: usize,
    #[serde(rename = "seconds", serialize_with = "as_seconds")]
    pub(crate) duration: Duration,
    /// 0 in all scenarios but slow.
    pub(crate) slow: usize,
    pub(crate) slow_receive_buffer_bytes: usize,
    /// 0 in all scenarios but presence.
    pub(crate) followers: usize,
    pub(crate) storm: StormBy,
    #[serde(rename = "patience_seconds", serialize_with = "as_seconds")]
    pub(crate) patience: Duration,
    pub(crate) connects_in_flight: usize,
    pub(crate) client_threads: usize,
    #[serde(skip)]
    pub(crate) settle: Duration,
    #[serde(skip)]
    pub(crate) stall_timeout: Duration,
}

impl LoadSettings {
    /// Returns the scenario with its load, for people.
    pub(crate) fn label(&self) -> String {
        let (scenario, clients) = (self.scenario.name(), self.clients);
        match (self.scenario, self.pace) {
            (Scenario::Fanout | Scenario::Slow, Pace::Rate(rate)) => {
                format!("{scenario}, {clients} clients, events per second: {rate}")
            }
            (Scenario::Fanout, Pace::InFlight(events)) => {
                format!("{scenario}, {clients} clients, events in flight: {events}")
            }
            _ => format!("{scenario}, {clients} clients"),
        }
    }

    pub(crate) fn judged_by(&self) -> JudgedBy {
        match (self.scenario, self.pace) {
            (Scenario::Storm, _) => JudgedBy::AllBack,
            (Scenario::Fanout | Scenario::Slow, Pace::Rate(_)) => JudgedBy::P99,
            _ => JudgedBy::Rate,
        }
    }
}

impl LoadFlags {
    pub(crate) fn validate(&self, clients: usize) -> Result<LoadSettings> {
        let scenario = self.scenario.context("--scenario is missing")?;
        let (seconds, payload_bytes) = (self.seconds(scenario), self.payload_bytes(scenario));
        self.check_limits(clients)?;
        check_range("--payload-bytes", payload_bytes as u64, 1, PAYLOAD_BYTES_MAX)?;
        check_range_f64("--seconds", seconds, 1e-3, SECONDS_MAX)?;
        let slow = if scenario == Scenario::Slow { self.slow } else { 0 };
        ensure!(slow < clients, "--slow {slow}: must be fewer than --clients {clients}");
        let presence = scenario == Scenario::Presence;
        ensure!(!presence || self.channels == 1, "--scenario presence has one channel");
        let shares = self.client_threads == 1 || !presence;
        ensure!(shares, "--client-threads {}: --scenario presence has one", self.client_threads);
        Ok(LoadSettings {
            scenario,
            clients,
            source_addresses: self.source_addresses,
            channels: self.channels.min(clients),
            pace: self.pace(scenario)?,
            payload_bytes,
            duration: Duration::from_secs_f64(seconds),
            slow,
            slow_receive_buffer_bytes: self.slow_receive_buffer_bytes,
            followers: self.followers(scenario, clients)?,
            storm: self.storm,
            patience: Duration::from_secs_f64(self.patience_seconds),
            connects_in_flight: self.connects_in_flight,
            client_threads: self.client_threads,
            settle: Duration::from_secs_f64(self.settle_seconds),
            stall_timeout: Duration::from_secs_f64(self.stall_timeout_seconds),
        })
    }

    fn seconds(&self, scenario: Scenario) -> f64 {
        self.seconds.unwrap_or(if scenario == Scenario::Slow { 30.0 } else { 10.0 })
    }

    fn payload_bytes(&self, scenario: Scenario) -> usize {
        self.payload_bytes.unwrap_or(if scenario == Scenario::Slow { 4096 } else { 128 })
    }

    fn followers(&self, scenario: Scenario, clients: usize) -> Result<usize> {
        const FOLLOWERS: usize = 100;
        if scenario != Scenario::Presence {
            return Ok(0);
        }
        let most = presence::count_remaining(clients);
        let followers = self.followers.unwrap_or(FOLLOWERS.min(most));
        ensure!(
            followers <= most,
            "--followers {followers}: must be at most {most}, half of --clients {clients}, who stay"
        );
        Ok(followers)
    }

    fn pace(&self, scenario: Scenario) -> Result<Pace> {
        const RATE: f64 = 10.0;
        match (self.rate, self.in_flight, scenario) {
            (None, Some(_), Scenario::Storm) => {
                anyhow::bail!("--scenario storm publishes at a --rate")
            }
            (None, Some(in_flight), _) => Ok(Pace::InFlight(in_flight)),
            (Some(rate), None, _) => Ok(Pace::Rate(rate)),
            (_, _, Scenario::Storm | Scenario::Slow) => Ok(Pace::Rate(RATE)),
            _ => Ok(Pace::InFlight(1)),
        }
    }

    fn check_limits(&self, clients: usize) -> Result<()> {
        check_range("--clients", clients as u64, 1, CLIENTS_MAX)?;
        check_range("--source-addresses", self.source_addresses.into(), 1, 254)?;
        check_range("--channels", self.channels as u64, 1, CHANNELS_MAX)?;
        check_range("--in-flight", self.in_flight.unwrap_or(1) as u64, 1, IN_FLIGHT_MAX)?;
        check_range("--connects-in-flight", self.connects_in_flight as u64, 1, CLIENTS_MAX)?;
        check_range("--client-threads", self.client_threads as u64, 1, CLIENT_THREADS_MAX)?;
        check_range_f64("--patience-seconds", self.patience_seconds, 1e-3, SECONDS_MAX)?;
        check_range_f64("--rate", self.rate.unwrap_or(1.0), 1e-3, RATE_MAX)?;
        check_range_f64("--settle-seconds", self.settle_seconds, 0.0, SECONDS_MAX)?;
        check_range_f64("--stall-timeout-seconds", self.stall_timeout_seconds, 1e-3, SECONDS_MAX)
    }
}

#[cfg(test)]
impl LoadSettings {
    /// Parses `flags` as the command line does.
    pub(crate) fn parsed(flags: &[&str], clients: usize) -> Self {
        use clap::Parser;

        #[derive(Parser)]
        struct Flags {
            #[command(flatten)]
            load: LoadFlags,
        }
        let flags = Flags::parse_from(["bench"].iter().chain(flags));
        flags.load.validate(clients).expect("valid")
    }
}
