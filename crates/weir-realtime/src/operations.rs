//! Actions of operators: publishing an event, closing connections.

use std::sync::Arc;

use schemars::JsonSchema;
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PublishEvent {
    /// The app's id.
    pub app: String,
    /// The channel to publish to.
    pub channel: String,
    /// The event's name.
    pub event: String,
    /// The event's data: the content of a JSON string, or other JSON unchanged.
    #[schemars(with = "serde_json::Value")]
    pub data: Box<RawValue>,
}

/// The result of publishing an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventPublished {
    /// Number of connections that will receive the event.
    pub subscribers: usize,
    /// The epoch of the history that stores it, or None if it is not stored.
    pub epoch: Option<String>,
    /// The event's offset in that history.
    pub offset: Option<u64>,
    /// Whether the event was not published because its name is switched off.
    pub is_switched_off: bool,
}

/// Apps that an error names at most.
const APPS_SHOWN_MAX: usize = 10;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// No app has this id. `apps`: those that there are.
    #[error("there is no app {id:?}; {apps}")]
    NoSuchApp { id: String, apps: String },
    /// The app is disabled.
    #[error("app {0:?} is disabled")]
    AppDisabled(String),
    /// No connection is signed in as this user.
    #[error("no connection is signed in as user {0:?}")]
    NoSuchUser(String),
    /// No connection of the app has this id.
    #[error("app {app:?} has no connection {socket_id}")]
    NoSuchConnection { app: String, socket_id: SocketId },
    /// The channel's name is invalid.
    #[error("{0}")]
    Channel(#[from] ChannelNameError),
    /// The event's name is invalid.
    #[error("{0}")]
    Event(#[from] EventNameError),
    /// The event's data is invalid.
    #[error("{0}")]
    Data(#[from] PayloadError),
    /// The connection's id is invalid.
    #[error("{0}")]
    SocketId(#[from] SocketIdError),
    /// The event can't be published, or the connection closed, at the moment.
    #[error("{0}")]
    Refused(#[from] PublishError),
    /// The limit of live views is reached.
    #[error("{max} live views are open; more are not allowed (realtime.limits.watchers_max)")]
    TooManyWatchers { max: usize },
}

impl Hub {
    /// Publishes one event, as the HTTP API does.
    ///
    /// # Errors
    /// Returns an error if the event is invalid, or can't be published now.
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
        let event = ServerEvent {
            name: name.as_str(),
            data: data.as_str(),
            except: None,
            idempotency_key: None,
            trace: None,
        };
        let published = self.publish(&app, &channel, event).await?;
        Ok(EventPublished {
            subscribers: published.subscribers,
            epoch: published.position.map(|position| position.epoch.to_string()),
            offset: published.position.map(|position| position.offset),
            is_switched_off,
        })
    }

    /// Closes all connections that are signed in as a user, also those to other nodes that share a
    /// log. Returns how many this node had.
    ///
    /// # Errors
    /// Returns an error if there is no such app or, without a log, no such user, if a core has no
    /// room, or if the log does not respond.
    pub async fn disconnect_user(&self, app: &str, user: &str) -> Result<usize, OperationError> {
        let app = self.app_named(app)?;
        match self.end_connections_everywhere(&app, user).await? {
            0 if self.broker.log.is_none() => Err(OperationError::NoSuchUser(user.to_owned())),
            count => Ok(count),
        }
    }

    /// Closes the connections of a user of an app, to all nodes. Returns how many this node had.
    pub(crate) async fn end_connections_everywhere(
        &self,
        app: &App,
        user: &str,
    ) -> Result<usize, PublishError> {
        let count = self.end_connections(app, user)?;
        if let Some(log) = &self.broker.log {
            log.terminate(Arc::clone(&app.settings().id), Box::from(user)).await?;
        }
        Ok(count)
    }

    /// Closes all connections that are signed in as a user of an app. Returns how many.
    pub(crate) fn end_connections(&self, app: &App, user: &str) -> Result<usize, PublishError> {
        let connections = app.users.connections(user);
        let messages = self.busy_counted(self.cores.address(&connections, 0))?;
        self.cores.send(messages, &DirectPayload::Close(CloseCode::Unauthorized));
        Ok(connections.len())
    }

    fn busy_counted<T>(&self, reserved: Result<T, CoreBusy>) -> Result<T, CoreBusy> {
        reserved.inspect_err(|_| self.metrics.limit_hit(LimitKind::CoreQueue))
    }

    /// Closes one connection.
    ///
    /// # Errors
    /// Returns an error if the app or the connection does not exist, or a core has no room.
    pub async fn disconnect_socket(&self, app: &str, socket: &str) -> Result<(), OperationError> {
        let app_entry = self.app_named(app)?;
        let socket_id: SocketId = socket.parse()?;
        let (reply, replied) = oneshot::channel();
        let core = core_of(socket_id).filter(|core| *core < self.cores.len());
        if let Some(core) = core.map(|core| self.cores.get(core)) {
            let budget = self.busy_counted(core.budget.reserve(0)).map_err(PublishError::from)?;
            core.mailbox.push(CoreMessage::Disconnect {
                to: socket_id,
                app: app_entry.number,
                reply,
                budget,
            });
        } else {
            drop(reply);
        }
        match replied.await {
            Ok(true) => Ok(()),
            // Without a reply, no core has assigned this id, or the core has ended.
            Ok(false) | Err(_) => {
                Err(OperationError::NoSuchConnection { app: app.to_owned(), socket_id })
            }
        }
    }

    /// Checks that the app exists and the channel's name is valid.
    ///
    /// # Errors
    /// Returns an error if there is no such app, or the name is invalid.
    pub fn check_channel(&self, app: &str, channel: &str) -> Result<(), OperationError> {
        self.app_named(app)?;
        self.channel_name(channel).map(|_| ())
    }

    pub(crate) fn app_named(&self, id: &str) -> Result<Arc<App>, OperationError> {
        self.app_by_id(id).ok_or_else(|| self.no_such_app(id))
    }

    /// Returns the error for an id that no app has.
    #[must_use]
    pub fn no_such_app(&self, id: &str) -> OperationError {
        let mut ids: Vec<String> =
            self.apps().iter().map(|app| app.settings().id.to_string()).collect();
        ids.sort();
        OperationError::NoSuchApp { id: id.to_owned(), apps: listed(&ids) }
    }

    pub(crate) fn channel_name(&self, name: &str) -> Result<ChannelName, OperationError> {
        Ok(ChannelName::parse(name, &self.settings().limits.pusher)?)
    }
}

/// Names the apps, as far as a line has room.
fn listed(ids: &[String]) -> String {
    let shown = ids.iter().take(APPS_SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match ids.len() {
        0 => "no app is configured ([[realtime.apps]])".to_owned(),
        number if number > APPS_SHOWN_MAX => format!("apps: {shown} .. ({number} in all)"),
        _ => format!("apps: {shown}"),
    }
}

#[cfg(test)]
mod tests {
    use weir_base::clock::{Clock, Timestamp};

    use super::*;
    use crate::hub::single_core::hub;

    /// Checks that the future can move to another thread, which a local result alone would not
    /// show.
    #[test]
    fn publishing_can_be_awaited_on_any_thread() {
        const fn check_send<T: Send>(_: &T) {}
        let hub = hub(&Clock::manual(Timestamp::from_millis(1)));
        let data = RawValue::from_string("1".to_owned()).unwrap();
        let (app, channel, event) = ("1".to_owned(), "a".to_owned(), "e".to_owned());
        let event = PublishEvent { app, channel, event, data };
        check_send(&hub.publish_event(&event));
    }

    #[test]
    fn error_names_the_apps() {
        let hub = hub(&Clock::manual(Timestamp::from_millis(1)));
        let error = hub.check_channel("2", "a").unwrap_err().to_string();
        assert_eq!(error, "there is no app \"2\"; apps: 1");
        let ids: Vec<String> = (0..12).map(|id| id.to_string()).collect();
        assert_eq!(listed(&ids), "apps: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 .. (12 in all)");
        assert_eq!(listed(&[]), "no app is configured ([[realtime.apps]])");
    }
}
