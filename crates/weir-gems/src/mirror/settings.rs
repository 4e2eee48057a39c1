//! `[gems.mirror]`: the upstreams of a mirror, and its limits.

use std::collections::HashSet;
use std::time::Duration;

use weir_base::backoff::Backoff;
use weir_base::secret::Secret;
use weir_net::http_client::{ClientSettings, ReadTrust, TimeLimit, Trust};
use weir_settings::{COUNT, Choice, DAY, HOUR, SECOND, Section, TableReader, WAIT};

use super::MirrorSetupError;
pub use super::client::{RedirectHost, RedirectHostError, UpstreamUrl, UpstreamUrlError};
use super::policy::Policy;
use super::upstream_name::UpstreamName;

/// Maximum number of upstreams of one mirror.
pub const UPSTREAMS_MAX: usize = 8;

/// Where gems of others come from.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "gems.mirror")]
pub struct MirrorSettings {
    /// At most [`UPSTREAMS_MAX`]. A name that several have is taken from the first of them.
    #[setting(skip)]
    pub upstreams: Vec<UpstreamSettings>,
    /// When .gem files are fetched: at their first download, and then kept; or all of them,
    /// after the index.
    #[setting(choice)]
    pub files: FilesWhen,
    /// Time from one synchronization to the next. Webhooks are processed immediately.
    #[setting(range = SECOND..=DAY, default = Duration::from_secs(60))]
    pub interval: Duration,
    /// Time from one comparison with the whole of an upstream's /versions to the next. A
    /// comparison finds changes that no synchronization reported.
    // The whole /versions of rubygems.org has 22 MB.
    #[setting(range = SECOND..=DAY.saturating_mul(365), default = HOUR)]
    pub reconcile_interval: Duration,
    /// PEM file with certificate authorities of your own, believed besides the public ones.
    #[setting(trust, key = "ca", default = Trust::public())]
    pub trust: Trust,
    #[setting(section)]
    pub limits: MirrorLimits,
}

/// `[[gems.mirror.upstreams]]`.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// Gems from it are stored under this name; also for the policy, metrics and pages.
    pub name: UpstreamName,
    pub url: UpstreamUrl,
    /// USER:PASSWORD, sent to the upstream's own host only. None: the upstream needs none.
    pub credentials: Option<Secret>,
    /// Hosts that the upstream may redirect to, wherever they are. Other hosts must be no nearer
    /// than the upstream: a public upstream may not redirect to a private network or this
    /// machine, and none to link-local addresses.
    pub redirect_hosts: Vec<RedirectHost>,
    /// Secret that signs the upstream's webhooks: the api_key of another Weir, the API key of an
    /// account at rubygems.org (or its SHA-256 in hexadecimal), or the token of the Bundler API.
    /// None: the upstream sends none.
    pub hook_secret: Option<Secret>,
}

/// An upstream in the form of the settings file.
#[derive(Debug, Section)]
#[section(restart, path = "gems.mirror.upstreams")]
struct UpstreamTable {
    /// Required. Gems from this upstream are stored under this name, so that its URL may change; also
    /// for the policy and metrics.
    #[setting(required_parsed)]
    name: Option<UpstreamName>,
    /// Required. URL of the upstream, such as "https://rubygems.org"; /versions is appended. A
    /// name that several upstreams have is taken from the first of them.
    #[setting(required_parsed)]
    url: Option<UpstreamUrl>,
    /// USER:PASSWORD, sent to the upstream's own host only. None: the upstream needs none.
    credentials: Option<Secret>,
    /// Secret that signs the upstream's webhooks: the api_key of another Weir, the API key of an
    /// account at rubygems.org (or its SHA-256 in hexadecimal), or the token of the Bundler API.
    /// None: the upstream sends none.
    hook_secret: Option<Secret>,
    /// Hosts that the upstream may redirect to, wherever they are. Other hosts must be no nearer
    /// than the upstream: a public upstream may not redirect to a private network or this
    /// machine, and none to link-local addresses.
    #[setting(parsed_texts)]
    redirect_hosts: Vec<RedirectHost>,
}

impl UpstreamSettings {
    /// Reads an upstream. Returns None if a required value is missing, which was already reported.
    pub fn read(table: &mut TableReader<'_>) -> Option<Self> {
        let mut upstream = UpstreamTable::default();
        upstream.read(table);
        let UpstreamTable { name, url, credentials, hook_secret, redirect_hosts } = upstream;
        Some(Self { name: name?, url: url?, credentials, redirect_hosts, hook_secret })
    }
}

/// When `.gem` files are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Choice)]
pub enum FilesWhen {
    /// When somebody asks for one; then it is kept.
    #[default]
    OnDemand,
    /// All, after the index.
    Eagerly,
}

