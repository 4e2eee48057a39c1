//! Realtime clients, and the application's server that publishes to them.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde_json::json;
use weir_base::clock::Timestamp;
use weir_net::http_client::{HttpClient, HttpError, HttpRequest};

use crate::context::{LoadContext, Ticks};
use crate::http;
use crate::pusher::{self, PusherConnection};
use crate::traffic::{CHANNELS, EVENTS_PER_SECOND, Pace};

/// Clients connect one after the other, this far apart.
const CONNECT_STEP: Duration = Duration::from_millis(2);
const EVENT: &str = "post";

/// Starts the clients and the publisher.
pub(crate) fn start(context: &Arc<LoadContext>) {
    for number in 0..context.settings.clients {
        let client = Arc::clone(context);
        context.spawn(async move {
            tokio::time::sleep(CONNECT_STEP * u32::try_from(number).unwrap_or(u32::MAX)).await;
            client.repeat(|| receive(&client, number)).await;
        });
    }
    let publisher = Arc::clone(context);
    context.spawn(async move { publish(&publisher).await });
}

fn channel(number: usize) -> String {
    format!("news-{}", number % CHANNELS)
}

async fn receive(context: &LoadContext, number: usize) -> std::io::Result<()> {
    let mut connection = PusherConnection::open(context.settings.front).await?;
    connection.subscribe(&channel(number)).await?;
    let _counted = context.meter.count_client();
    loop {
        let event = connection.next_event().await?;
        let at = event["data"].as_str().and_then(|micros| micros.parse().ok());
        let Some(at) = at.filter(|_| event["event"] == EVENT) else { continue };
        let delay = context.clock.now().since(Timestamp::from_micros(at));
        context.meter.record(|counts| {
            counts.delivered += 1;
            counts.delays.add(delay);
        });
    }
}

async fn publish(context: &LoadContext) {
    let client = http::client(context.settings.front, 1);
    let (mut ticks, mut pace) = (Ticks::new(), Pace::default());
    for number in 0.. {
        let elapsed = ticks.next().await;
        for event in 0..pace.due(EVENTS_PER_SECOND * context.factor(), elapsed) {
            let is_published = publish_one(context, &client, number + event).await;
            context.meter.record(|counts| match is_published {
                Ok(true) => counts.published += 1,
                Ok(false) | Err(_) => counts.publish_failed += 1,
            });
        }
    }
}

/// Publishes an event with the present time. Returns whether it was accepted.
async fn publish_one(
    context: &LoadContext,
    client: &HttpClient,
    number: usize,
) -> Result<bool, HttpError> {
    let now = context.clock.now();
    let data = now.as_micros().to_string();
    let body = json!({ "name": EVENT, "channel": channel(number), "data": data }).to_string();
    let seconds = now.as_millis() / 1_000;
    let target = pusher::publish_target(&context.settings.secret, body.as_bytes(), seconds);
    let request = HttpRequest {
        is_repeatable: false,
        ..HttpRequest::new(Method::POST, http::target(&target), body.into())
    };
    let mut response = client.send(request).await?;
    response.read_to_end(http::BODY_BYTES_MAX).await?;
    Ok(response.status().is_success())
}
