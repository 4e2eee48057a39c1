//! Requests to the app behind the front. They are sent at their time, whether or not earlier ones have a response.

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_net::http_client::{HttpClient, HttpError, HttpRequest};

use crate::context::{LoadContext, Ticks};
use crate::http;
use crate::traffic::{Pace, Page, REQUESTS_PER_SECOND, page_of};

/// The most requests in progress, and connections that are kept.
const IN_PROGRESS_MAX: usize = 400;
/// What the front's responses to rejected requests say, with the names of the reasons.
const REASONS: [(&str, &str); 4] = [
    ("(queue_max)", "queue_max"),
    ("(queue_timeout)", "queue_timeout"),
    ("(overload_wait)", "overload"),
    // A shed rule of the settings.
    ("overloaded", "shed"),
];
/// A client gives up after this long.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn start(context: &Arc<LoadContext>) {
    let sender = Arc::clone(context);
    context.spawn(async move { send_all(&sender).await });
}

async fn send_all(context: &Arc<LoadContext>) {
    let client = Arc::new(http::client(context.settings.front, IN_PROGRESS_MAX));
    let permits = Arc::new(Semaphore::new(IN_PROGRESS_MAX));
    let (mut ticks, mut pace, mut number) = (Ticks::new(), Pace::default(), 0);
    loop {
        let elapsed = ticks.next().await;
        for _ in 0..pace.due(REQUESTS_PER_SECOND * context.factor(), elapsed) {
            number += 1;
            match Arc::clone(&permits).try_acquire_owned() {
                Ok(permit) => {
                    let (sender, client) = (Arc::clone(context), Arc::clone(&client));
                    context.spawn(send(sender, client, page_of(number), permit));
                }
                Err(_) => context.meter.record(|counts| counts.unsent += 1),
            }
        }
    }
}

async fn send(
    context: Arc<LoadContext>,
    client: Arc<HttpClient>,
    page: Page,
    _permit: OwnedSemaphorePermit,
) {
    let began = context.clock.now();
    let response = tokio::time::timeout(PATIENCE, respond(&client, page)).await;
    let took = context.clock.now().since(began);
    context.meter.record(|counts| match response {
        Ok(Ok((status, _))) if status.is_success() => {
            counts.served += 1;
            counts.response_times.add(took);
        }
        Ok(Ok((StatusCode::SERVICE_UNAVAILABLE, body))) => {
            *counts.rejected.entry(reason(&body)).or_default() += 1;
        }
        Ok(Ok(_) | Err(_)) | Err(_) => counts.errors += 1,
    });
}

/// Returns the reason of a rejection, as the console and the metrics name it. The front states it in its response.
fn reason(body: &[u8]) -> &'static str {
    let text = String::from_utf8_lossy(body);
    let stated = REASONS.into_iter().find(|(statement, _)| text.contains(statement));
    stated.map_or("other", |(_, reason)| reason)
}

async fn respond(client: &HttpClient, page: Page) -> Result<(StatusCode, Vec<u8>), HttpError> {
    let method = if page.method == "POST" { Method::POST } else { Method::GET };
    let request = HttpRequest::new(method, http::target(page.path), Vec::new().into());
    let mut response = client.send(request).await?;
    let body = response.read_to_end(http::BODY_BYTES_MAX).await?;
    Ok((response.status(), body))
}
