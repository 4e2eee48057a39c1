//! The latest changes of the index.

use weir_gems::view::ChangeView;

use super::link::gem_address;
use crate::visible::visible;

pub(super) struct ChangeRow {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) pushed: String,
    pub(super) yanked: String,
}

impl ChangeRow {
    pub(super) fn new(change: ChangeView) -> Self {
        let ChangeView { name, pushed, yanked, more } = change;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Self {
            address: gem_address(&name),
            pushed: visible(&(pushed.join(", ") + &more)).into_owned(),
            yanked: visible(&yanked.join(", ")).into_owned(),
            name: visible(&name).into_owned(),
        }
    }
}
