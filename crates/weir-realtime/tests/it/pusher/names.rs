use proptest::prelude::*;
use weir_realtime::pusher::channel::{Access, ChannelKind, ChannelName, ChannelNameError};
use weir_realtime::pusher::event::{self, EventName, EventNameError};
use weir_realtime::pusher::limits::PusherLimits;
use weir_realtime::pusher::position::{ChannelPosition, Epoch};
use weir_realtime::pusher::socket_id::SocketId;

fn channel(name: &str) -> Result<ChannelName, ChannelNameError> {
    ChannelName::parse(name, &PusherLimits::default())
}

#[test]
fn channel_prefixes_determine_the_kind() {
    for (name, access, caches) in [
        ("news", Access::Public, false),
        ("cache-news", Access::Public, true),
        ("private-a", Access::Private, false),
        ("private-cache-a", Access::Private, true),
        ("presence-a", Access::Presence, false),
        ("presence-cache-a", Access::Presence, true),
        ("private-encrypted-a", Access::Encrypted, false),
        ("private-encrypted-cache-a", Access::Encrypted, true),
        ("#server-to-user-7", Access::ServerToUser, false),
        ("#server-to-user-cache-7", Access::ServerToUser, false),
        // Only in their places are these prefixes.
        ("cache-private-a", Access::Public, true),
        ("private-cache-encrypted-a", Access::Private, true),
        ("presence-encrypted-a", Access::Presence, false),
        ("privateer", Access::Public, false),
        ("private-news-cache-a", Access::Private, false),
    ] {
        let kind = channel(name).unwrap().kind();
        assert_eq!(kind, ChannelKind { access, caches }, "{name}");
    }
}

#[test]
fn channel_kinds_determine_the_permissions() {
    // name, needs auth, client events, presence, subscription count
    for (name, rules) in [
        ("a", [false, false, false, true]),
        ("cache-a", [false, false, false, true]),
        ("private-a", [true, true, false, true]),
        ("presence-a", [true, true, true, false]),
        ("private-encrypted-a", [true, false, false, true]),
        ("private-encrypted-cache-a", [true, false, false, true]),
        ("#server-to-user-a", [false, false, false, false]),
    ] {
        let kind = ChannelKind::of(name);
        let found = [
            kind.needs_auth(),
            kind.allows_client_events(),
            kind.has_presence(),
            kind.sends_subscription_count(),
        ];
        assert_eq!(found, rules, "{name}");
    }
}

#[test]
fn an_invalid_channel_name_has_an_explaining_error() {
    assert!(channel("aZ09_-=@,.;").is_ok());
    assert!(channel(&"a".repeat(164)).is_ok());
    for (name, message) in [
        (String::new(), "the channel name is empty"),
        ("a".repeat(165), "the channel name has 165 bytes; at most 164 are allowed"),
        (
            "room 1".to_owned(),
            "channel 'room 1' has ' ' at byte 4; a name may have A-Z a-z 0-9 _ - = @ , . ;",
        ),
        (
            "é\n".to_owned(),
            "channel 'é\\n' has 'é' at byte 0; a name may have A-Z a-z 0-9 _ - = @ , . ;",
        ),
        (
            "#other".to_owned(),
            "channel '#other' has '#' at byte 0; a name may have A-Z a-z 0-9 _ - = @ , . ;",
        ),
        ("#server-to-user-".to_owned(), "'#server-to-user-' must be followed by a user's id"),
        ("private-".to_owned(), "channel 'private-' has no name: something must follow the prefix"),
    ] {
        assert_eq!(channel(&name).unwrap_err().to_string(), message);
    }
    let limits = PusherLimits { channel_name_bytes_max: 3, ..PusherLimits::default() };
    assert_eq!(
        ChannelName::parse("four", &limits).unwrap_err(),
        ChannelNameError::TooLong { bytes: 4, max: 3 }
    );
}

#[test]
fn a_prefix_alone_is_not_a_channel_name() {
    for access in ["private-", "presence-", "private-encrypted-", ""] {
        for name in [access.to_owned(), format!("{access}cache-")] {
            assert!(channel(&name).is_err(), "{name}");
            assert!(channel(&format!("{name}a")).is_ok(), "{name}a");
        }
    }
    // Without its dash it is a name, and a user may be called so.
    for name in ["private", "private-encrypted", "cache", "#server-to-user-cache-"] {
        assert!(channel(name).is_ok(), "{name}");
    }
}

#[test]
fn user_channels_accept_any_user_id() {
    assert_eq!(channel("#server-to-user-auth0|5 é").unwrap().server_to_user(), Some("auth0|5 é"));
    assert!(channel("#server-to-user-a\nb").is_err());
    assert_eq!(channel("private-a").unwrap().server_to_user(), None);
}

#[test]
fn event_names_are_limited_and_protocol_names_rejected() {
    let limits = PusherLimits::default();
    let parse = |name: &str| EventName::parse(name.to_owned().into(), &limits).map(drop);
    assert_eq!(parse("order.created: é"), Ok(()));
    assert_eq!(parse(&"é".repeat(200)), Ok(()));
    assert_eq!(parse(&"é".repeat(201)), Err(EventNameError::TooLong { max: 200 }));
    assert_eq!(parse(""), Err(EventNameError::Empty));
    for name in ["pusher:ping", "pusher_internal:member_added"] {
        assert_eq!(parse(name), Err(EventNameError::Reserved { name: name.to_owned() }));
        assert!(event::is_reserved(name));
    }
    assert_eq!(parse("pusher"), Ok(()));
    assert!(event::is_client_event("client-typing") && !event::is_client_event("clientele"));
}

#[test]
fn a_socket_id_is_two_plain_numbers() {
    let id: SocketId = "1234.5678".parse().unwrap();
    assert_eq!(
        (id, id.to_string().as_str()),
        (SocketId { first: 1234, second: 5678 }, "1234.5678")
    );
    for wrong in ["", "1", "1.", ".1", "1.2.3", "+1.2", "01.2", "1.02", "a.b", "undefined", "1.-2"]
    {
        let error = wrong.parse::<SocketId>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("socket_id '{wrong}' is not one")), "{error}");
    }
}

#[test]
fn a_position_has_one_canonical_form() {
    let position = ChannelPosition { epoch: Epoch(0xab), offset: 42 };
    assert_eq!(position.to_string(), "00000000000000ab:42");
    assert_eq!("00000000000000ab:42".parse(), Ok(position));
    for wrong in
        ["", ":", "ab:42", "00000000000000AB:42", "+0000000000000ab:1", "00000000000000ab:-1"]
    {
        assert!(wrong.parse::<ChannelPosition>().is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn displayed_values_parse_again(first: u64, second: u64) {
        let id = SocketId { first, second };
        prop_assert_eq!(id.to_string().parse(), Ok(id));
        let position = ChannelPosition { epoch: Epoch(first), offset: second };
        prop_assert_eq!(position.to_string().parse(), Ok(position));
    }

    #[test]
    fn a_channel_name_is_valid_by_its_alphabet_alone(name in ".{0,20}") {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-=@,.;".contains(c));
        prop_assert_eq!(channel(&name).is_ok(), plain && !name.is_empty());
    }
}
