//! One client: from the first byte of its handshake to the last event. It keeps no buffer while it is idle.

use std::time::Instant;

use rustix::fd::OwnedFd;

use super::ending::{Ending, upgraded};
use super::frame::{self, Frame};
use super::members::{KnownMembers, MemberNews, PageWish};
use super::order::Seat;
use super::socket::{self, Moved};
use super::speech::{Epoch, Heard, Position, Recovery, Wish, number_after, value_after};
use super::surroundings::{Counts, Surroundings};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Closed,
    Connecting,
    Upgrading,
    Greeting,
    Subscribing,
    Live,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) stage: Stage,
    pub(crate) index: usize,
    pub(crate) channel: usize,
    pub(crate) opened: Instant,
    seat: Seat,
    position: Option<Position>,
    pub(crate) members: KnownMembers,
    /// The beginning of a frame whose end has not come.
    carry: Vec<u8>,
    /// What the socket had no room for.
    unsent: Vec<u8>,
}

impl Client {
    pub(crate) fn new(index: usize, channel: usize, at: Instant) -> Self {
        Self {
            socket: None,
            stage: Stage::Closed,
            index,
            channel,
            opened: at,
            seat: Seat::default(),
            position: None,
            members: KnownMembers::default(),
            carry: Vec::new(),
            unsent: Vec::new(),
        }
    }

    pub(crate) fn open(&mut self, socket: OwnedFd, at: Instant) {
        self.socket = Some(socket);
        self.stage = Stage::Connecting;
        self.opened = at;
    }

