//! Publishing what the application's server says: to one channel, or to several, all or none.

use std::sync::Arc;

use super::{Audience, CoreBusy, Hub, Refused};
use crate::app::App;
use crate::channel::{Channel, Keeps, Prepared, Publication, PublishError, Published};
use crate::frame::Draft;
use crate::metrics::Limit;
use crate::pusher::channel::ChannelName;
use crate::pusher::server_message::ChannelEvent;
use crate::pusher::socket_id::SocketId;

/// One event for one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) name: &'a str,
    pub(crate) data: &'a str,
    /// The connection that doesn't get it.
    pub(crate) except: Option<SocketId>,
}

/// Times that a publisher meets a channel that is being removed, which takes microseconds.
const TRIES_MAX: usize = 100;

impl Hub {
    /// Publishes an event of the application's server. It answers as soon as the event has its
    /// place; no socket is waited for.
    pub(crate) fn publish(
        &self,
        app: &App,
        channel: &ChannelName,
        event: Event<'_>,
    ) -> Result<Published, Refused> {
        if self.is_switched_off(event) {
            return Ok(Published::default());
        }
        if self.is_handed_over() {
            return Err(Refused::HandedOver);
        }
        for _ in 0..TRIES_MAX {
            let channel = self.channel(app, channel)?;
            match channel.publish(self.publication(app, &channel, event), &self.cores) {
                Ok(published) => return Ok(self.published(app, &channel, published)),
                Err(PublishError::Gone) => {}
                Err(PublishError::Busy(busy)) => return Err(self.refuse(busy)),
            }
        }
        Err(Refused::Busy(CoreBusy))
    }

    /// Publishes all of these events, or none: if one of their channels can't be made, or a core has
    /// no room for all that it would get. More than a core's whole room passes if nothing else waits.
    pub(crate) fn publish_all<'a>(
        &self,
        app: &App,
        events: impl Iterator<Item = (&'a ChannelName, Event<'a>)>,
    ) -> Result<(), Refused> {
        if self.is_handed_over() {
            return Err(Refused::HandedOver);
        }
        let mut prepared = Vec::new();
        for (name, event) in events.filter(|(_, event)| !self.is_switched_off(*event)) {
            prepared.push((self.prepare(app, name, event)?, event));
        }
        for (index, core) in self.cores.iter().enumerate() {
            let own = prepared.iter().filter(|(one, _)| one.is_for_core(index)).count();
            if own > 0 && core.room.is_full_with(own) {
                // Dropping what is prepared takes it back.
                return Err(self.refuse(CoreBusy));
            }
        }
        for (prepared, event) in prepared {
            let channel = Arc::clone(prepared.channel());
            let published = prepared.publish(self.publication(app, &channel, event), &self.cores);
            self.published(app, &channel, published);
        }
        Ok(())
    }

    fn prepare(
        &self,
        app: &App,
        name: &ChannelName,
        event: Event<'_>,
    ) -> Result<Prepared, Refused> {
        for _ in 0..TRIES_MAX {
            let channel = self.channel(app, name)?;
            let bytes = self.publication(app, &channel, event).draft.bytes_max();
            if let Ok(prepared) = channel.prepare(&self.cores, bytes) {
                return Ok(prepared);
            }
        }
        Err(Refused::Busy(CoreBusy))
    }

    fn is_switched_off(&self, event: Event<'_>) -> bool {
        let is_off = self.cores.switches.is_off(event.name, self.clock.now());
        if is_off {
            self.metrics.switched_off();
        }
        is_off
    }

    fn publication<'a>(&self, app: &App, channel: &Channel, event: Event<'a>) -> Publication<'a> {
        let Event { name, data, except } = event;
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
            keeps: Keeps::History(app.settings().history),
            now: self.clock.now(),
        }
    }

    fn refuse(&self, busy: CoreBusy) -> Refused {
        self.metrics.limit_hit(Limit::CoreQueue);
        busy.into()
    }

    fn published(&self, app: &App, channel: &Channel, published: Published) -> Published {
        self.metrics.published();
        let total = self.add_history_bytes(published.history_change);
        if total > self.settings().limits.history_bytes_max {
            self.metrics.limit_hit(Limit::HistoryBytes);
            self.add_history_bytes(channel.forget_history());
        }
        if channel.kind.caches {
            self.bound_cache(app);
        }
        published
    }
}

