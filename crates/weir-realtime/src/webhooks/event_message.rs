//! An event on its way to the endpoints.

use std::sync::Arc;

use super::app_hooks::AppHooks;
use super::kind::WebhookKind;
use super::receipt::Receipt;
use crate::pusher::webhook::WebhookEvent;

/// An event, serialized once, with the data that selects its endpoints.
#[derive(Debug)]
pub(super) struct EventMessage {
    pub(super) app: Arc<AppHooks>,
    pub(super) kind: WebhookKind,
    pub(super) channel: Arc<str>,
    /// The user of an event about a member.
    pub(super) member: Option<Arc<str>>,
    pub(super) json: Vec<u8>,
    /// That of an event of a shared log.
    pub(super) receipt: Option<Receipt>,
}

impl EventMessage {
    pub(super) fn new(app: &Arc<AppHooks>, event: &WebhookEvent<'_>) -> Self {
        let mut json = Vec::new();
        event.write(&mut json);
        Self::of_json(app, event, json)
    }

    /// Returns an event of a shared log, with its id.
    pub(super) fn shared(
        app: &Arc<AppHooks>,
        event: &WebhookEvent<'_>,
        (id, receipt): (&str, Receipt),
    ) -> Self {
        let mut json = Vec::new();
        event.write_with_id(id, &mut json);
        Self { receipt: Some(receipt), ..Self::of_json(app, event, json) }
    }

    fn of_json(app: &Arc<AppHooks>, event: &WebhookEvent<'_>, json: Vec<u8>) -> Self {
        Self {
            app: Arc::clone(app),
            kind: WebhookKind::of(event),
            channel: Arc::from(channel(event)),
            member: member(event).map(Arc::from),
            json,
            receipt: None,
        }
    }
}

pub(super) fn channel<'a>(event: &WebhookEvent<'a>) -> &'a str {
    match *event {
        WebhookEvent::ChannelOccupied { channel }
        | WebhookEvent::ChannelVacated { channel }
        | WebhookEvent::MemberAdded { channel, .. }
        | WebhookEvent::MemberRemoved { channel, .. }
        | WebhookEvent::ClientEvent { channel, .. }
        | WebhookEvent::CacheMiss { channel }
        | WebhookEvent::SubscriptionCount { channel, .. } => channel,
    }
}

fn member<'a>(event: &WebhookEvent<'a>) -> Option<&'a str> {
    match *event {
        WebhookEvent::MemberAdded { user_id, .. } | WebhookEvent::MemberRemoved { user_id, .. } => {
            Some(user_id)
        }
        _ => None,
    }
}
