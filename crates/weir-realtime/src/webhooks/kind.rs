//! The kinds of webhook events that an endpoint may choose.

use std::fmt;
use std::str::FromStr;

use crate::pusher::webhook::WebhookEvent;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WebhookKind {
    ChannelOccupied,
    ChannelVacated,
    MemberAdded,
    MemberRemoved,
    ClientEvent,
    CacheMiss,
    SubscriptionCount,
}

/// A name that is not a kind of event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no webhook event; write channel_occupied, channel_vacated, member_added, \
     member_removed, client_event, cache_miss or subscription_count"
)]
pub struct UnknownKind(pub String);

impl WebhookKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::ChannelOccupied,
        Self::ChannelVacated,
        Self::MemberAdded,
        Self::MemberRemoved,
        Self::ClientEvent,
        Self::CacheMiss,
        Self::SubscriptionCount,
    ];

    /// Returns the kind of `event`.
    #[must_use]
    pub const fn of(event: &WebhookEvent<'_>) -> Self {
        match event {
            WebhookEvent::ChannelOccupied { .. } => Self::ChannelOccupied,
            WebhookEvent::ChannelVacated { .. } => Self::ChannelVacated,
            WebhookEvent::MemberAdded { .. } => Self::MemberAdded,
            WebhookEvent::MemberRemoved { .. } => Self::MemberRemoved,
            WebhookEvent::ClientEvent { .. } => Self::ClientEvent,
            WebhookEvent::CacheMiss { .. } => Self::CacheMiss,
            WebhookEvent::SubscriptionCount { .. } => Self::SubscriptionCount,
        }
    }

    /// Returns the name in settings and in requests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChannelOccupied => "channel_occupied",
            Self::ChannelVacated => "channel_vacated",
            Self::MemberAdded => "member_added",
            Self::MemberRemoved => "member_removed",
            Self::ClientEvent => "client_event",
            Self::CacheMiss => "cache_miss",
            Self::SubscriptionCount => "subscription_count",
        }
    }

    /// Returns the kind that cancels this one if it follows soon. If an endpoint receives one of
    /// the two, both must be queued: an event that is not queued could not cancel the other.
    const fn opposite(self) -> Option<Self> {
        match self {
            Self::ChannelOccupied => Some(Self::ChannelVacated),
            Self::ChannelVacated => Some(Self::ChannelOccupied),
            Self::MemberAdded => Some(Self::MemberRemoved),
            Self::MemberRemoved => Some(Self::MemberAdded),
            Self::ClientEvent | Self::CacheMiss | Self::SubscriptionCount => None,
        }
    }
}

impl fmt::Display for WebhookKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for WebhookKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// A set of kinds: one bit each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// The set of all kinds.
    pub const ALL: Self = Self(u8::MAX >> (8 - WebhookKind::ALL.len()));

    /// Returns whether the set contains `kind`.
    #[must_use]
    pub const fn contains(self, kind: WebhookKind) -> bool {
        self.0 & Self::bit(kind) != 0
    }

    /// Returns whether the set contains `kind`, or the kind that it cancels.
    pub(super) fn contains_or_cancels(self, kind: WebhookKind) -> bool {
        self.contains(kind) || kind.opposite().is_some_and(|opposite| self.contains(opposite))
    }

    const fn bit(kind: WebhookKind) -> u8 {
        1 << kind as u8
    }
}

impl FromIterator<WebhookKind> for Kinds {
    fn from_iter<I: IntoIterator<Item = WebhookKind>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |bits, kind| bits | Self::bit(kind)))
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_set()
            .entries(WebhookKind::ALL.iter().filter(|kind| self.contains(**kind)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_kinds_round_trip_and_an_unknown_one_lists_them() {
        for kind in WebhookKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "channel_ocupied".parse::<WebhookKind>().unwrap_err().to_string();
        assert!(WebhookKind::ALL.iter().all(|kind| error.contains(kind.name())), "{error}");
    }

    #[test]
    fn a_kind_set_contains_exactly_its_members() {
        for kind in WebhookKind::ALL {
            let others: Kinds =
                WebhookKind::ALL.into_iter().filter(|other| *other != kind).collect();
            assert!(!others.contains(kind) && Kinds::ALL.contains(kind), "{kind}");
        }
        assert_eq!(WebhookKind::ALL.into_iter().collect::<Kinds>(), Kinds::ALL);
    }

    #[test]
    fn an_endpoint_of_one_kind_also_needs_its_opposite() {
        let vacated: Kinds = [WebhookKind::ChannelVacated].into_iter().collect();
        assert!(
            vacated.contains_or_cancels(WebhookKind::ChannelOccupied)
                && !vacated.contains(WebhookKind::ChannelOccupied)
        );
        assert!(!vacated.contains_or_cancels(WebhookKind::MemberAdded));
    }
}
