//! What an operator does by hand, who needs no signature.

use super::{Event, Hub, Letter, Refused};
use crate::app::App;
use crate::pusher::channel::{ChannelName, ChannelNameError};
use crate::pusher::close_code::CloseCode;
use crate::pusher::event::{EventName, EventNameError};

/// Why an operator's event was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishTextError {
    /// No app has this id.
    #[error("no app has the id {0:?}")]
    NoApp(String),
    /// Not a channel's name.
    #[error("{0}")]
    Channel(#[from] ChannelNameError),
    /// Not a name that may be published.
    #[error("{0}")]
    Event(#[from] EventNameError),
    /// More data than an event may have.
    #[error("the event's data has {bytes} bytes; at most {max} are allowed")]
    TooLarge { bytes: usize, max: usize },
    /// Not now.
    #[error("{0}")]
    Refused(#[from] Refused),
}

impl Hub {
    /// Publishes an event with `data` as the text that subscribers get; answers how many they are.
    ///
    /// # Errors
    /// What is wrong with the event, or that there is no room for it.
    pub fn publish_text(
        &self,
        app_id: &str,
        channel: &str,
        event: &str,
        data: &str,
    ) -> Result<usize, PublishTextError> {
        let no_app = || PublishTextError::NoApp(app_id.to_owned());
        let app = self.app_by_id(app_id).ok_or_else(no_app)?;
        let settings = self.settings();
        let limits = &settings.pusher;
        let channel = ChannelName::parse(channel, limits)?;
        let event = EventName::parse(event.into(), limits)?;
        let (bytes, max) = (data.len(), limits.event_data_bytes_max);
        if bytes > max {
            return Err(PublishTextError::TooLarge { bytes, max });
        }
        let event = Event { name: event.as_str(), data, except: None };
        Ok(self.publish(&app, &channel, event)?.subscribers)
    }

    /// Ends all connections of a signed-in user with 4009; answers how many they are. None: no app
    /// has this id.
    pub fn disconnect_user(&self, app_id: &str, user: &str) -> Option<usize> {
        Some(self.end_connections(&*self.app_by_id(app_id)?, user))
    }

    /// The same, of an app that is known.
    pub(crate) fn end_connections(&self, app: &App, user: &str) -> usize {
        let connections = app.users.connections(user);
        for to in &connections {
            self.tell(*to, Letter::Close { to: *to, code: CloseCode::Unauthorized });
        }
        connections.len()
    }
}
