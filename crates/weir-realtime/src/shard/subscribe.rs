//! Subscribing to channels and unsubscribing.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::Shard;
use super::messages::write_error;
use super::state::ShardState;
use crate::app::App;
use crate::broker::{Broker as _, SubscribeError};
use crate::channel::{
    CacheState, Channel, Departure, Join, JoinRequest, LeaveRequest, ListedMember,
};
use crate::cores::SessionKey;
use crate::fanout::Subscriber;
use crate::frame::append_text;
use crate::metrics::{LimitKind, RecoveryOutcome};
use crate::pusher::channel::Access;
use crate::pusher::client_message::Subscribe;
use crate::pusher::presence_data::PresenceData;
use crate::pusher::server_message::{self, Recovery};
use crate::pusher::webhook::WebhookEvent;
use crate::session::{Postponed, Subscription};

/// Why a subscription was rejected, in the form that pusher-js expects.
struct SubscribeRefusal {
    kind: &'static str,
    status: u16,
    message: String,
}

impl SubscribeRefusal {
    fn auth(message: impl ToString) -> Self {
        Self { kind: "AuthError", status: 401, message: message.to_string() }
    }

    fn invalid(message: impl ToString) -> Self {
        Self { kind: "InvalidData", status: 400, message: message.to_string() }
    }

    fn limit(message: impl ToString) -> Self {
        Self { kind: "LimitReached", status: 429, message: message.to_string() }
    }

    fn busy(message: impl ToString) -> Self {
        Self { kind: "Busy", status: 503, message: message.to_string() }
    }

    fn is_busy(&self) -> bool {
        self.status == 503
    }
}

impl Shard {
    pub(super) fn subscribe(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        request: Subscribe,
        output: &mut Vec<u8>,
    ) {
        let name = request.channel.clone();
        let session = state.session(key);
        if !std::mem::take(&mut session.has_prepaid) {
            session.unpaid_subscriptions = session.unpaid_subscriptions.saturating_add(1);
        }
        if state.subscription_to(key, name.as_str()).is_some() {
            return write_error(output, &format!("already subscribed to {name}"));
        }
        let subscribed = self
            .authorise(state, key, &request)
            .and_then(|()| self.try_subscribe(state, key, &request, output));
        match subscribed {
            // pusher-js treats an error as final, but room will be available soon.
            Err(error) if error.is_busy() => {
                // The next attempt is charged before it is made.
                state.session(key).has_prepaid = true;
                self.postpone(state, key, Postponed::Subscribe(request));
            }
            subscribed => {
                if subscribed.is_err() {
                    self.cancel_admission(state, key, &request);
                }
                write_rejection(subscribed, name.as_str(), output);
            }
        }
    }

    /// Ends the request to admit a member to a presence channel: the connection does not join it.
    fn cancel_admission(&self, state: &mut ShardState, key: SessionKey, request: &Subscribe) {
        if let Ok(Some(member)) = self.member(state, key, request) {
            let app = &state.session(key).app;
            self.hub.broker.cancel_admission(app, &request.channel, &member.user_id);
        }
    }

    /// Subscribes a stream, whose permission was already checked. Like a WebSocket, it waits for room, and for the
    /// position of a channel of the shared log.
    pub(super) fn subscribe_authorised(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        request: Subscribe,
        output: &mut Vec<u8>,
    ) {
        match self.try_subscribe(state, key, &request, output) {
            Err(error) if error.is_busy() => {
                self.postpone(state, key, Postponed::Stream(request));
            }
            subscribed => write_rejection(subscribed, request.channel.as_str(), output),
        }
    }

    fn try_subscribe(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        request: &Subscribe,
        output: &mut Vec<u8>,
    ) -> Result<(), SubscribeRefusal> {
        let max = self.hub.settings().limits.channels_per_connection_max;
        if state.session(key).subscriptions.len() >= max {
            self.hub.metrics.limit_hit(LimitKind::ChannelsPerConnection);
            let setting = "realtime.limits.advanced.channels_per_connection_max";
            return Err(SubscribeRefusal::limit(format_args!(
                "a connection may subscribe to {max} channels ({setting})"
            )));
        }
        let member = self.member(state, key, request)?;
        let app = Arc::clone(&state.session(key).app);
        let user_id = member.as_ref().map(|member| Arc::clone(&member.user_id));
        let (channel, join) = self.join(&app, request, member)?;
        let slot = state.slot(&channel, &app);
        let wants_member_changes = join.joined.members_version.is_some();
        let subscriber = Subscriber { session: key, wants_member_changes, from: join.sequence };
        let index = state.channels[slot as usize].fanout.add(subscriber);
        let subscription =
            Subscription { channel: slot, index, user_id: user_id.clone(), wants_member_changes };
        let session = state.session(key);
        session.subscriptions.push(subscription);
        session.has_been_used = true;
        session.is_authorized |= channel.kind.access != Access::Public;
        self.hub.metrics.subscriptions(1);
        write_joined(output, &channel, &join);
        self.count_recovery(&join);
        self.announce_changes(state, &channel, &app, join.subscribers);
        Ok(())
    }

