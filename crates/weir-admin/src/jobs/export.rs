//! The export of jobs: a page at a time, as fast as the client reads.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;

use weir_jobs::export_lines::export_line;
use weir_jobs::handle::{Handle, HandleError, JobQuery};
use weir_jobs::store::StoreError;
use weir_jobs::view::JobListPage;

type NextPage = Pin<Box<dyn Future<Output = Result<JobListPage, HandleError>> + Send>>;

/// A body of export lines ([`weir_jobs::export_lines`]) without an end line. An error in the middle aborts
/// the body, so that a partial export cannot pass for a whole one.
pub(super) struct Export {
    handle: Handle,
    query: JobQuery,
    ready: VecDeque<Bytes>,
    next: Option<NextPage>,
}

impl Export {
    /// Reads the first page, so that an invalid query gets an error response.
    pub(super) async fn start(handle: Handle, query: JobQuery) -> Result<Self, HandleError> {
        let first = complete_page(&handle, query.clone()).await?;
        let mut export = Self { handle, query, ready: VecDeque::new(), next: None };
        export.add(&first);
        Ok(export)
    }

    fn add(&mut self, page: &JobListPage) {
        let lines: String =
            page.jobs.iter().map(|job| export_line(&self.query.place, job)).collect();
        if !lines.is_empty() {
            self.ready.push_back(Bytes::from(lines));
        }
        self.next = page.next.clone().map(|after| {
            self.query.after = Some(after);
            let (handle, query) = (self.handle.clone(), self.query.clone());
            let next: NextPage = Box::pin(async move { complete_page(&handle, query).await });
            next
        });
    }
}

/// Reads a page. Jobs that can't be read now are an error: an export without them is not whole.
async fn complete_page(handle: &Handle, query: JobQuery) -> Result<JobListPage, HandleError> {
    let page = handle.jobs(query).await?;
    match page.missing {
        Some(missing) => Err(StoreError::Unavailable(missing).into()),
        None => Ok(page),
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
            if let Some(lines) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(lines))));
            }
            let Some(next) = &mut self.next else {
                return Poll::Ready(None);
            };
            let page = ready!(next.as_mut().poll(context));
            self.next = None;
            match page {
                Ok(page) => self.add(&page),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}