    /// Lets go of the connection; what the client knows stays.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.stage = Stage::Closed;
        self.carry = Vec::new();
        self.unsent = Vec::new();
    }

    /// The socket can be written: the connection is there, or there is room again.
    pub(crate) fn writable(&mut self, around: &Surroundings) -> Result<(), Ending> {
        if self.stage == Stage::Connecting {
            self.stage = Stage::Upgrading;
            return self.send(around.speech.upgrade());
        }
        if self.unsent.is_empty() {
            return Ok(());
        }
        let unsent = std::mem::take(&mut self.unsent);
        self.send(&unsent)
    }

    /// Reads all there is through `buffer`. `hung_up`: the other side sends nothing more.
    pub(crate) fn readable(
        &mut self,
        buffer: &mut Vec<u8>,
        hung_up: bool,
        around: &mut Surroundings,
        clock: impl Fn() -> Instant,
    ) -> Result<(), Ending> {
        loop {
            let Some(socket) = &self.socket else {
                return Ok(());
            };
            let kept = self.carry.len();
            if buffer.len() < 2 * kept {
                buffer.resize(2 * kept, 0);
            }
            buffer[..kept].copy_from_slice(&self.carry);
            let count = match socket::read(socket, &mut buffer[kept..]) {
                Moved::Gone => return Err(Ending::HungUp),
                Moved::NotNow => return Ok(()),
                Moved::Bytes(count) => count,
            };
            around.counts.bytes += count as u64;
            let consumed = self.listen(&buffer[..kept + count], around, clock())?;
            let rest = &buffer[consumed..kept + count];
            if !rest.is_empty() || kept > 0 {
                self.carry = rest.to_vec();
            }
            // A short read has emptied the socket: the next bytes are a new edge.
            if kept + count < buffer.len() && !hung_up {
                return Ok(());
            }
        }
    }

    /// Takes whole frames from the front of `input`; how many bytes.
    fn listen(
        &mut self,
        input: &[u8],
        around: &mut Surroundings,
        at: Instant,
    ) -> Result<usize, Ending> {
        let mut consumed = 0;
        if self.stage == Stage::Upgrading {
            match upgraded(input)? {
                Some(bytes) => consumed = bytes,
                None => return Ok(0),
            }
            self.stage = Stage::Greeting;
            if let Some(greeting) = around.speech.greeting() {
                self.say(frame::TEXT, greeting.as_bytes())?;
            }
        }
        while let Some(Frame { opcode, payload, bytes }) = frame::parse(&input[consumed..])? {
            consumed += bytes;
            around.counts.frames += 1;
            match opcode {
                frame::TEXT => self.hear(payload, around, at)?,
                frame::PING => self.say(frame::PONG, payload)?,
                frame::CLOSE => {
                    return Err(frame::close_code(payload).map_or(Ending::HungUp, Ending::Code));
                }
                _ => {}
            }
        }
        Ok(consumed)
    }

    fn hear(&mut self, text: &[u8], around: &mut Surroundings, at: Instant) -> Result<(), Ending> {
        let was_live = self.stage == Stage::Live;
        if was_live {
            let events = self.hear_events(text, around, at);
            if events > 0 && !around.speech.is_batch(text) {
                return Ok(());
            }
        }
        for message in around.speech.messages(text) {
            let heard = around.speech.hear(message);
            self.react(heard, around)?;
            // Events may stand in the answer to a subscription, and behind it in the same frame.
            if !was_live {
                self.hear_events(message, around, at);
            }
        }
        Ok(())
    }

    /// How many events there were.
    fn hear_events(&mut self, mut text: &[u8], around: &mut Surroundings, at: Instant) -> usize {
        let mut events = 0;
        while let Some((number, after)) = around.data.find(text) {
            around.heard(self.channel, &mut self.seat, number, at);
            text = &text[after..];
            if around.keeps_positions {
                self.advance(text, &mut around.counts);
            }
            events += 1;
        }
        events
    }

    /// Takes the position that stands behind an event's data.
    fn advance(&mut self, after_data: &[u8], counts: &mut Counts) {
        let Some(offset) = number_after(after_data, r#""offset""#) else {
            return;
        };
        let epoch = value_after(after_data, r#""epoch""#).and_then(Epoch::new);
        let epoch = epoch.or(self.position.map(|position| position.epoch));
        if let Some(position) = self.position.filter(|position| Some(position.epoch) == epoch) {
            counts.offset_jumps += u64::from(offset != position.offset + 1);
        }
        self.position = epoch.map(|epoch| Position { epoch, offset });
    }

    fn react(&mut self, heard: Heard, around: &mut Surroundings) -> Result<(), Ending> {
        match heard {
            Heard::Greeted { socket_id } if self.stage == Stage::Greeting => {
                self.stage = Stage::Subscribing;
                let wish = Wish {
                    channel: &around.channel_names[self.channel],
                    socket_id: &socket_id,
                    member: around.is_presence.then_some(self.index),
                    member_changes: self.members.follows(),
                    recover: self.position,
                };
                return self.say(frame::TEXT, around.speech.subscribe(&wish).as_bytes());
            }
            Heard::Subscribed { position, recovery, members, has_member_changes } => {
                self.stage = Stage::Live;
                self.join(position, recovery, &mut around.counts);
                let count = members.map(MemberNews::Count);
                count.and_then(|count| self.members.hear(count, &mut around.roll));
                if has_member_changes && let Some(wish) = self.members.fetch() {
                    return self.ask_for_members(wish, around);
                }
            }
            Heard::Members(news) => {
                if let Some(wish) = self.members.hear(news, &mut around.roll) {
                    return self.ask_for_members(wish, around);
                }
            }
            Heard::Ping => return self.say(frame::TEXT, around.speech.pong().as_bytes()),
            // A code says more, and comes next.
            Heard::Refused(text) if self.stage == Stage::Live => {
                around.counts.complaints += 1;
                around.counts.first_complaint.get_or_insert(text);
            }
            Heard::Refused(text) if !text.contains("\"code\":4") => {
                return Err(Ending::Refused(text));
            }
            Heard::Refused(_) | Heard::Greeted { .. } | Heard::Other => {}
        }
        Ok(())
    }

    /// After a recovery the events that were missed follow, so the position is still the old one.
    fn join(&mut self, at: Option<Position>, recovery: Option<Recovery>, counts: &mut Counts) {
        match recovery {
            Some(Recovery::Recovered) => counts.recovered += 1,
            Some(Recovery::Gap) => counts.gaps += 1,
            None => {}
        }
        if recovery != Some(Recovery::Recovered) {
            self.position = at;
        }
    }

    fn ask_for_members(&mut self, wish: PageWish, around: &Surroundings) -> Result<(), Ending> {
        let text = around.speech.members(&around.channel_names[self.channel], wish);
        self.say(frame::TEXT, text.as_bytes())
    }

    fn say(&mut self, opcode: u8, payload: &[u8]) -> Result<(), Ending> {
        let mut bytes = Vec::with_capacity(payload.len() + 14);
        frame::append(opcode, payload, &mut bytes);
        self.send(&bytes)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        let sent = match self.unsent.is_empty() {
            false => 0,
            true => match socket::write(socket, bytes) {
                Moved::Bytes(count) => count,
                Moved::NotNow => 0,
                Moved::Gone => return Err(Ending::HungUp),
            },
        };
        self.unsent.extend(&bytes[sent..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::realtime::settings::LoadSettings;
    use crate::realtime::target::{Protocol, Target};

    #[test]
    fn events_in_the_frame_that_answers_the_subscription_are_heard_once() {
        let settings = LoadSettings::parsed(&["--scenario", "storm"], 1);
        let target = Target::of("ws://127.0.0.1:1", Protocol::Centrifugo);
        let mut around = Surroundings::new(&target, &settings).expect("valid");
        around.ledger.add_subscriber(0);
        let data: Vec<String> = (0..3)
            .map(|_| {
                let number = around.ledger.order(0);
                around.ledger.sent(number, now());
                around.data.of(number)
            })
            .collect();
        let [one, two, three] = &data[..] else { panic!("three events") };
        let mut client = Client::new(0, 0, now());
        client.stage = Stage::Subscribing;
        let answer = format!(
            r#"{{"id":2,"subscribe":{{"recoverable":true,"epoch":"ab","publications":[{{"data":"{one}","offset":1}}],"recovered":true,"offset":1,"was_recovering":true}}}}"#
        );
        let push = |data: &str, offset: u32| {
            format!(r#"{{"push":{{"channel":"c","pub":{{"data":"{data}","offset":{offset}}}}}}}"#)
        };
        let frame = [answer, push(two, 2), "{}".to_owned()].join("\n");
        client.hear(frame.as_bytes(), &mut around, now()).expect("understood");
        assert_eq!(client.stage, Stage::Live);
        assert_eq!(around.ledger.deliveries.heard.operations, 2);
        client.hear(push(three, 3).as_bytes(), &mut around, now()).expect("understood");
        assert_eq!(
            (around.ledger.deliveries.heard.operations, around.ledger.outstanding()),
            (3, 0)
        );
        assert_eq!((around.ledger.deliveries.duplicated, around.counts.offset_jumps), (0, 0));
    }
}