    /// Checks that the connection may subscribe to the channel.
    fn authorise(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        request: &Subscribe,
    ) -> Result<(), SubscribeRefusal> {
        let session = state.session(key);
        match request.channel.kind().access {
            Access::Public => Ok(()),
            Access::ServerToUser => {
                let user = session.user.as_ref().map(|user| &*user.user_id);
                match user == request.channel.server_to_user() {
                    true => Ok(()),
                    false => {
                        Err(SubscribeRefusal::auth("only the signed-in user may subscribe to this"))
                    }
                }
            }
            Access::Private | Access::Presence | Access::Encrypted => {
                let settings = session.app.settings();
                let (auth, data) = (request.auth.as_deref(), request.channel_data.as_deref());
                settings
                    .token()
                    .verify_subscription(auth, session.socket_id, &request.channel, data)
                    .map_err(SubscribeRefusal::auth)
            }
        }
    }

    /// Returns the member as which the connection joins a presence channel: the user of
    /// `channel_data`, or the signed-in user. None for other channels.
    fn member(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        request: &Subscribe,
    ) -> Result<Option<ListedMember>, SubscribeRefusal> {
        if !request.channel.kind().has_presence() {
            return Ok(None);
        }
        let settings = self.hub.settings();
        match (&request.channel_data, &state.session(key).user) {
            (Some(data), _) => {
                let data = PresenceData::parse(data, &settings.limits.pusher)
                    .map_err(SubscribeRefusal::invalid)?;
                let user_info = data.user_info.map(|info| Arc::<RawValue>::from(info.to_owned()));
                Ok(Some(ListedMember { user_id: Arc::from(&*data.user_id), user_info }))
            }
            (None, Some(user)) => Ok(Some(ListedMember {
                user_id: Arc::clone(&user.user_id),
                user_info: user.user_info.clone(),
            })),
            (None, None) => Err(SubscribeRefusal::invalid(
                "a presence channel needs channel_data with a user_id, or a user who has signed in",
            )),
        }
    }

    fn join(
        &self,
        app: &Arc<App>,
        request: &Subscribe,
        member: Option<ListedMember>,
    ) -> Result<(Arc<Channel>, Join), SubscribeRefusal> {
        let joining = JoinRequest {
            core: self.index,
            member,
            recover: request.recover,
            needs_position: self.hub.broker.log.is_some(),
            wants_member_changes: request.member_changes && request.channel.kind().has_presence(),
            now: self.hub.clock.now(),
        };
        let on_join = |channel: &Channel, join: &Join| {
            self.send_join(app, channel, join, joining.member.as_ref());
        };
        let subscribed = self.hub.broker.subscribe(app, &request.channel, &joining, on_join);
        subscribed.map_err(|error| match error {
            SubscribeError::Busy(_)
            | SubscribeError::Unsynchronized
            | SubscribeError::Unadmitted => SubscribeRefusal::busy(error),
            SubscribeError::TooManyChannels(_) | SubscribeError::TooManyMembers(_) => {
                SubscribeRefusal::limit(error)
            }
        })
    }

    fn count_recovery(&self, join: &Join) {
        match join.joined.recovery {
            Some(Recovery::Recovered { .. }) => {
                self.hub.metrics.recovery(RecoveryOutcome::Recovered);
            }
            Some(Recovery::Gap) => self.hub.metrics.recovery(RecoveryOutcome::Gap),
            None => {}
        }
    }

    fn send_join(&self, app: &App, channel: &Channel, join: &Join, member: Option<&ListedMember>) {
        let hooks = &app.settings().hooks;
        let name = channel.name.as_str();
        if join.was_empty && self.reports_changes() {
            self.hub.webhooks.enqueue(hooks, &WebhookEvent::ChannelOccupied { channel: name });
        }
        let is_reported = join.is_new_member && self.reports_changes();
        if let Some(member) = member.filter(|_| is_reported) {
            let user_id = &*member.user_id;
            self.hub.webhooks.enqueue(hooks, &WebhookEvent::MemberAdded { channel: name, user_id });
        }
        if matches!(join.cache, CacheState::Miss) {
            self.hub.webhooks.enqueue(hooks, &WebhookEvent::CacheMiss { channel: name });
        }
        self.send_count_event(app, channel, join.subscribers);
    }

    /// Returns whether this node decides what its subscribers change. Otherwise the log does, for all nodes.
    fn reports_changes(&self) -> bool {
        self.hub.broker.log.is_none()
    }

