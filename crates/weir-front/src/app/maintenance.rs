//! Maintenance mode: every request gets a page, and none reaches a worker.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

/// The default page.
const PAGE: &[u8] = b"<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><title>Back soon</title>\
<h1>Back soon</h1><p>This site is being maintained. Please try again in a few minutes.</p></html>\n";

/// The switch for an app's maintenance mode, and its page.
#[derive(Debug)]
pub(crate) struct Maintenance {
    page: Bytes,
    is_on: AtomicBool,
}

impl Maintenance {
    pub(crate) fn new(page: Option<Bytes>) -> Self {
        let page = page.unwrap_or(Bytes::from_static(PAGE));
        Self { page, is_on: AtomicBool::new(false) }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    pub(crate) fn page(&self) -> Bytes {
        self.page.clone()
    }
}
