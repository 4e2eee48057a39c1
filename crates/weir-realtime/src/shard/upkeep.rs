//! Periodic work: pings, deadlines, announcements, expired history.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use weir_base::clock::Timestamp;

use super::Shard;
use super::close_reason::CloseReason;
use super::state::ShardState;
use crate::app::App;
use crate::broker::{Announcement, Broker as _};
use crate::channel::Channel;
use crate::cores::SessionKey;
use crate::frame::Frame;
use crate::hub::Hub;
use crate::metrics::LimitKind;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message;
use crate::session::{ClientSession, ConnectionState};
use crate::websocket::Message;

/// The time between two rounds.
const TICK: Duration = Duration::from_millis(100);
/// Number of rounds in which every connection is checked once: one second.
pub(super) const ROUNDS: usize = 10;
/// How much longer the server waits than the client's own ping interval, as the client's ping may
/// be on its way.
const GRACE: Duration = Duration::from_secs(10);

/// Proxies close streams that are silent for a minute.
const EVENTS_PING: Duration = Duration::from_secs(25);

impl Shard {
    /// Runs the periodic work until the core ends.
    pub(super) async fn run_maintenance(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut part = self.index;
        for round in (0..ROUNDS).cycle() {
            ticks.tick().await;
            self.check_sessions(round);
            self.announce_due_changes();
            self.hub.remove_expired(part);
            part = (part + self.hub.cores.len()) % Hub::expiry_parts();
        }
    }

    /// Checks every tenth connection, starting at `round`.
    pub(super) fn check_sessions(&self, round: usize) {
        let state = &mut *self.state.borrow_mut();
        let now = self.hub.clock.now();
        let keys: Vec<SessionKey> = (round..state.sessions.capacity())
            .step_by(ROUNDS)
            .filter(|key| state.sessions.contains(*key))
            .filter_map(|key| SessionKey::try_from(key).ok())
            .collect();
        for key in keys {
            self.check_session(state, key, now);
        }
    }

    fn check_session(&self, state: &mut ShardState, key: SessionKey, now: Timestamp) {
        let settings = self.hub.settings();
        let session = state.session(key);
        match session.state {
            ConnectionState::Closing { until } | ConnectionState::Leaving { until } => {
                if now >= until {
                    self.remove_overdue(state, key);
                }
            }
            ConnectionState::Pinged { until } => {
                if now >= until {
                    self.close(state, key, CloseReason::Code(CloseCode::NoPong));
                }
            }
            ConnectionState::Open => {
                if let Some(reason) = self.is_overdue(session, now) {
                    self.close(state, key, reason);
                } else if session.stream.is_events() {
                    // A stream never receives anything. The ping keeps proxies from closing it.
                    if now.since(session.received_at) >= EVENTS_PING {
                        session.received_at = now;
                        let mut ping = Vec::new();
                        Message::Ping(b"").encode(&mut ping, None);
                        self.send(state, key, &ping);
                    }
                } else if now.since(session.received_at) >= settings.activity_timeout_max() + GRACE
                {
                    session.state =
                        ConnectionState::Pinged { until: now + settings.limits.pong_timeout };
                    let ping = Frame::text(server_message::ping);
                    self.send(state, key, ping.wire());
                }
            }
        }
    }

    /// Returns why an unused or unauthorized connection must be closed, if it is overdue.
    fn is_overdue(&self, session: &ClientSession, now: Timestamp) -> Option<CloseReason> {
        // A stream always has its channel, and a pending request must be answered first.
        if session.stream.is_events() || session.postponed.is_some() || session.is_waiting {
            return None;
        }
        let open = now.since(session.opened_at);
        let metrics = &self.hub.metrics;
        let authorization = session.app.settings().authorization_timeout;
        if !session.is_authorized && authorization.is_some_and(|timeout| open >= timeout) {
            metrics.limit_hit(LimitKind::AuthorizationTimeout);
            return Some(CloseReason::Unauthorized);
        }
        if !session.has_been_used && open >= self.hub.settings().limits.subscribe_timeout {
            metrics.limit_hit(LimitKind::SubscribeTimeout);
            return Some(CloseReason::Unused);
        }
        None
    }

    /// Announces that a channel's subscribers changed, now or, if it is too early, later.
    pub(super) fn announce_changes(
        &self,
        state: &mut ShardState,
        channel: &Arc<Channel>,
        app: &Arc<App>,
        subscribers: usize,
    ) {
        let announcement = self.hub.broker.announce_changes(app, channel, subscribers);
        if announcement == Announcement::Due {
            let (channel, app) = (Arc::clone(channel), Arc::clone(app));
            state.uncounted.insert(channel.id, (channel, app));
        }
    }

    /// Retries the announcements that were too early.
    pub(super) fn announce_due_changes(&self) {
        let state = &mut *self.state.borrow_mut();
        state.uncounted.retain(|_, (channel, app)| {
            let subscribers = channel.subscribers();
            self.hub.broker.announce_changes(app, channel, subscribers) == Announcement::Due
        });
    }
}
