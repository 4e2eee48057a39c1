//! `[gems.mirror]`: where gems of others come from, and the limits.

use std::collections::HashSet;
use std::time::Duration;

use weir_base::backoff::Backoff;
use weir_base::secret::Secret;
use weir_net::post::Trust;

use super::MirrorSetupError;
pub use super::client::{RedirectHost, RedirectHostError, UpstreamUrl, UpstreamUrlError};
use super::policy::Policy;
use super::upstream_name::UpstreamName;

/// Upstreams of one mirror.
pub const UPSTREAMS_MAX: usize = 8;

/// Where gems of others come from.
#[derive(Clone, Debug)]
pub struct MirrorSettings {
    /// At most [`UPSTREAMS_MAX`]. A name that several have comes from the first of them.
    pub upstreams: Vec<UpstreamSettings>,
    pub files: FilesWhen,
    /// How long after a look at `/versions` the next one comes. Webhooks don't wait for it.
    pub interval: Duration,
    /// How long after all of `/versions` was compared it is compared again.
    pub reconcile_interval: Duration,
    /// Whose certificates upstreams may show.
    pub trust: Trust,
    pub limits: MirrorLimits,
}

/// `[[gems.mirror.upstreams]]`.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// For the policy, metrics and pages. What came from it belongs to this name.
    pub name: UpstreamName,
    pub url: UpstreamUrl,
    /// `USER:PASSWORD`, sent to the upstream's own host alone.
    pub credentials: Option<Secret>,
    /// Hosts that it may send us on to though they are nearer than itself: in a private network, or
    /// on this machine.
    pub redirect_hosts: Vec<RedirectHost>,
    /// What its webhooks are signed with: the API key of rubygems.org's, or its SHA-256 as hexadecimal
    /// digits; the token of the Bundler API's. None: it sends none.
    pub hook_secret: Option<Secret>,
}

/// When `.gem` files are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilesWhen {
    /// When somebody asks for one; then it is kept.
    #[default]
    OnDemand,
    /// All, after the index.
    Eagerly,
}

/// `[gems.mirror.limits]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorLimits {
    /// Requests to one upstream at once while the index is read.
    pub requests_max: usize,
    /// `.gem` files that are fetched at once from one upstream because somebody asks. One more gets
    /// 503.
    pub file_fetches_max: u32,
    /// Bytes of all of `/versions`.
    pub versions_bytes_max: u64,
    /// Names of one upstream.
    pub names_max: usize,
    /// Names that may be taken away within [`MirrorLimits::names_gone_window`], since they are gone
    /// from the upstream's list or have no version there any more. More look like an upstream that
    /// has lost its own data, and nothing more is taken away.
    pub names_gone_max: usize,
    /// The same for names that are gone from its list, of a hundred: also small indexes lose data.
    pub names_gone_percent_max: u8,
    /// How long names that were taken away count, from the first of them.
    pub names_gone_window: Duration,
    /// Bytes of one line of `/versions`.
    pub line_bytes_max: usize,
    /// Lines of `/versions` that can't be read, before it is taken for no index.
    pub malformed_lines_max: u64,
    /// Bytes of one `/info`.
    pub info_bytes_max: usize,
    /// Gems that are applied in one transaction.
    pub batch_gems: usize,
    /// Bytes of infos that are gathered for one transaction.
    pub batch_bytes: usize,
    /// Requests that fail one after another before a look is given up.
    pub failures_max: u32,
    /// Attempts of one request.
    pub attempts_max: u32,
    pub connect_timeout: Duration,
    /// How long an upstream may be silent, before an answer and in the middle of it.
    pub silence_timeout: Duration,
    /// How long an `/info` may take.
    pub info_timeout: Duration,
    /// How long `/versions` or a `.gem` file may take.
    pub download_timeout: Duration,
    /// The first wait after a failure; it doubles.
    pub backoff_min: Duration,
    pub backoff_max: Duration,
    /// Hooks that wait. One more gets 503, and is sent again.
    pub hooks_waiting_max: u64,
    /// Attempts of one hook; the next comparison finds what it told.
    pub hook_attempts_max: u32,
    /// Hooks that are worked off together.
    pub hook_batch: usize,
}

impl MirrorSettings {
    /// Everything as it is by default, with these upstreams.
    #[must_use]
    pub fn new(upstreams: Vec<UpstreamSettings>) -> Self {
        Self {
            upstreams,
            files: FilesWhen::OnDemand,
            interval: Duration::from_secs(60),
            // All of rubygems.org's is 22 MB.
            reconcile_interval: Duration::from_secs(3_600),
            trust: Trust::public(),
            limits: MirrorLimits::default(),
        }
    }

    /// Whether they fit each other, and the policy.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self, policy: &Policy) -> Result<(), MirrorSetupError> {
        self.check_upstreams()?;
        let names: Vec<_> = self.upstreams.iter().map(|it| it.name.clone()).collect();
        Ok(policy.check(&names)?)
    }

    /// Whether they fit each other.
    ///
    /// # Errors
    /// What does not.
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
    /// From `backoff_min` to `backoff_max`.
    pub(super) fn backoff(&self) -> Backoff {
        Backoff::new(self.backoff_min, self.backoff_max, fastrand::Rng::new())
    }
}

impl Default for MirrorLimits {
    fn default() -> Self {
        Self {
            requests_max: 16,
            file_fetches_max: 32,
            // Ten times that of rubygems.org.
            versions_bytes_max: 256 << 20,
            // Five times those of rubygems.org; each takes some 80 bytes while all are compared.
            names_max: 1_000_000,
            // On rubygems.org some names a day.
            names_gone_max: 1_000,
            names_gone_percent_max: 50,
            names_gone_window: Duration::from_secs(24 * 3_600),
            // A gem of 4,000 releases has 60 KB in a baseline.
            line_bytes_max: 4 << 20,
            malformed_lines_max: 1_000,
            // The largest real ones have 1.5 MB.
            info_bytes_max: 16 << 20,
            batch_gems: 500,
            batch_bytes: 4 << 20,
            failures_max: 8,
            attempts_max: 3,
            connect_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(30),
            info_timeout: Duration::from_secs(60),
            download_timeout: Duration::from_secs(900),
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            hooks_waiting_max: 100_000,
            hook_attempts_max: 10,
            hook_batch: 500,
        }
    }
}
