//! What all requests share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_base::token_bucket::{KeyedBuckets, Rate};

use crate::Deps;
use crate::guard::client::Client;
use crate::guard::session::Sessions;
use crate::guard::token;
use crate::jobs::Jobs;
use crate::metrics::ConsoleMetrics;
use crate::pages::PageError;

#[derive(Debug)]
pub(crate) struct Console {
    pub(crate) deps: Deps,
    /// The CSRF token of people without a session: the login page, and everybody where there is
    /// no password. Other sites can't read it, so they can't send it.
    pub(crate) csrf_without_session: String,
    sessions: Mutex<Sessions>,
    login_tries: Mutex<KeyedBuckets<Client>>,
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
            login_tries: Mutex::new(KeyedBuckets::new(rate, limits.login_addresses_max)),
            deps,
        }
    }

    /// The job server, if it is served here.
    pub(crate) fn jobs(&self) -> Result<&Jobs, PageError> {
        self.deps.jobs.as_ref().ok_or_else(PageError::no_jobs)
    }

    pub(crate) const fn metrics(&self) -> &ConsoleMetrics {
        self.deps.live.metrics()
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn login_tries(&self) -> MutexGuard<'_, KeyedBuckets<Client>> {
        self.login_tries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