/// `[gems.mirror.limits]`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "gems.mirror.limits", removed = "hook_batch")]
pub struct MirrorLimits {
    /// Requests to one upstream at once while the index is read.
    #[setting(advanced, range = 1..=10_000, default = 16)]
    pub requests_max: usize,
    /// .gem files that are fetched from one upstream at once for clients; one more gets 503.
    #[setting(range = 1..=10_000, default = 32)]
    pub file_fetches_max: u32,
    /// Bytes of an upstream's /versions. That of rubygems.org has 22MB.
    // Ten times the size of that of rubygems.org.
    #[setting(advanced, size, range = 1 << 10..=1 << 40, default = 256 << 20)]
    pub versions_bytes_max: u64,
    /// Names of one upstream; each takes about 80 bytes during a comparison.
    // Five times the number of names on rubygems.org.
    #[setting(advanced, range = COUNT, default = 1_000_000)]
    pub names_max: usize,
    /// Names that may be removed within names_gone_window because the upstream no longer lists
    /// them, or lists no version. Beyond this the upstream has probably lost its data, and
    /// nothing more is removed.
    // On rubygems.org a few names disappear per day.
    #[setting(range = COUNT, default = 1_000)]
    pub names_gone_max: usize,
    /// The same as a percentage of the names in the upstream's list. 100: no limit.
    #[setting(range = 1..=100, default = 50)]
    pub names_gone_percent_max: u8,
    /// How long removed names count for these two limits, from the first one on: an upstream may
    /// lose its data gradually.
    #[setting(advanced, range = SECOND..=DAY.saturating_mul(365), default = DAY)]
    pub names_gone_window: Duration,
    /// Bytes of one line of /versions.
    // A gem with 4,000 releases has a line of 60 KB in a baseline.
    #[setting(advanced, size, range = 1 << 10..=1 << 32, default = 4 << 20)]
    pub line_bytes_max: usize,
    /// Unreadable lines of /versions that are left out; with more, the response is not accepted
    /// as an index.
    #[setting(advanced, range = 0..=100_000_000, default = 1_000)]
    pub malformed_lines_max: u64,
    /// Bytes of one /info; requests_max of them are held at once.
    // The largest real ones have 1.5 MB.
    #[setting(advanced, size, range = 1 << 10..=1 << 32, default = 16 << 20)]
    pub info_bytes_max: usize,
    /// Gems that are written in one transaction. More is faster, but delays pushes longer.
    #[setting(advanced, range = 1..=1_000_000, default = 500)]
    pub batch_gems: usize,
    /// Bytes of infos that are collected for one transaction.
    #[setting(advanced, size, range = 1 << 10..=1 << 32, default = 4 << 20)]
    pub batch_bytes: usize,
    /// Requests that may fail one after another before a synchronization ends until the next
    /// one.
    #[setting(advanced, range = 1..=10_000, default = 8)]
    pub failures_max: u32,
    /// Attempts of one request whose error may be temporary.
    #[setting(advanced, range = 1..=100, default = 3)]
    pub attempts_max: u32,
    /// Name lookup, TCP and TLS together.
    #[setting(range = WAIT, default = Duration::from_secs(10))]
    pub connect_timeout: Duration,
    /// How long an upstream may be silent, before and within a response.
    #[setting(range = WAIT, default = Duration::from_secs(30))]
    pub silence_timeout: Duration,
    /// How long an /info may take.
    #[setting(range = WAIT, default = Duration::from_secs(60))]
    pub info_timeout: Duration,
    /// How long /versions or a .gem file may take.
    #[setting(range = WAIT, default = Duration::from_secs(900))]
    pub download_timeout: Duration,
    /// Delay after the first failed synchronization; it doubles with every further one, reduced
    /// at random by up to a half.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(1))]
    pub backoff_min: Duration,
    /// Limit of that delay.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(60))]
    pub backoff_max: Duration,
    /// Webhooks in the inbox; one more gets 503, and the upstream sends it later.
    #[setting(advanced, range = COUNT, default = 100_000)]
    pub hooks_waiting_max: u64,
    /// Attempts to find the change of a webhook at the upstream; after that the next
    /// synchronization finds it.
    #[setting(advanced, range = 1..=1_000_000, default = 10)]
    pub hook_attempts_max: u32,
}

impl MirrorSettings {
    /// Returns the default settings with these upstreams.
    #[must_use]
    pub fn new(upstreams: Vec<UpstreamSettings>) -> Self {
        Self { upstreams, ..Self::default() }
    }

    /// Checks that the settings are consistent with each other and with the policy.
    ///
    /// # Errors
    /// Returns the first inconsistency.
    pub fn check(&self, policy: &Policy) -> Result<(), MirrorSetupError> {
        self.check_upstreams()?;
        let names: Vec<_> = self.upstreams.iter().map(|it| it.name.clone()).collect();
        Ok(policy.check(&names)?)
    }

    /// Checks that the settings of the upstreams are consistent.
    ///
    /// # Errors
    /// Returns the first inconsistency.
    pub fn check_upstreams(&self) -> Result<(), MirrorSetupError> {
        if !(1..=UPSTREAMS_MAX).contains(&self.upstreams.len()) {
            return Err(MirrorSetupError::Upstreams(self.upstreams.len()));
        }
        let mut names = HashSet::new();
        for UpstreamSettings { name, .. } in &self.upstreams {
            if !names.insert(name) {
                return Err(MirrorSetupError::Twice(name.clone()));
            }
        }
        Ok(())
    }
}

impl MirrorLimits {
    /// Returns the time limit for an `/info`.
    pub(super) const fn info_limit(&self) -> TimeLimit {
        TimeLimit::new(self.info_timeout, &Self::INFO_TIMEOUT)
    }

    /// Returns the time limit for `/versions` or a `.gem` file.
    pub(super) const fn download_limit(&self) -> TimeLimit {
        TimeLimit::new(self.download_timeout, &Self::DOWNLOAD_TIMEOUT)
    }

    pub(super) fn client_settings(&self, trust: &Trust) -> ClientSettings {
        let limit = |time, setting| Some(TimeLimit::new(time, setting));
        ClientSettings {
            trust: trust.clone(),
            ca: Some(&MirrorSettings::CA),
            connect_timeout: limit(self.connect_timeout, &Self::CONNECT_TIMEOUT),
            silence_timeout: limit(self.silence_timeout, &Self::SILENCE_TIMEOUT),
            connections_kept_max: self.requests_max,
            ..ClientSettings::default()
        }
    }

    /// Returns delays from `backoff_min` to `backoff_max`.
    pub(super) fn backoff(&self) -> Backoff {
        Backoff::new(self.backoff_min, self.backoff_max, fastrand::Rng::new())
    }
}
