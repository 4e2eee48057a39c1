//! Publishing events of the application's server.

use std::sync::Arc;

use super::Hub;
use crate::app::App;
use crate::broker::{Broker as _, PublishError, ServerEvent};
use crate::channel::Published;
use crate::pusher::channel::ChannelName;

impl Hub {
    /// Publishes an event. Does nothing if the event's name is switched off.
    pub(crate) async fn publish(
        &self,
        app: &Arc<App>,
        channel: &ChannelName,
        event: ServerEvent<'_>,
    ) -> Result<Published, PublishError> {
        if self.is_switched_off(event) {
            return Ok(Published::default());
        }
        if self.is_handed_over() {
            return Err(PublishError::HandedOver);
        }
        self.broker.publish(app, channel, event).await
    }

    /// Publishes all of these events, or none of them. Skips events whose names are switched off.
    pub(crate) async fn publish_all<'a>(
        &self,
        app: &Arc<App>,
        events: impl Iterator<Item = (&'a ChannelName, ServerEvent<'a>)> + Send,
    ) -> Result<(), PublishError> {
        if self.is_handed_over() {
            return Err(PublishError::HandedOver);
        }
        let events = events.filter(|(_, event)| !self.is_switched_off(*event));
        self.broker.publish_all(app, events).await
    }

    fn is_switched_off(&self, event: ServerEvent<'_>) -> bool {
        let is_off = self.switches().is_off(event.name, self.clock.now());
        if is_off {
            self.metrics.switched_off();
        }
        is_off
    }
}

#[cfg(test)]
mod tests {
    use weir_base::secret::Secret;

    use super::*;
    use crate::cores::{BudgetReservation, CoreBusy};
    use crate::hub::single_core::poll_now;
    use crate::pusher::limits::PusherLimits;
    use crate::settings::{AppSettings, Settings};
    use crate::shard::manual_core::{ManualConnection, ManualCore};
    use crate::websocket::{MaskKey, Message};

    const ROOM: usize = 4;

    fn core(channels_max: usize) -> (ManualCore, ManualConnection) {
        let mut settings = Settings::default();
        settings.limits.core_queue_events_max = ROOM;
        settings.limits.channels_max = channels_max;
        let core =
            ManualCore::new(settings, vec![AppSettings::new("1", "key", Secret::new("secret"))]);
        let connection = core.connect("key").unwrap();
        for channel in ["a", "b"] {
            let text =
                format!(r#"{{"event":"pusher:subscribe","data":{{"channel":"{channel}"}}}}"#);
            let mut frame = Vec::new();
            Message::Text(&text).encode(&mut frame, Some(MaskKey::new([1, 2, 3, 4])));
            assert!(core.receive(connection, &frame));
        }
        assert_eq!(core.take(connection).len(), 2);
        (core, connection)
    }

    fn publish(core: &ManualCore, channels: &[&str]) -> Result<(), PublishError> {
        let app = core.hub().app_by_id("1").unwrap();
        let parse = |name: &&str| ChannelName::parse(name, &PusherLimits::default()).unwrap();
        let names: Vec<ChannelName> = channels.iter().map(parse).collect();
        let event =
            ServerEvent { name: "e", data: "1", except: None, idempotency_key: None, trace: None };
        poll_now(core.hub().publish_all(&app, names.iter().map(|name| (name, event))))
    }

    fn take_event_names(core: &ManualCore, connection: ManualConnection) -> usize {
        core.deliver();
        core.take(connection).len()
    }

    fn fill(core: &ManualCore, events: usize) -> Vec<BudgetReservation> {
        (0..events).map(|_| core.hub().cores.get(0).budget.reserve(0).unwrap()).collect()
    }

    #[test]
    fn a_multi_channel_event_is_published_on_all_or_on_none() {
        let (core, connection) = core(10);
        let waiting = fill(&core, ROOM - 1);
        let busy = publish(&core, &["a", "c", "b"]);
        assert_eq!(busy, Err(PublishError::Busy(CoreBusy)), "there is room for one");
        assert_eq!(take_event_names(&core, connection), 0);
        for channel in ["a", "b", "c"] {
            assert_eq!(core.position("1", channel).unwrap().offset, 0, "{channel}");
        }
        assert_eq!(core.leftovers().budget.0, ROOM - 1, "what was taken is given back");
        drop(waiting);
        publish(&core, &["a", "c", "b"]).unwrap();
        assert_eq!(take_event_names(&core, connection), 2);
        assert_eq!(core.position("1", "c").unwrap().offset, 1);
        assert_eq!(core.leftovers().budget, (0, 0));
    }

    #[test]
    fn an_event_larger_than_the_budget_passes_alone() {
        let (core, connection) = core(10);
        let waiting = fill(&core, 1);
        assert!(publish(&core, &["a"; ROOM + 1]).is_err());
        drop(waiting);
        publish(&core, &["a"; ROOM + 1]).unwrap();
        assert_eq!(take_event_names(&core, connection), ROOM + 1);
    }

    #[test]
    fn without_budget_for_one_channel_nothing_is_published() {
        let (core, connection) = core(2);
        assert!(matches!(publish(&core, &["a", "c"]), Err(PublishError::TooManyChannels(_))));
        assert_eq!(take_event_names(&core, connection), 0);
        core.break_socket(connection);
        core.hub().clock.advance(std::time::Duration::from_secs(121));
        core.remove_expired();
        assert_eq!(core.leftovers().registered, 0, "nothing holds the channels any more");
    }
}
