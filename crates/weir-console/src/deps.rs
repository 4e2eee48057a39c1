//! The dependencies of the console.

use std::sync::Arc;

use axum::Router;
use weir_access::AuditLog;
use weir_autopilot::AutopilotHandle;
use weir_base::clock::Clock;

use crate::demo::DemoControl;
use crate::front::FrontSource;
use crate::gems::GemIndex;
use crate::guard::accounts::Accounts;
use crate::jobs::JobsSource;
use crate::live::Live;
use crate::observed::ObservedSource;
use crate::realtime::RealtimeSource;
use crate::settings::ConsoleSettings;

/// The parts that the console shows. A part that is None is not served by this process and has no
/// pages.
#[derive(Clone, Debug)]
pub struct Deps {
    pub jobs: Option<JobsSource>,
    /// Shared with [`crate::sampler::Sampler`].
    pub live: Live,
    pub clock: Clock,
    pub settings: ConsoleSettings,
    /// The users and tokens of `settings`; a reload replaces them.
    pub accounts: Accounts,
    pub audit: AuditLog,
    pub realtime: Option<RealtimeSource>,
    pub front: Option<FrontSource>,
    pub gems: Option<Arc<dyn GemIndex>>,
    pub observed: Option<ObservedSource>,
    pub autopilot: Option<AutopilotHandle>,
    pub demo: DemoControl,
    pub routes: Routes,
}

/// Routes of other parts on the same port.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// The admin API, without its prefix: mounted at `/v1`, behind the token, or a session with
    /// the CSRF token in `x-csrf-token`.
    pub api: Router,
    /// `/metrics`: behind the token or a session, unless `metrics_without_login`.
    pub metrics: Router,
    /// `/health`, `/ready`: no login needed.
    pub open: Router,
}
