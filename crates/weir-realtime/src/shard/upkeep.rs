//! What is done from time to time: pings, deadlines, counts, old history.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use weir_base::clock::Timestamp;

use super::closing::Why;
use super::{Shard, State};
use crate::app::App;
use crate::channel::Channel;
use crate::fanout::SessionKey;
use crate::frame::Frame;
use crate::hub::Hub;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message;
use crate::session::State as Life;
use crate::settings::{COUNT_INTERVAL, COUNTED_AT_ONCE_MAX};

/// Between two rounds.
const TICK: Duration = Duration::from_millis(100);
/// Rounds in which every connection is looked at once: a second.
pub(super) const ROUNDS: usize = 10;
/// What the server waits beyond a client's own time to ping: the client's ping may be on its way.
const GRACE: Duration = Duration::from_secs(10);

/// Proxies give up on a stream that is silent for a minute.
const EVENTS_PING: Duration = Duration::from_secs(25);

impl Shard {
    /// Goes round until the core ends.
    pub(super) async fn keep_up(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut part = self.index;
        for round in (0..ROUNDS).cycle() {
            ticks.tick().await;
            self.look_at_sessions(round);
            self.tell_counts();
            self.hub.tidy(part);
            part = (part + self.hub.cores.len()) % Hub::tidy_parts();
        }
    }

    /// Every tenth connection.
    pub(super) fn look_at_sessions(&self, round: usize) {
        let state = &mut *self.state.borrow_mut();
        let now = self.hub.clock.now();
        let keys: Vec<SessionKey> = (round..state.sessions.capacity())
            .step_by(ROUNDS)
            .filter(|key| state.sessions.contains(*key))
            .filter_map(|key| SessionKey::try_from(key).ok())
            .collect();
        for key in keys {
            self.look_at(state, key, now);
        }
    }

    fn look_at(&self, state: &mut State, key: SessionKey, now: Timestamp) {
        let settings = self.hub.settings();
        let session = state.session(key);
        match session.state {
            Life::Closing { until } | Life::Leaving { until } => {
                if now >= until {
                    self.remove_overdue(state, key);
                }
            }
            Life::Pinged { until } => {
                if now >= until {
                    self.close(state, key, Why::Code(CloseCode::NoPong));
                }
            }
            Life::Open => {
                if session.stream.is_events() {
                    // Nothing is ever heard of it: a sign of life for what is between.
                    if now.since(session.heard_at) >= EVENTS_PING {
                        session.heard_at = now;
                        let ping = Frame::text(server_message::ping);
                        self.send(state, key, ping.wire());
                    }
                } else if now.since(session.heard_at) >= settings.activity_timeout_max() + GRACE {
                    session.state = Life::Pinged { until: now + settings.limits.pong_timeout };
                    let ping = Frame::text(server_message::ping);
                    self.send(state, key, ping.wire());
                }
            }
        }
    }

    /// A channel has another number of subscribers: they are told now or later.
    pub(super) fn tell_count(
        &self,
        state: &mut State,
        channel: &Arc<Channel>,
        app: &Arc<App>,
        subscribers: usize,
    ) {
        let Some(interval) = count_interval(channel, app, subscribers) else { return };
        if channel.tell_count(interval, &self.hub.cores, self.hub.clock.now()) {
            let (channel, app) = (Arc::clone(channel), Arc::clone(app));
            state.uncounted.insert(channel.id, (channel, app));
        }
    }

    pub(super) fn tell_counts(&self) {
        let state = &mut *self.state.borrow_mut();
        let now = self.hub.clock.now();
        state.uncounted.retain(|_, (channel, app)| {
            count_interval(channel, app, channel.info().subscribers)
                .is_some_and(|interval| channel.tell_count(interval, &self.hub.cores, now))
        });
    }
}

/// How long a channel's number may be old; None: it is not told.
fn count_interval(channel: &Channel, app: &App, subscribers: usize) -> Option<Duration> {
    let settings = app.settings();
    let kind = channel.kind;
    if kind.has_presence() {
        // Below, its subscribers are told of each member.
        let is_large = subscribers >= settings.presence.list_max;
        return is_large.then_some(settings.presence.gather);
    }
    if !settings.has_subscription_counts || !kind.sends_subscription_count() {
        return None;
    }
    Some(if subscribers <= COUNTED_AT_ONCE_MAX { Duration::ZERO } else { COUNT_INTERVAL })
}
