//! The export of jobs, and of batches, progress and cron jobs: a page at a time, as fast as the client
//! reads.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;

use weir_jobs::export_lines::{StatePlace, export_line, state_line};
use weir_jobs::handle::{Handle, HandleError, JobQuery};
use weir_jobs::store::StoreError;

/// The lines of a page, and the key behind which the next one begins.
#[derive(Debug)]
struct Page {
    lines: String,
    next: Option<String>,
}

type NextPage = Pin<Box<dyn Future<Output = Result<Page, HandleError>> + Send>>;

/// A body of export lines ([`weir_jobs::export_lines`]) without an end line. An error in the middle aborts
/// the body, so that a partial export cannot pass for a whole one.
pub(super) struct Export {
    handle: Handle,
    query: JobQuery,
    ready: Option<Bytes>,
    next: Option<NextPage>,
}

impl Export {
    /// Reads the first page, so that an invalid query gets an error response.
    pub(super) async fn start(handle: Handle, query: JobQuery) -> Result<Self, HandleError> {
        let first = read_page(&handle, query.clone()).await?;
        let mut export = Self { handle, query, ready: None, next: None };
        export.add(first);
        Ok(export)
    }

    fn add(&mut self, page: Page) {
        if !page.lines.is_empty() {
            self.ready = Some(Bytes::from(page.lines));
        }
        self.next = page.next.map(|after| {
            self.query.after = Some(after);
            let (handle, query) = (self.handle.clone(), self.query.clone());
            let next: NextPage = Box::pin(async move { read_page(&handle, query).await });
            next
        });
    }
}

async fn read_page(handle: &Handle, query: JobQuery) -> Result<Page, HandleError> {
    match StatePlace::named(&query.place) {
        Some(place) => {
            let page = handle.exported_state(place, query.after).await?;
            let lines = page.entries.iter().map(|entry| state_line(place, entry)).collect();
            Ok(Page { lines, next: page.next })
        }
        None => job_page(handle, query).await,
    }
}

/// Reads a page of jobs. Jobs that can't be read now are an error: an export without them is not whole.
async fn job_page(handle: &Handle, query: JobQuery) -> Result<Page, HandleError> {
    let place = query.place.clone();
    let page = handle.jobs(query).await?;
    match page.missing {
        Some(missing) => Err(StoreError::Unavailable(missing).into()),
        None => {
            let lines = page.jobs.iter().map(|job| export_line(&place, job)).collect();
            Ok(Page { lines, next: page.next })
        }
    }
}

impl HttpBody for Export {
    type Data = Bytes;
    type Error = HandleError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HandleError>>> {
        loop {
            if let Some(lines) = self.ready.take() {
                return Poll::Ready(Some(Ok(Frame::data(lines))));
            }
            let Some(next) = &mut self.next else {
                return Poll::Ready(None);
            };
            let page = ready!(next.as_mut().poll(context));
            self.next = None;
            match page {
                Ok(page) => self.add(page),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}
