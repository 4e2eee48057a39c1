//! Connections of an app that was removed, disabled, or added again.

use super::*;

/// Closes an app's connections. Returns how many are closed in each step, and the close code.
fn steps_of_app_end(core: &ManualCore) -> Vec<(usize, Option<CloseCode>)> {
    core.receive_messages();
    let mut steps = Vec::new();
    while !core.0.state.borrow().app_ends.is_empty() {
        let state = &mut *core.0.state.borrow_mut();
        let due = core.0.due_of_apps(state);
        core.0.close_all(state, &due);
        steps.push((due.len(), due.first().map(|(_, code)| *code)));
    }
    steps
}

fn reload(core: &ManualCore, is_enabled: Option<bool>) {
    let apps = is_enabled.map(|is_enabled| AppSettings { is_enabled, ..app() });
    core.0.hub.reload(Settings::default(), apps.into_iter().collect());
}

#[test]
fn connections_of_a_removed_app_close_over_the_drain_window() {
    for (is_enabled, code) in [(None, CloseCode::NoSuchApp), (Some(false), CloseCode::AppDisabled)]
    {
        with_core(|core| {
            let all: Vec<_> = (0..302).map(|_| core.connect_client()).collect();
            reload(core, is_enabled);
            let steps = steps_of_app_end(core);
            // 3 s, in steps of 20 ms.
            assert_eq!(steps, [(2, Some(code)); 151]);
            assert_eq!(core.take_event_names(all[0].0), ["pusher:error"]);
            core.advance_time(std::time::Duration::from_secs(60));
            core.remove_expired();
            assert_eq!(core.leftovers(), Leftovers::default());
        });
    }
}

#[test]
fn a_re_enabled_app_keeps_its_remaining_connections() {
    with_core(|core| {
        let (one, _) = core.connect_client();
        reload(core, Some(false));
        reload(core, Some(true));
        assert_eq!(steps_of_app_end(core), [(0, None)]);
        assert!(core.take_event_names(one).is_empty());
    });
}

/// After 4001, clients would not reconnect to the app that was added again.
#[test]
fn connections_of_a_re_added_app_reconnect() {
    with_core(|core| {
        core.connect_client();
        reload(core, None);
        reload(core, Some(true));
        assert_eq!(steps_of_app_end(core), [(1, Some(CloseCode::OverCapacity))]);
    });
}
