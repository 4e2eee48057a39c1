//! Requests that wait while a core has no room.

use super::*;

/// Joining a presence channel notifies the other members, which needs room. An error would be final
/// for pusher-js.
#[test]
fn who_joins_while_a_core_is_full_joins_when_there_is_room() {
    with_core(|core| {
        let (ada, grace) = (core.enter(), core.enter());
        core.join(ada, "presence-x", "ada");
        core.heard(ada.0);
        let full = core.fill();
        let connection = ManualConnection { key: grace.0, socket_id: grace.1 };
        let mut said = ManualCore::joining(grace, "presence-x", "grace");
        said.extend(frame("pusher:ping", &json!({})));
        assert!(core.receive(connection, &said));
        assert!(!core.receive(connection, &frame("pusher:ping", &json!({}))));
        core.requeue(grace);
        assert!(core.heard(grace.0).is_empty(), "neither refused nor listened to");
        assert!(core.is_postponed(grace.0));
        assert_eq!(core.leftovers().paced, 1, "it waits again");
        drop(full);
        core.requeue(grace);
        assert_eq!(core.heard(grace.0), ["pusher_internal:subscription_succeeded"]);
        assert!(core.receive(connection, b""), "now it is listened to again");
        assert_eq!(core.heard(grace.0), ["pusher:pong"]);
        core.deliver();
        assert_eq!(core.heard(ada.0), ["pusher_internal:member_added"]);
        assert_eq!((core.leftovers().paced, core.room()), (0, (0, 0)));
    });
}

#[test]
fn who_leaves_while_it_waits_for_room_has_joined_nothing() {
    with_core(|core| {
        let (ada, grace) = (core.enter(), core.enter());
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
fn who_signs_in_while_a_core_is_full_is_signed_in_when_there_is_room() {
    with_core(|core| {
        let (watcher, ada) = (core.enter(), core.enter());
        core.sign_in(watcher, "grace", &["ada", "ada"]);
        core.heard(watcher.0);
        let full = core.fill();
        core.sign_in(ada, "ada", &[]);
        assert!(core.heard(ada.0).is_empty() && core.is_postponed(ada.0));
        drop(full);
        core.requeue(ada);
        assert_eq!(core.heard(ada.0), ["pusher:signin_success"]);
        assert_eq!(core.room().0, 1, "the letter to who watches has room of its own");
        core.deliver();
        assert_eq!(core.heard(watcher.0), ["pusher_internal:watchlist_events"]);
        assert_eq!(core.room(), (0, 0));
    });
}

#[test]
fn ending_connections_needs_room_and_goes_in_turns() {
    with_core(|core| {
        let turn = core.0.hub.settings().limits.writes_per_turn_max;
        let all: Vec<_> = (0..=turn).map(|_| core.enter()).collect();
        for one in &all {
            core.sign_in(*one, "ada", &[]);
        }
        let full = core.fill();
        assert!(core.0.hub.disconnect_user("1", "ada").is_err());
        drop(full);
        assert_eq!(core.0.hub.disconnect_user("1", "ada").unwrap(), turn + 1);
        core.receive_messages();
        let open =
            || core.0.state.borrow().sessions.iter().filter(|(_, one)| !one.is_closing()).count();
        assert_eq!(open(), turn + 1);
        core.turn();
        assert_eq!((open(), core.room().0), (1, 1));
        core.turn();
        assert_eq!((open(), core.room().0), (0, 0));
    });
}
