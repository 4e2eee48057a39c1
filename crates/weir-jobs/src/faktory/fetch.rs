//! FETCH: ask for a job, waiting a while when there is none.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

use super::refusal::FaktoryError;
use super::replies::FaktoryReply;
use super::session::FaktorySession;
use super::signal::SignalLevel;
use super::wire::{CloseReason, Watched, Wire};
use crate::model::{Delivery, QueueName};
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::store::{FetchRequest, Store};

/// The queues of a connection's last FETCH: a worker names the same ones every time.
#[derive(Debug, Default)]
pub(super) struct NamedQueues {
    text: Vec<u8>,
    queues: Vec<QueueName>,
}

impl NamedQueues {
    /// Keeps the queues that `text` names; answers whether they are others than before.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        limits: &JobServerLimits,
    ) -> Result<bool, FaktoryError> {
        if !self.queues.is_empty() && self.text == text {
            return Ok(false);
        }
        self.queues.clear();
        let queues = parse(text, limits)?;
        text.clone_into(&mut self.text);
        self.queues = queues;
        Ok(true)
    }

    /// In the order in which they were named.
    pub(super) fn queues(&self) -> &[QueueName] {
        &self.queues
    }
}

fn parse(text: &[u8], limits: &JobServerLimits) -> Result<Vec<QueueName>, FaktoryError> {
    let text =
        std::str::from_utf8(text).map_err(|error| FaktoryError::malformed("FETCH", error))?;
    let max = limits.fetch_queues_max;
    let mut queues = Vec::new();
    for name in text.split_ascii_whitespace() {
        if queues.len() == max {
            return Err(FaktoryError::FetchQueues { max });
        }
        queues.push(QueueName::parse(name, limits)?);
    }
    if queues.is_empty() { Err(FaktoryError::NoQueue) } else { Ok(queues) }
}

/// `FETCH q1 q2 ..`: bulk job, or null after `limits.fetch_wait`.
///
/// The session's named queues are what it asks for. While it waits, earlier replies have been sent,
/// and a client that hangs up ends it: the job that was on its way stays where it was. Being told to
/// be quiet, or the server's end, answers null.
pub(super) async fn fetch<S: Store, IO: AsyncRead + AsyncWrite + Unpin>(
    session: &FaktorySession<'_, S>,
    wire: &mut Wire<IO>,
    settings: &JobServerSettings,
) -> Result<Result<FaktoryReply, FaktoryError>, CloseReason> {
    let FaktorySession { service, client, named_queues } = session;
    let limits = &settings.limits;
    let queues = named_queues.queues.as_slice();
    if service.buffers.used_bytes() >= limits.buffered_bytes_max {
        return Ok(Err(FaktoryError::Buffered));
    }
    let wid = client.wid.as_ref();
    let request = FetchRequest { wid, queues, max: 1, wait: limits.fetch_wait };
    let serving = client.signal.order() == SignalLevel::Serve;
    let work = async {
        if serving {
            service.store.fetch(request).await
        } else {
            sleep(limits.fetch_wait).await;
            Ok(Vec::new())
        }
    };
    let mut work = pin!(work);
    let fetched = match poll_once(work.as_mut()).await {
        Poll::Ready(fetched) => fetched,
        Poll::Pending => {
            let _slot = service.waiting_fetches.count();
            wire.send(limits.write_timeout).await?;
            let until = if serving { SignalLevel::Quiet } else { SignalLevel::Close };
            match wire.watch(work, until).await {
                Watched::Done(fetched) => fetched,
                Watched::Ordered => Ok(Vec::new()),
                Watched::HungUp => return Err(CloseReason::Silent),
            }
        }
    };
    let answer = |job: Delivery| FaktoryReply::Bulk(job.json);
    let first = fetched.map(|jobs| jobs.into_iter().next().map_or(FaktoryReply::Null, answer));
    Ok(first.map_err(FaktoryError::from))
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_not_parsed_again() {
        let limits = JobServerLimits::default();
        let mut named = NamedQueues::default();
        let mut read = |text: &[u8]| {
            let read = named.read(text, &limits);
            read.map(|anew| (anew, named.queues.len(), named.queues.as_ptr()))
        };
        let (_, count, place) = read(b"a b").unwrap();
        assert_eq!(read(b"a b"), Ok((false, count, place)));
        assert_eq!(read(b" c  d  e ").map(|(anew, count, _)| (anew, count)), Ok((true, 3)));
        assert_eq!(read(b""), Err(FaktoryError::NoQueue));
        assert_eq!(read(b" "), Err(FaktoryError::NoQueue));
        assert_eq!(read(b"a b").map(|(anew, count, _)| (anew, count)), Ok((true, 2)));
    }

    #[test]
    fn too_many_queues_and_odd_names_are_refused() {
        let limits = JobServerLimits { fetch_queues_max: 2, ..JobServerLimits::default() };
        assert_eq!(parse(b"a b c", &limits), Err(FaktoryError::FetchQueues { max: 2 }));
        assert!(matches!(parse("ä".as_bytes(), &limits), Err(FaktoryError::Name(_))));
        assert!(matches!(parse(b"\xff", &limits), Err(FaktoryError::Malformed { .. })));
    }
}
