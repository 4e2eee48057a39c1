//! Requests that wait while a core has no room.

use super::*;

/// Joining a presence channel notifies the other members, which needs room. An error would be final
/// for pusher-js.
#[test]
fn a_join_on_a_full_core_succeeds_when_there_is_budget() {
    with_core(|core| {
        let (ada, grace) = (core.connect_client(), core.connect_client());
        core.join(ada, "presence-x", "ada");
        core.take_event_names(ada.0);
        let full = core.fill();
        let connection = ManualConnection { key: grace.0, socket_id: grace.1 };
        let mut frame_bytes = ManualCore::joining(grace, "presence-x", "grace");
        frame_bytes.extend(frame("pusher:ping", &json!({})));
        assert!(core.receive(connection, &frame_bytes));
        assert!(!core.receive(connection, &frame("pusher:ping", &json!({}))));
        core.requeue(grace);
        assert!(core.take_event_names(grace.0).is_empty(), "neither refused nor listened to");
        assert!(core.is_postponed(grace.0));
        assert_eq!(core.leftovers().waiting_to_subscribe, 1, "it waits again");
        drop(full);
        core.requeue(grace);
        assert_eq!(core.take_event_names(grace.0), ["pusher_internal:subscription_succeeded"]);
        assert!(core.receive(connection, b""), "now it is listened to again");
        assert_eq!(core.take_event_names(grace.0), ["pusher:pong"]);
        core.deliver();
        assert_eq!(core.take_event_names(ada.0), ["pusher_internal:member_added"]);
        assert_eq!((core.leftovers().waiting_to_subscribe, core.budget()), (0, (0, 0)));
    });
}

#[test]
fn leaving_while_waiting_for_budget_leaves_no_subscription() {
    with_core(|core| {
        let (ada, grace) = (core.connect_client(), core.connect_client());
        core.join(ada, "presence-x", "ada");
        let full = core.fill();
        core.join(grace, "presence-x", "grace");
        core.0.close(&mut core.0.state.borrow_mut(), grace.0, CloseReason::Code(CloseCode::NoPong));
        assert!(!core.is_postponed(grace.0));
        drop(full);
        core.requeue(grace);
        assert!(
            core.subscriptions(ManualConnection { key: grace.0, socket_id: grace.1 }).is_empty()
        );
    });
}

#[test]
fn a_sign_in_on_a_full_core_succeeds_when_there_is_budget() {
    with_core(|core| {
        let (watcher, ada) = (core.connect_client(), core.connect_client());
        core.sign_in(watcher, "grace", &["ada", "ada"]);
        core.take_event_names(watcher.0);
        let full = core.fill();
        core.sign_in(ada, "ada", &[]);
        assert!(core.take_event_names(ada.0).is_empty() && core.is_postponed(ada.0));
        drop(full);
        core.requeue(ada);
        assert_eq!(core.take_event_names(ada.0), ["pusher:signin_success"]);
        assert_eq!(core.budget().0, 1, "the letter to who watches has room of its own");
        core.deliver();
        assert_eq!(core.take_event_names(watcher.0), ["pusher_internal:watchlist_events"]);
        assert_eq!(core.budget(), (0, 0));
    });
}

#[test]
fn closing_connections_needs_budget_and_is_split_into_turns() {
    with_core(|core| {
        let turn = core.0.hub.settings().limits.writes_per_turn_max;
        let all: Vec<_> = (0..=turn).map(|_| core.connect_client()).collect();
        for one in &all {
            core.sign_in(*one, "ada", &[]);
        }
        let full = core.fill();
        assert!(core.disconnect_user("1", "ada").is_err());
        drop(full);
        assert_eq!(core.disconnect_user("1", "ada").unwrap(), turn + 1);
        core.receive_messages();
        let open =
            || core.0.state.borrow().sessions.iter().filter(|(_, one)| !one.is_closing()).count();
        assert_eq!(open(), turn + 1);
        core.deliver_turn();
        assert_eq!((open(), core.budget().0), (1, 1));
        core.deliver_turn();
        assert_eq!((open(), core.budget().0), (0, 0));
    });
}
