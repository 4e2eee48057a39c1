use std::collections::HashSet;

use weir_realtime::pusher::close_code::{CloseCode, Reconnection};

#[test]
fn every_close_code_has_a_number_and_a_fitting_reason() {
    let numbers: HashSet<_> = CloseCode::ALL.iter().map(|code| code.number()).collect();
    assert_eq!(numbers.len(), CloseCode::ALL.len());
    for code in CloseCode::ALL {
        assert!((1..=123).contains(&code.reason().len()), "{code:?}");
    }
}

#[test]
fn close_code_ranges_match_pusher_js() {
    for (code, then) in [
        (CloseCode::TlsOnly, Reconnection::AtOnceWithTls),
        (CloseCode::NoSuchApp, Reconnection::Never),
        (CloseCode::Unauthorized, Reconnection::Never),
        (CloseCode::OverCapacity, Reconnection::AfterOneSecond),
        (CloseCode::Reconnect, Reconnection::AtOnce),
        (CloseCode::Inactive, Reconnection::AtOnce),
        (CloseCode::ClientEventRate, Reconnection::Never),
    ] {
        assert_eq!(code.pusher_js(), then, "{code:?}");
    }
}
