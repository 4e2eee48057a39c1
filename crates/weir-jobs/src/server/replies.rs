//! Sends the results of requests.

use std::future::Future;

use crate::handle::{HandleError, Reply};

pub(super) fn send_reply<T>(reply: Reply<T>, result: Result<T, HandleError>) {
    // The receiver may have been dropped; the action is complete regardless.
    let _ = reply.send(result);
}

/// Runs a read request, and cancels it if the receiver is dropped.
pub(super) async fn reply_unless_dropped<T>(
    mut reply: Reply<T>,
    work: impl Future<Output = Result<T, HandleError>>,
) {
    let result = tokio::select! {
        biased;
        () = reply.closed() => return,
        result = work => result,
    };
    send_reply(reply, result);
}
