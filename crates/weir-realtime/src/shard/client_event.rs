//! Events that clients publish to the other subscribers of a private or presence channel.

use std::sync::Arc;

use super::Shard;
use super::messages::write_error;
use super::state::ShardState;
use crate::app::App;
use crate::broker::{Broker as _, ClientPublication};
use crate::channel::Channel;
use crate::cores::CoreBusy;
use crate::cores::SessionKey;
use crate::frame::append_text;
use crate::metrics::LimitKind;
use crate::pusher::client_message::ClientEvent;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message;
use crate::pusher::socket_id::SocketId;
use crate::pusher::webhook::WebhookEvent;

impl Shard {
    pub(super) fn client_event(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        event: &ClientEvent<'_>,
        output: &mut Vec<u8>,
    ) {
        let now = self.hub.clock.now();
        let session = state.session(key);
        let app = Arc::clone(&session.app);
        let settings = app.settings();
        if !settings.has_client_events {
            return write_error(output, "this app does not allow client events (client_events)");
        }
        if session.client_events.take(settings.client_event_rate, now).is_err() {
            self.hub.metrics.limit_hit(LimitKind::ClientEventRate);
            let code = CloseCode::ClientEventRate;
            return append_text(output, |out| {
                server_message::error(out, Some(code), code.reason());
            });
        }
        let Some(index) = state.subscription_to(key, &event.channel) else {
            return write_error(output, &format!("not subscribed to {}", event.channel));
        };
        let session = &state.sessions[key as usize];
        let subscription = &session.subscriptions[index];
        let channel = Arc::clone(&state.channels[subscription.channel as usize].channel);
        if !channel.kind.allows_client_events() {
            let name = &channel.name;
            let reason =
                format!("{name} takes no client events: only private and presence channels do");
            return write_error(output, &reason);
        }
        let sender = Sender { socket_id: session.socket_id, user_id: subscription.user_id.clone() };
        match self.publish_client_event(&app, &channel, event, &sender) {
            Ok(ClientEventOutcome::Published) => {
                self.send_client_event(&app, &channel, event, &sender)
            }
            Ok(ClientEventOutcome::SwitchedOff) => {}
            Err(error) => write_error(output, &error.to_string()),
        }
    }

    fn publish_client_event(
        &self,
        app: &App,
        channel: &Channel,
        event: &ClientEvent<'_>,
        sender: &Sender,
    ) -> Result<ClientEventOutcome, CoreBusy> {
        let name = event.event.as_str();
        if self.hub.switches().is_off(name, self.hub.clock.now()) {
            self.hub.metrics.switched_off();
            return Ok(ClientEventOutcome::SwitchedOff);
        }
        let publication = ClientPublication {
            name,
            data: event.data.as_ref().map(|data| data.as_str()),
            sender: sender.socket_id,
            user_id: sender.user_id.as_deref(),
        };
        self.hub.broker.publish_client_event(app, channel, publication)?;
        Ok(ClientEventOutcome::Published)
    }

    fn send_client_event(
        &self,
        app: &App,
        channel: &Channel,
        event: &ClientEvent<'_>,
        sender: &Sender,
    ) {
        let webhook_event = WebhookEvent::ClientEvent {
            channel: channel.name.as_str(),
            event: event.event.as_str(),
            data: event.data.as_ref().map(|data| data.as_str()),
            socket_id: sender.socket_id,
            user_id: sender.user_id.as_deref(),
        };
        self.hub.webhooks.enqueue(&app.settings().hooks, &webhook_event);
    }
}

/// The outcome of publishing a client's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientEventOutcome {
    /// The event was published to the other subscribers.
    Published,
    /// Events of this name are switched off: neither subscribers nor webhooks receive it.
    SwitchedOff,
}

/// The connection that sends an event, and its user.
struct Sender {
    socket_id: SocketId,
    user_id: Option<Arc<str>>,
}
