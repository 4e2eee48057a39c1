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
            Operation::ListChannels => query::list_channels(self, call).await,
            Operation::Channel(name) => {
                query::channel(self, call, &parse_name(name, limits)?).await
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
            trace: call.fanout,
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
                let requests = channels.iter().map(|channel| (channel, request)).collect();
                let infos = self.published_infos(call, requests).await;
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
            let (except, trace) = (one.socket_id, call.fanout);
            (&one.channel, ServerEvent { name, data, except, idempotency_key, trace })
        });
        self.hub.publish_all(call.app, all).await?;
        let mut body = Vec::new();
        if events.iter().all(|event| event.info.is_none()) {
            api::write_nothing(&mut body);
            return Ok(body);
        }
        let requests = events.iter().map(|one| (&one.channel, one.info.unwrap_or_default()));
        let infos = self.published_infos(call, requests.collect()).await;
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
        let event = ServerEvent { name, data, except: None, idempotency_key, trace: call.fanout };
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

    /// Returns the requested attributes of channels that were published to. Omits those that such a
    /// channel does not have, and all if the log does not return them: the events are published.
    async fn published_infos(
        &self,
        call: &SignedCall<'_>,
        requests: Vec<(&ChannelName, InfoRequest)>,
    ) -> Vec<ChannelInfo<'static>> {
        let names: Vec<ChannelName> = requests.iter().map(|(name, _)| (*name).clone()).collect();
        let Ok(infos) = self.hub.channel_counts(call.app, &names).await else {
            return requests.iter().map(|_| ChannelInfo::default()).collect();
        };
        let requested = requests.iter().zip(infos);
        requested
            .map(|((name, request), info)| query::counts(info, name.kind(), *request))
            .collect()
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
