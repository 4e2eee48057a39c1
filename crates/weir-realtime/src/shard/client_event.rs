//! Events of clients for the other subscribers of a private channel.

use std::sync::Arc;

use super::messages::complain;
use super::{Shard, State};
use crate::app::App;
use crate::channel::{Channel, Keeps, Publication, PublishError};
use crate::fanout::SessionKey;
use crate::frame::{Draft, append_text};
use crate::hub::Audience;
use crate::metrics::Limit;
use crate::pusher::client_message::ClientEvent;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message::{self, ChannelEvent};
use crate::pusher::socket_id::SocketId;
use crate::pusher::webhook::WebhookEvent;

impl Shard {
    pub(super) fn client_event(
        &self,
        state: &mut State,
        key: SessionKey,
        event: &ClientEvent<'_>,
        output: &mut Vec<u8>,
    ) {
        let now = self.hub.clock.now();
        let session = state.session(key);
        let app = Arc::clone(&session.app);
        let settings = app.settings();
        if !settings.has_client_events {
            return complain(output, "this app does not allow client events (client_events)");
        }
        if session.client_events.take(settings.client_event_rate, now).is_err() {
            self.hub.metrics.limit_hit(Limit::ClientEventRate);
            let code = CloseCode::ClientEventRate;
            return append_text(output, |out| {
                server_message::error(out, Some(code), code.reason());
            });
        }
        let Some(index) = state.subscription_to(key, &event.channel) else {
            return complain(output, &format!("not subscribed to {}", event.channel));
        };
        let session = &state.sessions[key as usize];
        let subscription = &session.subscriptions[index];
        let channel = Arc::clone(&state.channels[subscription.channel as usize].channel);
        if !channel.kind.allows_client_events() {
            let name = &channel.name;
            let why =
                format!("{name} takes no client events: only private and presence channels do");
            return complain(output, &why);
        }
        let sender = Sender { socket_id: session.socket_id, user_id: subscription.user_id.clone() };
        match self.pass_on(&channel, event, &sender) {
            Ok(Passed::On) => self.tell_of_client_event(&app, &channel, event, &sender),
            Ok(Passed::SwitchedOff) => {}
            Err(error) => complain(output, &error.to_string()),
        }
    }

    fn pass_on(
        &self,
        channel: &Channel,
        event: &ClientEvent<'_>,
        sender: &Sender,
    ) -> Result<Passed, PublishError> {
        let name = event.event.as_str();
        if self.hub.switches().is_off(name, self.hub.clock.now()) {
            self.hub.metrics.switched_off();
            return Ok(Passed::SwitchedOff);
        }
        let draft = Draft::new(&ChannelEvent {
            event: name,
            channel: channel.name.as_str(),
            data: event.data.as_ref().map(|data| data.as_str()),
            user_id: sender.user_id.as_deref(),
            position: None,
        });
        let publication = Publication {
            draft,
            audience: Audience::Except(sender.socket_id),
            event: name,
            data: "",
            keeps: Keeps::Nothing,
            now: self.hub.clock.now(),
        };
        match channel.publish(publication, &self.hub.cores) {
            Ok(_) => self.hub.metrics.client_event(),
            Err(error) => {
                self.hub.metrics.limit_hit(Limit::CoreQueue);
                return Err(error);
            }
        }
        Ok(Passed::On)
    }

    fn tell_of_client_event(
        &self,
        app: &App,
        channel: &Channel,
        event: &ClientEvent<'_>,
        sender: &Sender,
    ) {
        let told = WebhookEvent::ClientEvent {
            channel: channel.name.as_str(),
            event: event.event.as_str(),
            data: event.data.as_ref().map(|data| data.as_str()),
            socket_id: sender.socket_id,
            user_id: sender.user_id.as_deref(),
        };
        self.hub.webhooks.tell(&app.settings().hooks, &told);
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    /// It is on its way to the others.
    On,
    /// Nobody gets it, nor is told of it.
    SwitchedOff,
}

/// Who sends.
struct Sender {
    socket_id: SocketId,
    user_id: Option<Arc<str>>,
}
