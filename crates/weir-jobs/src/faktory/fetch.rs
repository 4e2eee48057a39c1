//! FETCH and FETCHB: request one job, or many, and wait if there is none.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

use super::error::FaktoryError;
use super::replies::FaktoryReply;
use super::session::FaktorySession;
use super::signal::SignalLevel;
use super::wire::{CloseReason, Watched, Wire};
use crate::metrics::JobServerLimit;
use crate::model::{Delivery, QueueName};
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::store::{BatchSize, FetchRequest, Store};

/// The queues of a connection's last FETCH, cached because a worker names the same ones every time.
#[derive(Debug, Default)]
pub(super) struct NamedQueues {
    text: Vec<u8>,
    queues: Vec<QueueName>,
}

impl NamedQueues {
    /// Parses and stores the queues that `text` names. Returns whether they differ from the
    /// previous ones.
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

    /// Returns the queues in the order in which they were named.
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

/// Splits `N q1 q2 ..` into the number of jobs that a FETCHB requests, and its queues.
pub(super) fn split_count<'t>(
    text: &'t [u8],
    limits: &JobServerLimits,
) -> Result<(usize, &'t [u8]), FaktoryError> {
    let end = memchr(b' ', text).unwrap_or(text.len());
    let (number, queues) = text.split_at(end);
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    if !is_number || number.iter().all(|digit| *digit == b'0') {
        return Err(malformed("it must begin with the number of jobs, at least 1"));
    }
    if queues.trim_ascii().is_empty() {
        return Err(malformed("a queue must follow the number of jobs"));
    }
    let max = limits.batch_jobs_max;
    // A number that does not fit into `usize` is over the limit anyway.
    let jobs = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
    match jobs.filter(|jobs| *jobs <= max) {
        Some(jobs) => Ok((jobs, queues)),
        None => Err(FaktoryError::BatchJobs { command: "FETCHB", max }),
    }
}

fn malformed(complaint: &str) -> FaktoryError {
    FaktoryError::malformed("FETCHB", format_args!("{complaint}: FETCHB N QUEUE [QUEUE ..]"))
}

/// Runs `FETCH q1 q2 ..`. Replies with a bulk job, or null after `limits.fetch_wait`.
pub(super) async fn fetch<S: Store, IO: AsyncRead + AsyncWrite + Unpin>(
    session: &FaktorySession<'_, S>,
    wire: &mut Wire<IO>,
    settings: &JobServerSettings,
) -> Result<Result<FaktoryReply, FaktoryError>, CloseReason> {
    let fetched = fetch_jobs(session, wire, settings, BatchSize::ONE).await?;
    let to_reply = |job: Delivery| FaktoryReply::Bulk(job.json);
    Ok(fetched.map(|jobs| jobs.into_iter().next().map_or(FaktoryReply::Null, to_reply)))
}

/// Runs `FETCHB N q1 q2 ..`. Replies with an array of up to N jobs as soon as there is one, or with
/// an empty array after `limits.fetch_wait`.
pub(super) async fn fetchb<S: Store, IO: AsyncRead + AsyncWrite + Unpin>(
    session: &FaktorySession<'_, S>,
    wire: &mut Wire<IO>,
    settings: &JobServerSettings,
    jobs: usize,
) -> Result<Result<FaktoryReply, FaktoryError>, CloseReason> {
    let max = BatchSize { jobs, bytes: settings.limits.batch_bytes_max };
    let fetched = fetch_jobs(session, wire, settings, max).await?;
    Ok(fetched.map(|fetched| {
        let bulks: Vec<_> = fetched.into_iter().map(|job| job.json).collect();
        let bytes = bulks.iter().map(Vec::len).sum();
        if bulks.len() < jobs && max.is_reached(BatchSize { jobs: bulks.len(), bytes }) {
            session.service.metrics.limit_hit(JobServerLimit::BatchBytesMax);
        }
        FaktoryReply::Array(bulks)
    }))
}

