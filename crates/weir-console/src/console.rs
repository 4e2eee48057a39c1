//! State shared by all requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use weir_autopilot::AutopilotHandle;
use weir_base::token_bucket::{KeyedBuckets, Rate};

use crate::deps::Deps;
use crate::front::FrontSource;
use crate::gems::GemIndex;
use crate::guard::accounts::PasswordCheck;
use crate::guard::client::LoginClient;
use crate::guard::session::Sessions;
use crate::guard::token;
use crate::jobs::JobsSource;
use crate::metrics::{ConsoleLimit, ConsoleMetrics};
use crate::observed::ObservedSource;
use crate::page_error::PageError;
use crate::realtime::RealtimeSource;

/// Limit of addresses whose login attempts are counted separately: a megabyte at most.
const LOGIN_ADDRESSES_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Console {
    pub(crate) deps: Deps,
    /// The CSRF token of visitors without a session: on the login page, and everywhere if there is
    /// no password. Other sites cannot read it, so they cannot send it.
    pub(crate) csrf_without_session: String,
    sessions: Mutex<Sessions>,
    login_tries: Mutex<KeyedBuckets<LoginClient>>,
    password_checks: Semaphore,
}

impl Console {
    pub(crate) fn new(deps: Deps) -> Self {
        let limits = &deps.settings.limits;
        let rate = Rate::new(limits.login_burst, limits.login_interval);
        let sessions = Sessions::new(
            limits.sessions_max,
            deps.settings.session_idle_max,
            deps.settings.session_age_max,
        );
        Self {
            csrf_without_session: token::random(),
            sessions: Mutex::new(sessions),
            login_tries: Mutex::new(KeyedBuckets::new(rate, LOGIN_ADDRESSES_MAX)),
            password_checks: Semaphore::new(limits.password_checks_max),
            deps,
        }
    }

    /// Returns the job server, or an error if it is not served here.
    pub(crate) fn jobs(&self) -> Result<&JobsSource, PageError> {
        self.deps.jobs.as_ref().ok_or_else(PageError::no_jobs)
    }

    /// Returns the autopilot, or an error if it does not run here.
    pub(crate) fn autopilot(&self) -> Result<&AutopilotHandle, PageError> {
        self.deps.autopilot.as_ref().ok_or_else(PageError::no_jobs)
    }

    /// Returns the front's apps, or an error if they are not served here.
    pub(crate) fn front(&self) -> Result<&FrontSource, PageError> {
        let front = self.deps.front.as_ref();
        front.ok_or_else(|| {
            not_served(
                "the front is not served by this Weir: it was started with --only, without front",
            )
        })
    }

    /// Returns realtime, or an error if it is not served here.
    pub(crate) fn realtime(&self) -> Result<&RealtimeSource, PageError> {
        let realtime = self.deps.realtime.as_ref();
        realtime.ok_or_else(|| {
            not_served("realtime is not served by this Weir; add an app to [[realtime.apps]]")
        })
    }

    /// Returns the gem index, or an error if it is not served here.
    pub(crate) fn gems(&self) -> Result<&Arc<dyn GemIndex>, PageError> {
        let gems = self.deps.gems.as_ref();
        gems.ok_or_else(|| {
            not_served("gems are not served by this Weir; add a table [gems] to weir.toml")
        })
    }

    /// Returns the observed systems, or an error if nothing is observed.
    pub(crate) fn observed(&self) -> Result<&ObservedSource, PageError> {
        let observed = self.deps.observed.as_ref();
        observed.ok_or_else(|| {
            not_served("this Weir observes nothing; add a table [observe] to weir.toml")
        })
    }

    pub(crate) const fn metrics(&self) -> &ConsoleMetrics {
        self.deps.live.metrics()
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a password on another thread: a hash takes memory and time. Further checks wait.
    pub(crate) async fn check_password(&self, check: PasswordCheck, password: String) -> bool {
        if !check.is_costly() {
            return check.accepts(&password);
        }
        if self.password_checks.available_permits() == 0 {
            self.metrics().limit_hit(ConsoleLimit::PasswordChecksMax);
        }
        // The semaphore is never closed.
        let Ok(_permit) = self.password_checks.acquire().await else { return false };
        let checked = tokio::task::spawn_blocking(move || check.accepts(&password)).await;
        checked.unwrap_or(false)
    }

    pub(crate) fn login_tries(&self) -> MutexGuard<'_, KeyedBuckets<LoginClient>> {
        self.login_tries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_served(reason: &str) -> PageError {
    PageError::NotFound(reason.to_owned())
}
