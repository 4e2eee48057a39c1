//! Takes and renews the lease in a task of its own, so that a slow store delays nothing. The loop reads what is known.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::lease::{Lease, LeaseClaim, LeaseState, RENEWALS};
use crate::sources::LeaseStore;

/// Limit of the time to give the lease back: the next holder waits for its end otherwise.
pub(super) const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// What is known of the lease.
pub(super) struct LeaseKeeper {
    /// Where the lease is. `None`: there is no place for one.
    pub(super) store: Option<String>,
    known: watch::Receiver<Lease>,
    wanted: watch::Sender<bool>,
    task: Option<BoxFuture<'static, ()>>,
    /// When it was possible to act for the last time.
    acted_seconds: f64,
    /// What was said last.
    said: Option<(LeaseState, String)>,
}

impl LeaseKeeper {
    /// `started`: the zero of the clock of the rules.
    pub(super) fn new(
        store: Option<Box<dyn LeaseStore>>,
        claim: LeaseClaim,
        started: Instant,
        sample_timeout: Duration,
    ) -> Self {
        let (sender, known) = watch::channel(Lease::default());
        let (wanted, is_wanted) = watch::channel(false);
        let name = store.as_ref().map(|store| store.name());
        let task = store.map(|store| {
            let within = sample_timeout.min(claim.lifetime / RENEWALS);
            let keeping = Keeping { store, claim, within, started, known: sender };
            Box::pin(keeping.run(is_wanted)) as BoxFuture<'static, ()>
        });
        Self { store: name, known, wanted, task, acted_seconds: 0.0, said: None }
    }

    /// Returns the task that keeps the lease. It ends, and gives the lease back, when this is dropped.
    pub(super) fn take_task(&mut self) -> Option<BoxFuture<'static, ()>> {
        self.task.take()
    }

    /// Takes the lease, or gives it back.
    pub(super) fn set_wanted(&mut self, is_wanted: bool) {
        self.wanted.send_replace(is_wanted);
        if !is_wanted {
            self.said = None;
        }
    }

    /// Returns what is known now.
    pub(super) fn known(&self) -> Lease {
        self.known.borrow().clone()
    }

    pub(super) fn may_act(&self, now_seconds: f64) -> bool {
        self.known.borrow().may_act(now_seconds)
    }

    /// Returns for how long this process could not act.
    pub(super) fn idle_seconds(&mut self, now_seconds: f64) -> f64 {
        if self.may_act(now_seconds) {
            self.acted_seconds = now_seconds;
        }
        now_seconds - self.acted_seconds
    }

    /// Returns a sentence if who may act has changed since the last call.
    pub(super) fn changed(&mut self, now_seconds: f64) -> Option<String> {
        let (lease, store) = (self.known(), self.store.as_deref()?);
        let state = lease.state(now_seconds);
        // Nothing is known yet.
        if state == LeaseState::Unknown && lease.problem().is_none() && self.said.is_none() {
            return None;
        }
        let said = (state, lease.other().unwrap_or_default().to_owned());
        let is_new = self.said.as_ref() != Some(&said);
        self.said = Some(said);
        is_new.then(|| lease.sentence(store, now_seconds))
    }
}

/// The task.
struct Keeping {
    store: Box<dyn LeaseStore>,
    claim: LeaseClaim,
    /// Limit of the time of one request.
    within: Duration,
    started: Instant,
    known: watch::Sender<Lease>,
}

impl Keeping {
    async fn run(mut self, mut wanted: watch::Receiver<bool>) {
        while wanted.wait_for(|is_wanted| *is_wanted).await.is_ok() {
            self.known.send_replace(Lease::new(self.claim.lifetime));
            self.hold(&mut wanted).await;
            self.known.send_replace(Lease::default());
            // It ends by itself otherwise.
            let _ = timeout(RELEASE_TIMEOUT, self.store.release(&self.claim)).await;
        }
    }

    /// Takes and renews the lease until it is not wanted.
    async fn hold(&mut self, wanted: &mut watch::Receiver<bool>) {
        let mut ticks = interval(self.claim.lifetime / RENEWALS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = wanted.wait_for(|is_wanted| !*is_wanted) => return,
                _ = ticks.tick() => {}
            }
            let asked = self.now_seconds();
            let reply = timeout(self.within, self.store.take(&self.claim)).await;
            let within = self.within;
            let reply = reply.unwrap_or_else(|_| Err(format!("no reply within {within:?}")));
            let now = self.now_seconds();
            self.known.send_modify(|lease| match reply {
                Ok(reply) => lease.note_reply(asked, now, reply),
                Err(error) => lease.note_error(error),
            });
        }
    }

    fn now_seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
