//! What watchers receive when users on their watchlists go online or offline.

use crate::cores::{Cores, DirectPayload};
use crate::frame::Frame;
use crate::pusher::server_message::{self, WatchlistChange};
use crate::pusher::socket_id::SocketId;

/// Returns the message for one user.
pub(crate) fn watchlist_frame(change: WatchlistChange, user_id: &str) -> Frame {
    Frame::text(|out| write_change(out, change, std::iter::once(user_id)))
}

/// Appends the message for some users.
pub(crate) fn write_change<'a>(
    out: &mut Vec<u8>,
    change: WatchlistChange,
    users: impl Iterator<Item = &'a str> + Clone,
) {
    server_message::watchlist_events(out, std::iter::once((change, users)));
}

/// Notifies watchers regardless of the cores' limits, as the change can't be rejected.
pub(crate) fn notify_always(
    cores: &Cores,
    watchers: &[SocketId],
    change: WatchlistChange,
    user_id: &str,
) {
    let frame = watchlist_frame(change, user_id);
    let messages = cores.address_always(watchers, frame.wire().len());
    cores.send(messages, &DirectPayload::Frame(frame));
}
