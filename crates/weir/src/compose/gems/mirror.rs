//! The mirror of other indexes, on its own thread: parsing megabytes of `/versions` and thousands
//! of infos must delay neither pages nor webhooks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_base::secret::Secret;
use weir_base::shutdown::ShutdownToken;
use weir_gems::mirror::policy::Policy;
use weir_gems::mirror::settings::RedirectHost;
use weir_gems::mirror::upstream_name::UpstreamName;
use weir_gems::mirror::{MirrorParts, PolicyChangeError};
use weir_gems::{Files, MirrorMetrics};

use weir_cli::data_dir::handover_lock::{HandoverLock, LockedResource};
use weir_config::Settings;
use weir_gems::Gems;
use weir_gems::mirror::Mirror;

const THREAD: &str = "weir-mirror";

/// The mirror, and the thread that keeps it up to date.
#[derive(Debug)]
pub(super) struct Mirroring {
    mirror: Arc<Mirror>,
    /// The settings at the start.
    settings: weir_config::Mirror,
    policy: watch::Sender<Policy>,
    shutdown: ShutdownToken,
    /// Cancelled when the thread has ended; None: it was not started.
    ended: Option<CancellationToken>,
}

impl Mirroring {
    /// Opens the mirror in the settings; None: there is none. From now on it serves files and
    /// accepts webhooks; it contacts upstreams only once it is started.
    pub(super) async fn open(
        settings: &Settings,
        index: &Gems,
        files: Files,
        clock: &Clock,
        registry: &mut Registry,
    ) -> anyhow::Result<Option<Self>> {
        let new_settings = &settings.gems.mirror;
        if !new_settings.is_enabled {
            return Ok(None);
        }
        let mirror = Mirror::new(MirrorParts {
            store: index.shared_store(),
            files,
            settings: new_settings.settings.clone(),
            policy: new_settings.policy.clone(),
            package: settings.gems.settings.limits.package.clone(),
            clock: clock.clone(),
            metrics: MirrorMetrics::register(registry),
        })?;
        // Releases that have become private must not be served. An unavailable store serves
        // nothing.
        if let Err(error) = mirror.prepare().await {
            tracing::warn!(%error, "{POLICY_NOT_APPLIED}");
        }
        index.attach_mirror(Arc::clone(&mirror) as _);
        Ok(Some(Self {
            mirror,
            settings: new_settings.clone(),
            policy: watch::Sender::new(new_settings.policy.clone()),
            shutdown: ShutdownToken::new(),
            ended: None,
        }))
    }

    /// Starts the thread, which synchronizes once no other process with this data_dir does.
    pub(super) fn start(&mut self, data_dir: &Path) -> anyhow::Result<()> {
        let running = Running {
            lock: HandoverLock::open(LockedResource::Mirror, data_dir)?,
            mirror: Arc::clone(&self.mirror),
            policies: self.policy.subscribe(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (shutdown, ended) = (self.shutdown.clone(), CancellationToken::new());
        // Dropped however the thread ends.
        let ended_guard = ended.clone().drop_guard();
        let run = move || {
            let _ended_guard = ended_guard;
            runtime.block_on(async {
                tokio::select! {
                    () = running.run(&shutdown) => {}
                    () = shutdown.requested() => {}
                }
            });
            // The task may still be waiting for the lock.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name(THREAD.to_owned()).spawn(run).context(THREAD)?;
        self.ended = Some(ended);
        Ok(())
    }

    /// Resolves when the thread has ended by itself.
    pub(super) async fn ended(&self) -> String {
        match &self.ended {
            Some(ended) => ended.cancelled().await,
            None => std::future::pending().await,
        }
        "the gem mirror ended unexpectedly".to_owned()
    }

    /// Applies a new policy and new limits of files; returns the setting that needs a restart, if
    /// any.
    pub(super) fn reload(&self, settings: &Settings) -> Option<String> {
        let new_settings = &settings.gems.mirror;
        if !new_settings.is_enabled {
            return Some("gems.mirror".to_owned());
        }
        self.mirror.set_package_limits(settings.gems.settings.limits.package.clone());
        self.policy.send_if_modified(|policy| {
            let is_changed = *policy != new_settings.policy;
            policy.clone_from(&new_settings.policy);
            is_changed
        });
        (upstream_identities(&self.settings) != upstream_identities(new_settings))
            .then(|| "gems.mirror.upstreams".to_owned())
    }

    /// Stops the thread. Unfinished work stays as it is: the next start continues from there.
    pub(super) async fn finish(self, time_left: Duration) {
        self.shutdown.request();
        if let Some(ended) = self.ended
            && tokio::time::timeout(time_left, ended.cancelled()).await.is_err()
        {
            tracing::warn!("the gem mirror was interrupted: the shutdown deadline has passed");
        }
    }
}

/// Returns what distinguishes upstreams, with their secrets, which are hidden in other comparisons.
fn upstream_identities(mirror: &weir_config::Mirror) -> Vec<UpstreamIdentity<'_>> {
    let upstreams = mirror.settings.upstreams.iter();
    let identities = upstreams.map(|it| {
        let secrets = [&it.credentials, &it.hook_secret];
        (&it.name, it.url.to_string(), secrets, &it.redirect_hosts[..])
    });
    identities.collect()
}

type UpstreamIdentity<'a> = (&'a UpstreamName, String, [&'a Option<Secret>; 2], &'a [RedirectHost]);

/// The state of the thread.
struct Running {
    lock: HandoverLock,
    mirror: Arc<Mirror>,
    policies: watch::Receiver<Policy>,
}

impl Running {
    async fn run(self, shutdown: &ShutdownToken) {
        let Self { lock, mirror, policies } = self;
        let newest = policies.clone();
        let synchronizing = async {
            let _lock = match lock.acquire().await {
                Ok(lock) => lock,
                Err(error) => return tracing::error!("gems.mirror: {error:#}"),
            };
            // The previous process may have added releases that the current policy makes private.
            let policy = newest.borrow().clone();
            apply_policy(&mirror, policy).await;
            mirror.run(shutdown).await;
        };
        tokio::select! {
            () = synchronizing => {}
            () = apply_new_policies(&mirror, policies) => {}
        }
    }
}

/// Applies new policies as they arrive. It is never cancelled half-way: releases that a policy
/// makes private are removed after the synchronization in progress.
async fn apply_new_policies(mirror: &Mirror, mut policies: watch::Receiver<Policy>) {
    while policies.changed().await.is_ok() {
        let policy = policies.borrow_and_update().clone();
        apply_policy(mirror, policy).await;
    }
    std::future::pending().await
}

async fn apply_policy(mirror: &Mirror, policy: Policy) {
    match mirror.set_policy(policy).await {
        Ok(()) => {}
        Err(PolicyChangeError::Policy(error)) => {
            tracing::warn!(%error, "gems.mirror.policy is unchanged");
        }
        Err(PolicyChangeError::Store(error)) => tracing::warn!(%error, "{POLICY_NOT_APPLIED}"),
    }
}

const POLICY_NOT_APPLIED: &str =
    "gems.mirror.policy was not applied yet; it is before the next look";
