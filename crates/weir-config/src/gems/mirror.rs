//! `[gems.mirror]` and `[[gems.mirror.upstreams]]`: gems of other indexes. The table switches it on.

mod limits;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use weir_base::secret::Secret;
use weir_gems::mirror::MirrorSetupError;
use weir_gems::mirror::policy::{POLICY_BYTES_MAX, Policy, PolicyError};
use weir_gems::mirror::settings::{FilesWhen, MirrorSettings, UpstreamSettings, UpstreamUrl};
use weir_gems::mirror::upstream_name::UpstreamName;

use super::super::keys::{Key, Keys};
use super::super::tls;
use weir_settings::{DAY, SECOND};

/// The section.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// The table is in the file.
    pub is_enabled: bool,
    pub settings: MirrorSettings,
    pub policy: Policy,
}

impl Default for Mirror {
    fn default() -> Self {
        let settings = MirrorSettings::new(Vec::new());
        Self { is_enabled: false, settings, policy: Policy::default() }
    }
}

impl Mirror {
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        let Self { is_enabled, settings, policy } = self;
        keys.choice_of(
            Key::fixed("files", "When .gem files are fetched: when somebody asks for one, and then kept; or all of them, after the index."),
            &[("on_demand", FilesWhen::OnDemand), ("eagerly", FilesWhen::Eagerly)],
            &mut settings.files,
        );
        read_policy(keys, policy);
        keys.duration(
            Key::fixed("interval", "How long after a look at what has changed the next one comes. Webhooks don't wait for it."),
            SECOND..=DAY,
            &mut settings.interval,
        );
        keys.duration(
            Key::fixed("reconcile_interval", "How long after all of an upstream's /versions was compared that is done again: what was never told is found then."),
            SECOND..=DAY * 365,
            &mut settings.reconcile_interval,
        );
        tls::read_trust(keys, Key::fixed, "gems.mirror.ca", &mut settings.trust);
        keys.section("limits", |keys| limits::read(keys, &mut settings.limits));
        let mut are_whole = true;
        keys.each("upstreams", |keys| match read_upstream(keys) {
            Some(upstream) => settings.upstreams.push(upstream),
            None => are_whole = false,
        });
        if *is_enabled
            && are_whole
            && let Err(error) = settings.check(policy)
        {
            let key = match &error {
                MirrorSetupError::Policy(_) => "policy",
                MirrorSetupError::Upstreams(_) | MirrorSetupError::Twice(_) => "upstreams",
            };
            keys.named_error_at(key, error.to_string());
        }
    }
}

fn read_policy(keys: &mut Keys<'_>, policy: &mut Policy) {
    let mut path: Option<PathBuf> = None;
    keys.optional_path(
        Key::live("policy", "File that says which names never come from an upstream (`private acme-*`) and which from a certain one alone (`from UPSTREAM NAME`), a line each; the first that matches decides. Empty it is a mistake, unless it has the line `none`. Read again by each reload. What is pushed or imported here is private without a line."),
        &mut path,
    );
    let Some(path) = path else { return };
    match read_policy_file(&path) {
        Ok(read) => *policy = read,
        Err(problem) => keys.error_at("policy", &format!("{}: {problem}", path.display())),
    }
}

/// The policy in a file.
pub fn read_policy_file(path: &Path) -> Result<Policy, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    // What has no length, such as a device, may have no end either.
    let mut file = File::open(path).map_err(cannot)?.take(POLICY_BYTES_MAX as u64 + 1);
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(cannot)?;
    text.parse().map_err(|error: PolicyError| error.to_string())
}

/// One upstream; None: it lacks something, which is a mistake already.
fn read_upstream(keys: &mut Keys<'_>) -> Option<UpstreamSettings> {
    let (mut name, mut url) = (None::<UpstreamName>, None::<UpstreamUrl>);
    keys.required_parsed(
        Key::fixed("name", "Required. What came from it is kept under this name, so a new URL goes on with it; for the policy and metrics, too."),
        &mut name,
    );
    keys.required_parsed(
        Key::fixed("url", "Required. Where its /versions lies, such as \"https://rubygems.org\". A name that several upstreams have comes from the first of them."),
        &mut url,
    );
    let (mut credentials, mut hook_secret) = (None::<Secret>, None::<Secret>);
    keys.secret(
        Key::fixed("credentials", "USER:PASSWORD, if it asks for them; sent to its own host alone. None: it asks for none."),
        &mut credentials,
    );
    keys.secret(
        Key::fixed("hook_secret", "What its webhooks are signed with: the api_key of a Weir's, the API key of an account at rubygems.org (or the SHA-256 of it, as hexadecimal digits), the token of the Bundler API's. None: it sends none."),
        &mut hook_secret,
    );
    let mut redirect_hosts = Vec::new();
    keys.parsed_texts(
        Key::fixed("redirect_hosts", "Hosts that it may send requests on to wherever they are. Others must be no nearer than the upstream itself: one in the internet leads neither into a private network nor to this machine, none to link-local addresses."),
        &mut redirect_hosts,
    );
    Some(UpstreamSettings { name: name?, url: url?, credentials, redirect_hosts, hook_secret })
}
