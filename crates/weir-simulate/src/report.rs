//! The results of policies for people: a table, charts for a terminal, and a page.

mod chart;
mod page;
mod svg;
mod table;
mod units;

pub use self::chart::charts;
pub use self::page::page;
pub use self::table::{Table, queue_table, summary_table};

use crate::engine::Record;

/// The results of a policy.
#[derive(Clone, Debug)]
pub struct PolicyResult {
    /// Name of the policy.
    pub policy: String,
    /// What it led to.
    pub record: Record,
}
