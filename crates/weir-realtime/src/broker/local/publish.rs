//! Publishing on this node: one event, or several of which all or none are published.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_base::clock::Timestamp;

use super::{ATTEMPTS_MAX, LocalBroker};
use crate::app::App;
use crate::broker::{ClientPublication, PublishError, ServerEvent};
use crate::channel::{Channel, PreparedEvent, Publication, Published, Retention, TryPublishError};
use crate::cores::{Audience, CoreBusy};
use crate::frame::Draft;
use crate::metrics::LimitKind;
use crate::pusher::channel::ChannelName;
use crate::pusher::server_message::ChannelEvent;

impl LocalBroker {
    pub(super) fn publish_now(
        &self,
        app: &App,
        channel: &ChannelName,
        event: ServerEvent<'_>,
    ) -> Result<Published, PublishError> {
        for _ in 0..ATTEMPTS_MAX {
            let channel = self.channel(app, channel)?;
            match channel.publish(self.publication(app, &channel, event), &self.cores) {
                Ok(published) => return Ok(self.count_published(app, &channel, published)),
                Err(TryPublishError::Gone) => {}
                Err(TryPublishError::Busy(busy)) => return Err(self.count_busy(busy).into()),
            }
        }
        Err(CoreBusy.into())
    }

    pub(super) fn publish_all_now<'a>(
        &self,
        app: &App,
        events: impl Iterator<Item = (&'a ChannelName, ServerEvent<'a>)>,
    ) -> Result<(), PublishError> {
        let mut prepared = self.prepare_all(app, events)?;
        let mut without_room: Vec<_> = prepared.iter_mut().map(|(one, _)| one).collect();
        self.reserve_all(&mut without_room)?;
        for (prepared, event) in prepared {
            self.publish_prepared(app, prepared, event, self.clock.now());
        }
        Ok(())
    }

    /// Prepares all of these events, or none of them, without room on the cores.
    pub(crate) fn prepare_all<'a>(
        &self,
        app: &App,
        events: impl Iterator<Item = (&'a ChannelName, ServerEvent<'a>)>,
    ) -> Result<Vec<(PreparedEvent, ServerEvent<'a>)>, PublishError> {
        let mut prepared = Vec::new();
        for (name, event) in events {
            prepared.push((self.prepare(app, name, event)?, event));
        }
        Ok(prepared)
    }

    /// Reserves room on the cores for all of these events, or for none of them.
    pub(crate) fn reserve_all(&self, prepared: &mut [&mut PreparedEvent]) -> Result<(), CoreBusy> {
        prepared.iter_mut().for_each(|one| one.reserve(&self.cores));
        for (index, core) in self.cores.iter().enumerate() {
            let own_events = prepared.iter().filter(|one| one.is_for_core(index)).count();
            if own_events > 0 && core.budget.is_full_with(own_events) {
                prepared.iter_mut().for_each(|one| one.release());
                return Err(self.count_busy(CoreBusy));
            }
        }
        Ok(())
    }

    /// Publishes a prepared event, which happens `now`.
    pub(crate) fn publish_prepared(
        &self,
        app: &App,
        prepared: PreparedEvent,
        event: ServerEvent<'_>,
        now: Timestamp,
    ) -> Published {
        let channel = Arc::clone(prepared.channel());
        let publication = Publication { now, ..self.publication(app, &channel, event) };
        let published = prepared.publish(publication, &self.cores);
        self.count_published(app, &channel, published)
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn publish_client_event_now(
        &self,
        channel: &Channel,
        event: ClientPublication<'_>,
    ) -> Result<(), CoreBusy> {
        let publication = Publication {
            draft: Draft::new(&ChannelEvent {
                event: event.name,
                channel: channel.name.as_str(),
                data: event.data,
                user_id: event.user_id,
                position: None,
            }),
            audience: Audience::Except(event.sender),
            event: event.name,
            data: "",
            retention: Retention::Nothing,
            now: self.clock.now(),
            trace: None,
        };
        match channel.publish(publication, &self.cores) {
            Ok(_) => {
                self.metrics.client_event();
                Ok(())
            }
            // A channel with a subscriber is never removed, so this is only a fallback.
            Err(TryPublishError::Gone) => Err(self.count_busy(CoreBusy)),
            Err(TryPublishError::Busy(busy)) => Err(self.count_busy(busy)),
        }
    }

    fn prepare(
        &self,
        app: &App,
        name: &ChannelName,
        event: ServerEvent<'_>,
    ) -> Result<PreparedEvent, PublishError> {
        for _ in 0..ATTEMPTS_MAX {
            let channel = self.channel(app, name)?;
            let bytes = self.publication(app, &channel, event).draft.bytes_max();
            if let Ok(prepared) = channel.prepare(bytes) {
                return Ok(prepared);
            }
        }
        Err(CoreBusy.into())
    }

    fn publication<'a>(
        &self,
        app: &App,
        channel: &Channel,
        event: ServerEvent<'a>,
    ) -> Publication<'a> {
        let ServerEvent { name, data, except, trace, .. } = event;
        Publication {
            draft: Draft::new(&ChannelEvent {
                event: name,
                channel: channel.name.as_str(),
                data: Some(data),
                user_id: None,
                position: None,
            }),
            audience: except.map_or(Audience::Everyone, Audience::Except),
            event: name,
            data,
            retention: Retention::History(app.settings().history),
            now: self.clock.now(),
            trace: trace.cloned(),
        }
    }

    fn count_busy(&self, busy: CoreBusy) -> CoreBusy {
        self.metrics.limit_hit(LimitKind::CoreQueue);
        busy
    }

    /// Counts events that were appended to the shared log.
    pub(crate) fn count_appended(&self, events: u64) {
        for _ in 0..events {
            self.metrics.published();
        }
    }

    fn count_published(&self, app: &App, channel: &Channel, published: Published) -> Published {
        self.metrics.published();
        self.count_delivered(app, channel, published.history_change);
        published
    }

    /// Counts the bytes of the histories, and keeps them within their limits.
    pub(crate) fn count_delivered(&self, app: &App, channel: &Channel, history_change: isize) {
        let total = self.add_history_bytes(history_change);
        if total > self.history_bytes_max.load(Ordering::Relaxed) {
            self.metrics.limit_hit(LimitKind::HistoryBytes);
            self.add_history_bytes(channel.forget_history());
        }
        if channel.kind.caches {
            self.bound_cache(app);
        }
    }
}
