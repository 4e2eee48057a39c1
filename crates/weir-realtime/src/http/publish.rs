//! Requests that publish events or close connections.

use hyper::StatusCode;

use super::response::ApiFailure;
use super::route::{ApiRoute, Operation};
use super::{SignedCall, query};
use crate::broker::ServerEvent;
use crate::pusher::api::{self, ChannelInfo, InfoRequest, Publish};
use crate::pusher::channel::{ChannelName, SERVER_TO_USER_PREFIX};
use crate::pusher::limits::PusherLimits;
use crate::shard::Shard;

impl Shard {
    /// Executes the operation. Returns the response's body.
    pub(super) async fn carry_out(
        &self,
        route: &ApiRoute<'_>,
        call: &SignedCall<'_>,
        limits: &PusherLimits,
    ) -> Result<Vec<u8>, ApiFailure> {
        match &route.operation {
            Operation::Publish => self.publish(call, limits).await,
            Operation::PublishBatch => self.publish_batch(call, limits).await,
            Operation::PublishToUser(user) => self.publish_to_user(call, user, limits).await,
            Operation::Terminate(user) => self.terminate(call, user).await,
            Operation::ListChannels => query::list_channels(self, call),
            Operation::Channel(name) => {
                let name = parse_name(name, limits)?;
                self.await_info(call, &name).await?;
                query::channel(self, call, &name)
            }
            Operation::Users(name) => {
                let name = parse_name(name, limits)?;
                self.await_members(call, &name).await?;
                query::users(self, call, &name)
            }
            Operation::History(name) => self.history(call, &parse_name(name, limits)?).await,
        }
    }

    async fn publish(
        &self,
        call: &SignedCall<'_>,
        limits: &PusherLimits,
    ) -> Result<Vec<u8>, ApiFailure> {
        let Publish { name, data, channels, socket_id, info, idempotency_key } =
            api::parse_publish(call.body, limits)?;
        let event = ServerEvent {
            name: name.as_str(),
            data: data.as_str(),
            except: socket_id,
            idempotency_key: self.checked_key(idempotency_key.as_deref())?,
        };
        match &channels[..] {
            [channel] => drop(self.hub.publish(call.app, channel, event).await?),
            channels => {
                let events = channels.iter().map(|channel| (channel, event));
                self.hub.publish_all(call.app, events).await?;
            }
        }
        let mut body = Vec::new();
        match info {
            None => api::write_nothing(&mut body),
            Some(request) => {
                let infos: Vec<_> = channels
                    .iter()
                    .map(|channel| self.published_info(call, channel, request))
                    .collect();
                let names = channels.iter().map(ChannelName::as_str);
                api::write_channels(&mut body, names.zip(infos.iter().cloned()));
            }
        }
        Ok(body)
    }

    async fn publish_batch(
        &self,
        call: &SignedCall<'_>,
        limits: &PusherLimits,
    ) -> Result<Vec<u8>, ApiFailure> {
        let events = api::parse_batch(call.body, limits)?;
        for one in &events {
            self.checked_key(one.idempotency_key.as_deref())?;
        }
        let all = events.iter().map(|one| {
            let (name, data) = (one.name.as_str(), one.data.as_str());
            let idempotency_key = one.idempotency_key.as_deref();
            (&one.channel, ServerEvent { name, data, except: one.socket_id, idempotency_key })
        });
        self.hub.publish_all(call.app, all).await?;
        let mut body = Vec::new();
        if events.iter().all(|event| event.info.is_none()) {
            api::write_nothing(&mut body);
            return Ok(body);
        }
        let infos: Vec<_> = events
            .iter()
            .map(|one| self.published_info(call, &one.channel, one.info.unwrap_or_default()))
            .collect();
        api::write_batch(&mut body, infos.iter().cloned());
        Ok(body)
    }

    /// Publishes an event to all connections of a user, which are subscribed to the user's own
    /// channel.
    async fn publish_to_user(
        &self,
        call: &SignedCall<'_>,
        user: &str,
        limits: &PusherLimits,
    ) -> Result<Vec<u8>, ApiFailure> {
        let event = api::parse_user_event(call.body, limits)?;
        let channel = parse_name(&format!("{SERVER_TO_USER_PREFIX}{user}"), limits)?;
        let (name, data) = (event.name.as_str(), event.data.as_str());
        let idempotency_key = self.checked_key(event.idempotency_key.as_deref())?;
        let event = ServerEvent { name, data, except: None, idempotency_key };
        self.hub.publish(call.app, &channel, event).await?;
        Ok(empty_body())
    }

    /// Rejects a key where no log remembers it.
    fn checked_key<'a>(&self, key: Option<&'a str>) -> Result<Option<&'a str>, ApiFailure> {
        if key.is_some() && self.hub.broker.log.is_none() {
            let text = "idempotency_key needs a log that remembers it (realtime.broker)";
            return Err(ApiFailure::new(StatusCode::BAD_REQUEST, text));
        }
        Ok(key)
    }

    async fn terminate(&self, call: &SignedCall<'_>, user: &str) -> Result<Vec<u8>, ApiFailure> {
        self.hub.end_connections_everywhere(call.app, user).await?;
        Ok(empty_body())
    }

    /// Returns the requested attributes of a channel that was published to. Omits those that such a
    /// channel does not have.
    fn published_info(
        &self,
        call: &SignedCall<'_>,
        channel: &ChannelName,
        request: InfoRequest,
    ) -> ChannelInfo<'static> {
        let info = call.app.channels.get(channel.as_str()).map(|channel| channel.info());
        query::counts(info.as_ref(), channel.kind(), request)
    }
}

fn parse_name(name: &str, limits: &PusherLimits) -> Result<ChannelName, ApiFailure> {
    ChannelName::parse(name, limits)
        .map_err(|error| ApiFailure::new(StatusCode::BAD_REQUEST, error))
}

fn empty_body() -> Vec<u8> {
    let mut body = Vec::new();
    api::write_nothing(&mut body);
    body
}
