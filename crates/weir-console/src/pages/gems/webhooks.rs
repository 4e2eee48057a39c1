//! The endpoints of webhooks about pushes and yanks.

use weir_gems::view::EndpointView;

use crate::figures;
use crate::visible::visible;

pub(super) struct EndpointRow {
    pub(super) name: String,
    pub(super) waiting: String,
    pub(super) oldest: String,
    /// Empty: no failures.
    pub(super) failing: String,
}

impl EndpointRow {
    pub(super) fn new(endpoint: EndpointView, now: f64) -> Self {
        let EndpointView { name, waiting, oldest_at, failures, due_at } = endpoint;
        let next = match due_at > now {
            true => figures::relative(now, due_at),
            false => "now".to_owned(),
        };
        Self {
            name: visible(&name).into_owned(),
            waiting: figures::count(waiting),
            oldest: oldest_at.map_or_else(String::new, |at| figures::relative(now, at)),
            failing: match failures {
                0 => String::new(),
                times => format!("{times} in a row, next {next}"),
            },
        }
    }
}