#[cfg(test)]
mod tests {
    use weir_base::secret::Secret;

    use super::*;
    use crate::hub::Reservation;
    use crate::pusher::limits::Limits;
    use crate::settings::{AppSettings, Settings};
    use crate::shard::by_hand::{Connection, Core};
    use crate::websocket::{MaskKey, Message};

    const ROOM: usize = 4;

    fn core(channels_max: usize) -> (Core, Connection) {
        let mut settings = Settings::default();
        settings.limits.core_queue_events_max = ROOM;
        settings.limits.channels_max = channels_max;
        let core = Core::new(settings, vec![AppSettings::new("1", "key", Secret::new("secret"))]);
        let connection = core.connect("key").unwrap();
        for channel in ["a", "b"] {
            let text =
                format!(r#"{{"event":"pusher:subscribe","data":{{"channel":"{channel}"}}}}"#);
            let mut frame = Vec::new();
            Message::Text(&text).encode(&mut frame, Some(MaskKey::new([1, 2, 3, 4])));
            assert!(core.hear(connection, &frame));
        }
        assert_eq!(core.take(connection).len(), 2);
        (core, connection)
    }

    fn publish(core: &Core, channels: &[&str]) -> Result<(), Refused> {
        let app = core.hub().app_by_id("1").unwrap();
        let parse = |name: &&str| ChannelName::parse(name, &Limits::default()).unwrap();
        let names: Vec<ChannelName> = channels.iter().map(parse).collect();
        let event = Event { name: "e", data: "1", except: None };
        core.hub().publish_all(&app, names.iter().map(|name| (name, event)))
    }

    fn heard(core: &Core, connection: Connection) -> usize {
        core.deliver();
        core.take(connection).len()
    }

    fn fill(core: &Core, events: usize) -> Vec<Reservation> {
        (0..events).map(|_| core.hub().cores.get(0).room.reserve(0).unwrap()).collect()
    }

    #[test]
    fn an_event_for_several_channels_is_published_on_all_or_on_none() {
        let (core, connection) = core(10);
        let waiting = fill(&core, ROOM - 1);
        let busy = publish(&core, &["a", "c", "b"]);
        assert_eq!(busy, Err(Refused::Busy(CoreBusy)), "there is room for one");
        assert_eq!(heard(&core, connection), 0);
        for channel in ["a", "b", "c"] {
            assert_eq!(core.position("1", channel).unwrap().offset, 0, "{channel}");
        }
        assert_eq!(core.leftovers().room.0, ROOM - 1, "what was taken is given back");
        drop(waiting);
        publish(&core, &["a", "c", "b"]).unwrap();
        assert_eq!(heard(&core, connection), 2);
        assert_eq!(core.position("1", "c").unwrap().offset, 1);
        assert_eq!(core.leftovers().room, (0, 0));
    }

    #[test]
    fn what_is_more_than_all_the_room_passes_alone() {
        let (core, connection) = core(10);
        let waiting = fill(&core, 1);
        assert!(publish(&core, &["a"; ROOM + 1]).is_err());
        drop(waiting);
        publish(&core, &["a"; ROOM + 1]).unwrap();
        assert_eq!(heard(&core, connection), ROOM + 1);
    }

    #[test]
    fn without_room_for_a_channel_nothing_is_published() {
        let (core, connection) = core(2);
        assert!(matches!(publish(&core, &["a", "c"]), Err(Refused::TooManyChannels(_))));
        assert_eq!(heard(&core, connection), 0);
        core.cut(connection);
        core.hub().clock.advance(std::time::Duration::from_secs(121));
        core.tidy();
        assert_eq!(core.leftovers().registered, 0, "nothing holds the channels any more");
    }
}
