use std::collections::HashMap;

use proptest::prelude::*;
use weir_base::clock::Timestamp;

use super::*;
use crate::cores::{ChannelId, Cores};
use crate::frame::Frame;
use crate::pusher::socket_id::SocketId;

fn broadcast(sequence: u64, audience: Audience) -> Broadcast {
    let budget = Cores::new(1, 1, 1).get(0).budget.reserve_always(0);
    Broadcast {
        channel: ChannelId(1),
        sequence,
        frame: Frame::text(|out| out.extend_from_slice(sequence.to_string().as_bytes())),
        audience,
        event: None,
        published_at: Timestamp::default(),
        trace: None,
        budget,
    }
}

fn subscriber(session: SessionKey, from: u64) -> Subscriber {
    Subscriber { session, wants_member_changes: false, from }
}

/// The numbers of the messages that each session received.
#[derive(Default)]
struct Received(HashMap<SessionKey, Vec<u64>>);

impl Received {
    fn deliver_turn(&mut self, fanout: &mut Fanout, writes_max: usize) -> TurnProgress {
        fanout.deliver_turn(writes_max, 64, |session, delivery| {
            let got = self.0.entry(session).or_default();
            let (Delivery::Joined { broadcasts, .. } | Delivery::Each(broadcasts)) = delivery;
            if let Delivery::Joined { broadcasts, joined } = delivery {
                let wire: Vec<u8> =
                    broadcasts.iter().flat_map(|one| one.frame.wire().to_vec()).collect();
                assert_eq!(&wire, joined);
            }
            got.extend(broadcasts.iter().map(|broadcast| broadcast.sequence));
        })
    }

    fn sequences(&self, session: SessionKey) -> &[u64] {
        self.0.get(&session).map_or(&[], Vec::as_slice)
    }
}

#[test]
fn queued_messages_are_joined_into_one_write() {
    let mut fanout = Fanout::default();
    fanout.add(subscriber(7, 0));
    for sequence in 1..=3 {
        fanout.push(broadcast(sequence, Audience::Everyone));
    }
    let mut writes = 0;
    fanout.deliver_turn(10, 64, |_, delivery| {
        assert!(matches!(delivery, Delivery::Joined { broadcasts, .. } if broadcasts.len() == 3));
        writes += 1;
    });
    assert_eq!(writes, 1);
}

#[test]
fn a_late_subscriber_gets_only_later_messages() {
    let mut fanout = Fanout::default();
    fanout.push(broadcast(1, Audience::Everyone));
    fanout.push(broadcast(2, Audience::Everyone));
    fanout.add(subscriber(7, 1));
    fanout.add(subscriber(8, 2));
    fanout.add(subscriber(9, 0));
    let mut received = Received::default();
    assert!(!received.deliver_turn(&mut fanout, 10).has_more);
    assert_eq!(
        (received.sequences(7), received.sequences(8), received.sequences(9)),
        (&[2][..], &[][..], &[1, 2][..])
    );
}

#[test]
fn a_message_with_an_excluded_sender_is_filtered_by_the_session() {
    let mut fanout = Fanout::default();
    fanout.add(subscriber(7, 0));
    fanout.push(broadcast(1, Audience::Except(SocketId { first: 1, second: 2 })));
    fanout.deliver_turn(1, 64, |_, delivery| assert!(matches!(delivery, Delivery::Each(_))));
}

#[test]
fn followers_get_member_changes_instead_of_member_events() {
    let mut fanout = Fanout::default();
    fanout.add(subscriber(7, 0));
    fanout.add(Subscriber { wants_member_changes: true, ..subscriber(8, 0) });
    fanout.push(broadcast(1, Audience::MemberEvents));
    fanout.push(broadcast(2, Audience::MemberChanges));
    fanout.push(broadcast(3, Audience::Everyone));
    let mut received = Received::default();
    received.deliver_turn(&mut fanout, 10);
    assert_eq!((received.sequences(7), received.sequences(8)), (&[1, 3][..], &[2, 3][..]));
}

#[test]
fn a_message_larger_than_a_write_goes_alone() {
    let mut fanout = Fanout::default();
    fanout.add(subscriber(7, 0));
    fanout.push(broadcast(1, Audience::Everyone));
    fanout.push(broadcast(2, Audience::Everyone));
    let mut runs = Vec::new();
    fanout.deliver_turn(10, 1, |_, delivery| {
        let (Delivery::Joined { broadcasts, .. } | Delivery::Each(broadcasts)) = delivery;
        runs.push(broadcasts.len());
    });
    assert_eq!(runs, [1, 1]);
}

#[derive(Clone, Debug)]
enum Step {
    Join,
    Leave(usize),
    Publish,
    Turn(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Join),
        2 => any::<usize>().prop_map(Step::Leave),
        3 => Just(Step::Publish),
        4 => (0_usize..4).prop_map(Step::Turn),
    ]
}

proptest! {
    /// Whatever order sessions join and leave in, and wherever runs are split, each session
    /// receives exactly the messages between its joining and its leaving, in order.
    #[test]
    fn every_subscriber_gets_each_message_exactly_once(steps in prop::collection::vec(step(), 1..120)) {
        let (mut fanout, mut received) = (Fanout::default(), Received::default());
        let mut places: Vec<(SessionKey, u32, u64)> = Vec::new();
        let (mut sequence, mut next_session) = (0, 0);
        for step in steps {
            match step {
                Step::Join => {
                    places.push((next_session, fanout.add(subscriber(next_session, sequence)), sequence));
                    next_session += 1;
                }
                Step::Leave(which) if !places.is_empty() => {
                    let (session, index, _) = places.swap_remove(which % places.len());
                    for moved in fanout.remove(index).into_iter().flatten() {
                        prop_assert_ne!(moved.session, session);
                        let place = places.iter_mut().find(|place| place.0 == moved.session);
                        place.expect("who moved is there").1 = moved.index;
                    }
                }
                Step::Leave(_) => {}
                Step::Publish => {
                    sequence += 1;
                    fanout.push(broadcast(sequence, Audience::Everyone));
                }
                Step::Turn(writes_max) => {
                    received.deliver_turn(&mut fanout, writes_max);
                }
            }
        }
        while received.deliver_turn(&mut fanout, 5).has_more {}
        prop_assert!(fanout.is_idle());
        prop_assert_eq!(fanout.len(), places.len());
        for (session, _, from) in places {
            let expected: Vec<u64> = (from + 1..=sequence).collect();
            prop_assert_eq!(received.sequences(session), &expected[..]);
        }
        for got in received.0.values() {
            prop_assert!(got.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{:?}", got);
        }
    }
}