/// Fetches from the session's named queues. Before it waits, earlier replies are sent. If the
/// client disconnects, the fetch is cancelled and the job stays in its queue. If the worker is
/// quieted or the server shuts down, returns no job.
async fn fetch_jobs<S: Store, IO: AsyncRead + AsyncWrite + Unpin>(
    session: &FaktorySession<'_, S>,
    wire: &mut Wire<IO>,
    settings: &JobServerSettings,
    max: BatchSize,
) -> Result<Result<Vec<Delivery>, FaktoryError>, CloseReason> {
    let FaktorySession { service, client, named_queues } = session;
    let limits = &settings.limits;
    let queues = named_queues.queues.as_slice();
    if service.buffers.used_bytes() >= limits.buffered_bytes_max {
        return Ok(Err(FaktoryError::Buffered));
    }
    let wid = client.wid.as_ref();
    let request = FetchRequest { wid, queues, max, wait: limits.fetch_wait };
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
            let level = if serving { SignalLevel::Quiet } else { SignalLevel::Close };
            match wire.watch(work, level).await {
                Watched::Done(fetched) => fetched,
                Watched::Signalled => Ok(Vec::new()),
                Watched::Disconnected => return Err(CloseReason::Silent),
            }
        }
    };
    if let Ok(jobs) = &fetched {
        service.traces.begin_runs(jobs, &service.clock);
    }
    Ok(fetched.map_err(FaktoryError::from))
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn same_queues_are_not_parsed_again() {
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

    proptest! {
        #[test]
        fn count_is_split_off(text in "[0-9]{0,15}[ \\PC]{0,20}", max in 1..2_000_usize) {
            let limits = JobServerLimits { batch_jobs_max: max, ..JobServerLimits::default() };
            match split_count(text.as_bytes(), &limits) {
                Ok((jobs, queues)) => {
                    prop_assert!((1..=max).contains(&jobs));
                    let rebuilt = [jobs.to_string().as_bytes(), queues].concat();
                    prop_assert_eq!(&rebuilt[..], text.trim_start_matches('0').as_bytes());
                }
                Err(FaktoryError::BatchJobs { .. }) => {
                    let digits = text.split(' ').next().unwrap_or_default();
                    prop_assert!(digits.parse::<u128>().is_ok_and(|jobs| jobs > max as u128));
                }
                Err(error) => {
                    let is_malformed = matches!(error, FaktoryError::Malformed { .. });
                    prop_assert!(is_malformed);
                }
            }
        }
    }

    #[test]
    fn count_is_unsigned_and_limited() {
        let limits = JobServerLimits { batch_jobs_max: 10, ..JobServerLimits::default() };
        let split = |text: &'static str| split_count(text.as_bytes(), &limits);
        assert_eq!(split("10 a b"), Ok((10, b" a b" as &[u8])));
        assert_eq!(split("007 a"), Ok((7, b" a" as &[u8])));
        for text in ["", " ", "0 a", "-1 a", "+1 a", "1.0 a", "a", "a 1", "1", "1  ", "1\ta"] {
            assert!(matches!(split(text), Err(FaktoryError::Malformed { .. })), "{text}");
        }
        let too_many = Err(FaktoryError::BatchJobs { command: "FETCHB", max: 10 });
        assert_eq!(
            (split("11 a"), split("99999999999999999999999 a")),
            (too_many.clone(), too_many)
        );
    }

    #[test]
    fn too_many_queues_and_invalid_names_are_rejected() {
        let limits = JobServerLimits { fetch_queues_max: 2, ..JobServerLimits::default() };
        assert_eq!(parse(b"a b c", &limits), Err(FaktoryError::FetchQueues { max: 2 }));
        assert!(matches!(parse("ä".as_bytes(), &limits), Err(FaktoryError::Name(_))));
        assert!(matches!(parse(b"\xff", &limits), Err(FaktoryError::Malformed { .. })));
    }
}
