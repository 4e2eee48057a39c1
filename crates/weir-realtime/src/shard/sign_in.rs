//! Signing users in and out, and notifying their watchers.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::Shard;
use super::messages::write_error;
use super::state::ShardState;
use crate::cores::SessionKey;
use crate::cores::{CoreBusy, DirectPayload};
use crate::frame::append_text;
use crate::pusher::client_message::SignIn;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message::{self, WatchlistChange};
use crate::pusher::socket_id::SocketId;
use crate::pusher::user_data::UserData;
use crate::session::Postponed;
use crate::users::SignedIn;
use crate::watchlist::{self, watchlist_frame, write_change};

impl Shard {
    pub(super) fn sign_in(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        request: SignIn,
        output: &mut Vec<u8>,
    ) {
        let session = state.session(key);
        if session.user.is_some() {
            return write_error(output, "this connection has signed in already");
        }
        let socket_id = session.socket_id;
        let app = Arc::clone(&session.app);
        let verified =
            app.settings().token().verify_sign_in(&request.auth, socket_id, &request.user_data);
        if let Err(error) = verified {
            let code = Some(CloseCode::Unauthorized);
            return append_text(output, |out| server_message::error(out, code, &error.to_string()));
        }
        let settings = self.hub.settings();
        let data = match UserData::parse(&request.user_data, &settings.limits.pusher) {
            Ok(data) => data,
            Err(error) => return write_error(output, &error.to_string()),
        };
        let user = SignedIn {
            user_id: Arc::from(&*data.id),
            user_info: data.user_info.map(|info| Arc::<RawValue>::from(info.to_owned())),
            watchlist: data.watchlist.accepted.iter().map(|user| Arc::from(&**user)).collect(),
        };
        let is_cut = data.watchlist.dropped > 0;
        let frame = watchlist_frame(WatchlistChange::Online, &user.user_id);
        let admit = |watchers: &[SocketId]| self.hub.cores.address(watchers, frame.wire().len());
        let signed_in = app.users.sign_in(socket_id, &user, admit, |messages, online| {
            write_signed_in(output, &request.user_data, is_cut, online);
            self.hub.cores.send(messages, &DirectPayload::Frame(frame.clone()));
        });
        match signed_in {
            Ok(()) => {
                self.hub.broker.note_sign_in(&app, &user);
                let session = state.session(key);
                (session.has_been_used, session.is_authorized) = (true, true);
                session.user = Some(Box::new(user));
            }
            Err(CoreBusy) => self.postpone(state, key, Postponed::SignIn(request)),
        }
    }

    /// Signs the connection's user out. The watchers are notified regardless of the cores' limits,
    /// as this can't be rejected. It happens once per sign-in, and a new sign-in needs room, so the
    /// waiting messages are limited by the number of signed-in users and their watchlists
    /// (`watchlist_users_max`).
    pub(super) fn sign_out(&self, state: &mut ShardState, key: SessionKey) {
        let session = state.session(key);
        let Some(user) = session.user.take() else { return };
        session.app.users.sign_out(session.socket_id, &user, |watchers| {
            let change = WatchlistChange::Offline;
            watchlist::notify_always(&self.hub.cores, watchers, change, &user.user_id);
        });
        self.hub.broker.note_sign_out(&session.app, &user);
    }
}

/// Appends the response to a sign-in, and the users of the watchlist that are online.
fn write_signed_in(output: &mut Vec<u8>, user_data: &str, is_cut: bool, online: &[Arc<str>]) {
    append_text(output, |out| server_message::signin_success(out, user_data));
    if is_cut {
        let code = CloseCode::WatchlistTooLong;
        append_text(output, |out| server_message::error(out, Some(code), code.reason()));
    }
    if !online.is_empty() {
        let online = online.iter().map(|user| &**user);
        append_text(output, |out| write_change(out, WatchlistChange::Online, online));
    }
}
