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
fn the_connections_of_an_app_that_is_gone_or_off_end_over_the_drain_window() {
    for (is_enabled, code) in [(None, CloseCode::NoSuchApp), (Some(false), CloseCode::AppDisabled)]
    {
        with_core(|core| {
            let all: Vec<_> = (0..302).map(|_| core.enter()).collect();
            reload(core, is_enabled);
            let steps = steps_of_app_end(core);
            // 3 s, in steps of 20 ms.
            assert_eq!(steps, [(2, Some(code)); 151]);
            assert_eq!(core.heard(all[0].0), ["pusher:error"]);
            core.pass(std::time::Duration::from_secs(60));
            core.tidy();
            assert_eq!(core.leftovers(), Leftovers::default());
        });
    }
}

#[test]
fn an_app_that_is_on_again_keeps_the_connections_that_are_left() {
    with_core(|core| {
        let (one, _) = core.enter();
        reload(core, Some(false));
        reload(core, Some(true));
        assert_eq!(steps_of_app_end(core), [(0, None)]);
        assert!(core.heard(one).is_empty());
    });
}

/// After 4001, clients would not reconnect to the app that was added again.
#[test]
fn connections_of_an_app_that_is_there_again_come_back_to_it() {
    with_core(|core| {
        core.enter();
        reload(core, None);
        reload(core, Some(true));
        assert_eq!(steps_of_app_end(core), [(1, Some(CloseCode::OverCapacity))]);
    });
}