    fn send_count_event(&self, app: &App, channel: &Channel, subscription_count: usize) {
        let settings = app.settings();
        let has_count = settings.has_subscription_counts && channel.kind.sends_subscription_count();
        if has_count && self.reports_changes() {
            let channel = channel.name.as_str();
            let event = WebhookEvent::SubscriptionCount { channel, subscription_count };
            self.hub.webhooks.enqueue(&settings.hooks, &event);
        }
    }

    pub(super) fn unsubscribe(&self, state: &mut ShardState, key: SessionKey, name: &str) {
        // Unsubscribing from a channel without a subscription has no effect.
        if let Some(index) = state.subscription_to(key, name) {
            let subscription = state.session(key).subscriptions.swap_remove(index);
            self.leave(state, &subscription);
        }
    }

    /// Unsubscribes from all channels and signs the user out.
    pub(super) fn leave_all(&self, state: &mut ShardState, key: SessionKey) {
        let postponed = state.session(key).postponed.take().map(|postponed| *postponed);
        if let Some(Postponed::Subscribe(request)) = postponed {
            self.cancel_admission(state, key, &request);
        }
        for subscription in std::mem::take(&mut state.session(key).subscriptions) {
            self.leave(state, &subscription);
        }
        self.sign_out(state, key);
    }

    fn leave(&self, state: &mut ShardState, subscription: &Subscription) {
        let slot = subscription.channel;
        let local = &mut state.channels[slot as usize];
        let (channel, app) = (Arc::clone(&local.channel), Arc::clone(&local.app));
        for moved in local.fanout.remove(subscription.index).into_iter().flatten() {
            let subscriptions = &mut state.session(moved.session).subscriptions;
            let entry = subscriptions.iter_mut().find(|entry| entry.channel == slot);
            entry.expect("who is among the subscribers has a subscription").index = moved.index;
        }
        self.hub.metrics.subscriptions(-1);
        state.forget_if_empty(slot);
        let user_id = subscription.user_id.as_deref();
        let request = LeaveRequest {
            core: self.index,
            user_id,
            wants_member_changes: subscription.wants_member_changes,
            now: self.hub.clock.now(),
        };
        let departure = self.hub.broker.unsubscribe(&app, &channel, request, |departure| {
            self.send_leave(&app, &channel, departure, user_id);
        });
        if departure.subscribers > 0 {
            self.announce_changes(state, &channel, &app, departure.subscribers);
        }
    }

    fn send_leave(
        &self,
        app: &App,
        channel: &Channel,
        departure: Departure,
        user_id: Option<&str>,
    ) {
        let hooks = &app.settings().hooks;
        let name = channel.name.as_str();
        let is_reported = departure.is_member_gone && self.reports_changes();
        if let Some(user_id) = user_id.filter(|_| is_reported) {
            let event = WebhookEvent::MemberRemoved { channel: name, user_id };
            self.hub.webhooks.enqueue(hooks, &event);
        }
        self.send_count_event(app, channel, departure.subscribers);
        if departure.subscribers == 0 && self.reports_changes() {
            self.hub.webhooks.enqueue(hooks, &WebhookEvent::ChannelVacated { channel: name });
        }
    }
}

impl ShardState {
    /// Returns the index of the connection's subscription to this channel.
    pub(super) fn subscription_to(&self, key: SessionKey, name: &str) -> Option<usize> {
        let session = &self.sessions[key as usize];
        session.subscriptions.iter().position(|subscription| {
            let local = &self.channels[subscription.channel as usize];
            local.channel.name.as_str() == name
        })
    }
}

fn write_rejection(subscribed: Result<(), SubscribeRefusal>, name: &str, output: &mut Vec<u8>) {
    if let Err(SubscribeRefusal { kind, status, message }) = subscribed {
        append_text(output, |out| {
            server_message::subscription_error(out, name, kind, &message, status);
        });
    }
}

/// Appends the response to a subscription: its confirmation, the missed events and the cached
/// event.
fn write_joined(output: &mut Vec<u8>, channel: &Channel, join: &Join) {
    let name = channel.name.as_str();
    append_text(output, |out| match &join.members {
        None => server_message::subscription_succeeded(out, name, &join.joined),
        Some(listing) => server_message::presence_subscription_succeeded(
            out,
            name,
            &join.joined,
            listing.count,
            listing.members.iter().map(ListedMember::as_member),
        ),
    });
    for frame in &join.missed {
        output.extend_from_slice(frame.wire());
    }
    match &join.cache {
        CacheState::None => {}
        // After a recovery, the client already has the event, or gets it with the missed ones.
        CacheState::Hit(_) if matches!(join.joined.recovery, Some(Recovery::Recovered { .. })) => {}
        CacheState::Hit(frame) => output.extend_from_slice(frame.wire()),
        CacheState::Miss => append_text(output, |out| server_message::cache_miss(out, name)),
    }
}
