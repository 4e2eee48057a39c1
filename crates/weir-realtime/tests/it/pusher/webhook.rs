use serde_json::value::RawValue;
use weir_base::clock::Timestamp;
use weir_base::secret::Secret;
use weir_realtime::pusher::signature::Token;
use weir_realtime::pusher::socket_id::SocketId;
use weir_realtime::pusher::webhook::{SignedBody, WebhookEvent};

const SOCKET: SocketId = SocketId { first: 1, second: 2 };

fn written(event: &WebhookEvent<'_>) -> String {
    let mut out = Vec::new();
    event.write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn webhook_events_have_the_documented_fields() {
    let (channel, user_id) = ("presence-a", "7");
    for (event, json) in [
        (
            WebhookEvent::ChannelOccupied { channel },
            r#"{"name":"channel_occupied","channel":"presence-a"}"#,
        ),
        (
            WebhookEvent::ChannelVacated { channel },
            r#"{"name":"channel_vacated","channel":"presence-a"}"#,
        ),
        (
            WebhookEvent::MemberAdded { channel, user_id },
            r#"{"name":"member_added","channel":"presence-a","user_id":"7"}"#,
        ),
        (
            WebhookEvent::MemberRemoved { channel, user_id },
            r#"{"name":"member_removed","channel":"presence-a","user_id":"7"}"#,
        ),
        (
            WebhookEvent::ClientEvent {
                channel,
                event: "client-a",
                data: Some(r#"{"x":1}"#),
                socket_id: SOCKET,
                user_id: Some(user_id),
            },
            r#"{"name":"client_event","channel":"presence-a","event":"client-a","data":"{\"x\":1}","socket_id":"1.2","user_id":"7"}"#,
        ),
        (
            WebhookEvent::ClientEvent {
                channel: "private-a",
                event: "client-a",
                data: None,
                socket_id: SOCKET,
                user_id: None,
            },
            r#"{"name":"client_event","channel":"private-a","event":"client-a","socket_id":"1.2"}"#,
        ),
        (WebhookEvent::CacheMiss { channel }, r#"{"name":"cache_miss","channel":"presence-a"}"#),
        (
            WebhookEvent::SubscriptionCount { channel, subscription_count: 3 },
            r#"{"name":"subscription_count","channel":"presence-a","subscription_count":3}"#,
        ),
    ] {
        assert_eq!(written(&event), json);
    }
}

#[test]
fn the_signature_covers_the_whole_webhook_body() {
    let token = Token { key: "278d425bdf160c739803", secret: &Secret::new("7ad3773142a6692b25b8") };
    let now = Timestamp::from_millis(1_327_078_148_132);
    let events = [
        WebhookEvent::ChannelOccupied { channel: "a" },
        WebhookEvent::CacheMiss { channel: "cache-é" },
    ];
    let signed = SignedBody::new(&token, now, events.iter());
    assert_eq!(
        String::from_utf8(signed.body.clone()).unwrap(),
        r#"{"time_ms":1327078148132,"events":[{"name":"channel_occupied","channel":"a"},{"name":"cache_miss","channel":"cache-é"}]}"#
    );
    // As Node's pusher 5.3 accepts it.
    assert_eq!(
        signed.signature,
        "f7599fe42cdb8c1bec91f00fdd0583f5cda601f957414b9c4777d9dc92ce19b0"
    );
    let kept: Vec<_> =
        events.iter().map(|event| RawValue::from_string(written(event)).unwrap()).collect();
    assert_eq!(SignedBody::new(&token, now, kept.iter()), signed);
}
