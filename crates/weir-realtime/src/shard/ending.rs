//! Closing many connections at once. They are spread over the drain window, because clients
//! reconnect after a fixed time, and closed in turns, so that other connections on the core are not
//! delayed.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::Shard;
use super::close_reason::CloseReason;
use super::state::{AppEnd, ShardState};
use crate::app::App;
use crate::cores::AppNumber;
use crate::pusher::close_code::CloseCode;
use crate::pusher::socket_id::SocketId;
use crate::session::ClientSession;

/// The time between two steps.
const STEP: Duration = Duration::from_millis(20);

/// Connections to close now, and the code for each.
type Due = Vec<(SocketId, CloseCode)>;

impl Shard {
    /// Waits for the shutdown, then closes all connections.
    pub(super) async fn drain(self: Rc<Self>) {
        self.draining.cancelled().await;
        let steps = self.steps();
        for steps_left in (1..=steps).rev() {
            let mut open = self.state.borrow().open_sessions(|_| true);
            open.truncate(open.len().div_ceil(steps_left));
            if open.is_empty() {
                return;
            }
            let code = CloseCode::OverCapacity;
            self.close_in_turns(open.into_iter().map(|socket_id| (socket_id, code)).collect())
                .await;
            if steps_left > 1 {
                tokio::time::sleep(STEP).await;
            }
        }
    }

    /// Begins to close the connections of an app that was removed or disabled.
    pub(super) fn begin_app_end(&self, state: &mut ShardState, number: AppNumber) {
        let mut sessions = state.sessions.iter().map(|(_, session)| session);
        let Some(session) = sessions.find(|session| session.app.number == number) else { return };
        let app = Arc::clone(&session.app);
        let connections = state.open_sessions(|session| session.app.number == number);
        state.app_ends.retain(|end| !Arc::ptr_eq(&end.app, &app));
        state.app_ends.push(AppEnd { app, connections, steps_left: self.steps() });
        self.apps_ending.notify_one();
    }

    /// Closes the connections of such apps, until the core ends.
    pub(super) async fn end_apps(self: Rc<Self>) {
        loop {
            self.apps_ending.notified().await;
            loop {
                let due = self.due_of_apps(&mut self.state.borrow_mut());
                self.close_in_turns(due).await;
                if self.state.borrow().app_ends.is_empty() {
                    break;
                }
                tokio::time::sleep(STEP).await;
            }
        }
    }

    /// Returns the connections to close in the next step, for each app that ends.
    pub(super) fn due_of_apps(&self, state: &mut ShardState) -> Due {
        let mut due = Due::new();
        for AppEnd { app, connections, steps_left } in &mut state.app_ends {
            let Some(code) = self.code_of_end(app) else {
                connections.clear();
                continue;
            };
            let kept_count = connections.len() - connections.len().div_ceil(*steps_left);
            due.extend(connections.drain(kept_count..).map(|socket_id| (socket_id, code)));
            *steps_left = (*steps_left - 1).max(1);
        }
        state.app_ends.retain(|end| !end.connections.is_empty());
        due
    }

    /// Returns the close code for connections of an app that was removed or disabled, or None if it
    /// is enabled again.
    fn code_of_end(&self, app: &Arc<App>) -> Option<CloseCode> {
        let settings = app.settings();
        match self.hub.app_by_id(&settings.id) {
            None => Some(CloseCode::NoSuchApp),
            // An app with the same id was added again. Clients may reconnect to it.
            Some(other) if !Arc::ptr_eq(&other, app) => Some(CloseCode::OverCapacity),
            Some(_) if settings.is_enabled => None,
            Some(_) => Some(CloseCode::AppDisabled),
        }
    }

    /// Closes the connections in turns, and yields in between.
    async fn close_in_turns(&self, due: Due) {
        let batch = self.hub.settings().limits.writes_per_turn_max.max(1);
        for (index, due) in due.chunks(batch).enumerate() {
            if index > 0 {
                tokio::task::yield_now().await;
            }
            self.close_all(&mut self.state.borrow_mut(), due);
        }
    }

    pub(super) fn close_all(&self, state: &mut ShardState, due: &[(SocketId, CloseCode)]) {
        for (socket_id, code) in due {
            if let Some(key) = state.session_of(*socket_id) {
                self.close(state, key, CloseReason::Code(*code));
            }
        }
    }

    fn steps(&self) -> usize {
        let window = self.hub.settings().drain_window;
        usize::try_from(window.as_millis() / STEP.as_millis()).map_or(usize::MAX, |steps| steps + 1)
    }
}

impl ShardState {
    /// Returns the open connections for which `is_meant` returns true.
    fn open_sessions(&self, is_meant: impl Fn(&ClientSession) -> bool) -> Vec<SocketId> {
        let open = self.sessions.iter().map(|(_, session)| session);
        let open = open.filter(|session| !session.is_closing() && is_meant(session));
        open.map(|session| session.socket_id).collect()
    }
}
