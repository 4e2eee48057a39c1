//! What an operator does: publish an event, end connections.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::app::App;
use crate::broker::{PublishError, ServerEvent};
use crate::cores::{CoreBusy, CoreMessage, DirectPayload, core_of};
use crate::hub::Hub;
use crate::metrics::LimitKind;
use crate::pusher::channel::{ChannelName, ChannelNameError};
use crate::pusher::close_code::CloseCode;
use crate::pusher::event::{EventName, EventNameError};
use crate::pusher::payload::{Payload, PayloadError};
use crate::pusher::socket_id::{SocketId, SocketIdError};

/// An event to publish.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishEvent {
    /// The app's id.
    pub app: String,
    /// Where to.
    pub channel: String,
    /// Its name.
    pub event: String,
    /// Its data: a string's content, or other JSON as it stands.
    pub data: Box<RawValue>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPublished {
    /// Connections that it is on its way to.
    pub subscribers: usize,
    /// Which history it is in; None: none.
    pub epoch: Option<String>,
    /// Its place there.
    pub offset: Option<u64>,
    /// Events of that name are switched off: it went nowhere.
    pub is_switched_off: bool,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// No app has that id.
    #[error("there is no app {0:?}")]
    NoSuchApp(String),
    /// The app is off.
    #[error("app {0:?} is disabled")]
    AppDisabled(String),
    /// Nobody of that name is signed in.
    #[error("no connection is signed in as user {0:?}")]
    NoSuchUser(String),
    /// No connection of the app has that id.
    #[error("app {app:?} has no connection {socket_id}")]
    NoSuchConnection { app: String, socket_id: SocketId },
    /// A name that no channel can have.
    #[error("{0}")]
    Channel(#[from] ChannelNameError),
    /// A name that no event can have.
    #[error("{0}")]
    Event(#[from] EventNameError),
    /// Data that no event can have.
    #[error("{0}")]
    Data(#[from] PayloadError),
    /// Not a connection's id.
    #[error("{0}")]
    SocketId(#[from] SocketIdError),
    /// Not at the moment.
    #[error("{0}")]
    Refused(#[from] PublishError),
    /// Too many live views are open.
    #[error("{max} live views are open; more are not allowed (realtime.limits.watchers_max)")]
    TooManyWatchers { max: usize },
}

impl Hub {
    /// Publishes one event, as the HTTP API does.
    ///
    /// # Errors
    /// What is wrong with it, or why it can't be done now.
    pub async fn publish_event(
        &self,
        request: &PublishEvent,
    ) -> Result<EventPublished, OperationError> {
        let app = self.app_named(&request.app)?;
        if !app.settings().is_enabled {
            return Err(OperationError::AppDisabled(request.app.clone()));
        }
        let limits = self.settings().limits.pusher.clone();
        let channel = ChannelName::parse(&request.channel, &limits)?;
        let name = EventName::parse(request.event.as_str().into(), &limits)?;
        let data = Payload::from_json(&request.data, limits.event_data_bytes_max)?;
        let is_switched_off = self.switches().is_off(name.as_str(), self.clock.now());
        let event = ServerEvent { name: name.as_str(), data: data.as_str(), except: None };
        let published = self.publish(&app, &channel, event).await?;
        Ok(EventPublished {
            subscribers: published.subscribers,
            epoch: published.position.map(|position| position.epoch.to_string()),
            offset: published.position.map(|position| position.offset),
            is_switched_off,
        })
    }

    /// Ends all connections that are signed in as a user: how many.
    ///
    /// # Errors
    /// There is no such app, or no such user.
    pub fn disconnect_user(&self, app: &str, user: &str) -> Result<usize, OperationError> {
        match self.end_connections(&*self.app_named(app)?, user)? {
            0 => Err(OperationError::NoSuchUser(user.to_owned())),
            count => Ok(count),
        }
    }

    /// Ends all connections that are signed in as a user of an app: how many.
    pub(crate) fn end_connections(&self, app: &App, user: &str) -> Result<usize, PublishError> {
        let connections = app.users.connections(user);
        let messages = self.busy_counted(self.cores.address(&connections, 0))?;
        self.cores.send(messages, &DirectPayload::Close(CloseCode::Unauthorized));
        Ok(connections.len())
    }

    fn busy_counted<T>(&self, reserved: Result<T, CoreBusy>) -> Result<T, CoreBusy> {
        reserved.inspect_err(|_| self.metrics.limit_hit(LimitKind::CoreQueue))
    }

    /// Ends one connection.
    ///
    /// # Errors
    /// There is no such app, or it has no such connection.
    pub async fn disconnect_socket(&self, app: &str, socket: &str) -> Result<(), OperationError> {
        let app_entry = self.app_named(app)?;
        let socket_id: SocketId = socket.parse()?;
        let (reply, replied) = oneshot::channel();
        let core = core_of(socket_id).filter(|core| *core < self.cores.len());
        if let Some(core) = core.map(|core| self.cores.get(core)) {
            let room = self.busy_counted(core.room.reserve(0)).map_err(PublishError::from)?;
            core.mailbox.push(CoreMessage::Disconnect {
                to: socket_id,
                app: app_entry.number,
                reply,
                room,
            });
        } else {
            drop(reply);
        }
        match replied.await {
            Ok(true) => Ok(()),
            // No reply: no core has assigned such an id, or all end.
            Ok(false) | Err(_) => {
                Err(OperationError::NoSuchConnection { app: app.to_owned(), socket_id })
            }
        }
    }

    /// Whether there could be such a channel.
    ///
    /// # Errors
    /// There is no such app, or no channel can have that name.
    pub fn check_channel(&self, app: &str, channel: &str) -> Result<(), OperationError> {
        self.app_named(app)?;
        self.channel_name(channel).map(|_| ())
    }

    pub(crate) fn app_named(&self, id: &str) -> Result<Arc<App>, OperationError> {
        self.app_by_id(id).ok_or_else(|| OperationError::NoSuchApp(id.to_owned()))
    }

    pub(crate) fn channel_name(&self, name: &str) -> Result<ChannelName, OperationError> {
        Ok(ChannelName::parse(name, &self.settings().limits.pusher)?)
    }
}

#[cfg(test)]
mod tests {
    use weir_base::clock::{Clock, Timestamp};

    use super::*;
    use crate::hub::alone::hub;

    /// A result that is ready at once would hide that a future can't move to another thread.
    #[test]
    fn publishing_can_be_awaited_on_any_thread() {
        const fn check_send<T: Send>(_: &T) {}
        let hub = hub(&Clock::manual(Timestamp::from_millis(1)));
        let data = RawValue::from_string("1".to_owned()).unwrap();
        let (app, channel, event) = ("1".to_owned(), "a".to_owned(), "e".to_owned());
        let event = PublishEvent { app, channel, event, data };
        check_send(&hub.publish_event(&event));
    }
}
