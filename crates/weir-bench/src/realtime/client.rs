//! One client, from its handshake to its last event. It has no buffer while it is idle.

use std::time::Instant;

use rustix::fd::OwnedFd;

use super::close_reason::{CloseReason, parse_upgrade_response};
use super::codec::{
    Epoch, Position, Recovery, ServerMessage, SubscribeRequest, number_after, value_after,
};
use super::frame::{self, Frame};
use super::members::{KnownMembers, MemberMessage, PageRequest};
use super::order::SubscriberCursor;
use super::shared_state::{Counts, SharedState};
use super::socket::{self, IoOutcome};

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
    cursor: SubscriberCursor,
    position: Option<Position>,
    pub(crate) members: KnownMembers,
    /// The beginning of a frame that is not complete yet.
    partial_frame: Vec<u8>,
    /// Bytes that the socket's buffer had no room for.
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
            cursor: SubscriberCursor::default(),
            position: None,
            members: KnownMembers::default(),
            partial_frame: Vec::new(),
            unsent: Vec::new(),
        }
    }

    pub(crate) fn open(&mut self, socket: OwnedFd, at: Instant) {
        self.socket = Some(socket);
        self.stage = Stage::Connecting;
        self.opened = at;
    }

    /// Closes the connection. The client's position and members are kept.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.stage = Stage::Closed;
        self.partial_frame = Vec::new();
        self.unsent = Vec::new();
    }

    /// The socket is writable: it is connected, or its buffer has room again.
    pub(crate) fn on_writable(&mut self, shared: &SharedState) -> Result<(), CloseReason> {
        if self.stage == Stage::Connecting {
            self.stage = Stage::Upgrading;
            return self.send(shared.codec.upgrade_request());
        }
        if self.unsent.is_empty() {
            return Ok(());
        }
        let unsent = std::mem::take(&mut self.unsent);
        self.send(&unsent)
    }

    /// Reads everything that has arrived through `buffer`. `is_closed_by_server`: no more data will follow.
    pub(crate) fn on_readable(
        &mut self,
        buffer: &mut Vec<u8>,
        is_closed_by_server: bool,
        shared: &mut SharedState,
        clock: impl Fn() -> Instant,
    ) -> Result<(), CloseReason> {
        loop {
            let Some(socket) = &self.socket else {
                return Ok(());
            };
            let carried = self.partial_frame.len();
            if buffer.len() < 2 * carried {
                buffer.resize(2 * carried, 0);
            }
            buffer[..carried].copy_from_slice(&self.partial_frame);
            let count = match socket::read(socket, &mut buffer[carried..]) {
                IoOutcome::Closed => return Err(CloseReason::ConnectionLost),
                IoOutcome::WouldBlock => return Ok(()),
                IoOutcome::Bytes(count) => count,
            };
            shared.counts.bytes += count as u64;
            let consumed = self.process_input(&buffer[..carried + count], shared, clock())?;
            let rest = &buffer[consumed..carried + count];
            if !rest.is_empty() || carried > 0 {
                self.partial_frame = rest.to_vec();
            }
            // A short read has emptied the socket: the next bytes are a new edge.
            if carried + count < buffer.len() && !is_closed_by_server {
                return Ok(());
            }
        }
    }

    /// Processes the complete frames at the front of `input`. Returns how many bytes they take.
    fn process_input(
        &mut self,
        input: &[u8],
        shared: &mut SharedState,
        at: Instant,
    ) -> Result<usize, CloseReason> {
        let mut consumed = 0;
        if self.stage == Stage::Upgrading {
            match parse_upgrade_response(input)? {
                Some(bytes) => consumed = bytes,
                None => return Ok(0),
            }
            self.stage = Stage::Greeting;
            if let Some(greeting) = shared.codec.greeting() {
                self.send_frame(frame::TEXT, greeting.as_bytes())?;
            }
        }
        while let Some(Frame { opcode, payload, bytes }) = frame::parse(&input[consumed..])? {
            consumed += bytes;
            shared.counts.frames += 1;
            match opcode {
                frame::TEXT => self.process_text(payload, shared, at)?,
                frame::PING => self.send_frame(frame::PONG, payload)?,
                frame::CLOSE => {
                    return Err(frame::close_code(payload)
                        .map_or(CloseReason::ConnectionLost, CloseReason::Code));
                }
                _ => {}
            }
        }
        Ok(consumed)
    }

    fn process_text(
        &mut self,
        text: &[u8],
        shared: &mut SharedState,
        at: Instant,
    ) -> Result<(), CloseReason> {
        let was_live = self.stage == Stage::Live;
        if was_live {
            let events = self.record_events(text, shared, at);
            if events > 0 && !shared.codec.is_batch(text) {
                return Ok(());
            }
        }
        for message in shared.codec.messages(text) {
            self.process_message(shared.codec.parse_message(message), shared)?;
            // The reply to a subscription can contain events, and events can follow it in the same frame.
            if !was_live {
                self.record_events(message, shared, at);
            }
        }
        Ok(())
    }

    /// Records all events in `text`. Returns their number.
    fn record_events(&mut self, mut text: &[u8], shared: &mut SharedState, at: Instant) -> usize {
        let mut events = 0;
        while let Some((number, after)) = shared.data.find(text) {
            shared.record_delivery(self.channel, &mut self.cursor, number, at);
            text = &text[after..];
            if shared.keeps_positions {
                self.update_position(text, &mut shared.counts);
            }
            events += 1;
        }
        events
    }

    /// Stores the position that follows an event's data.
    fn update_position(&mut self, after_data: &[u8], counts: &mut Counts) {
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

    fn process_message(
        &mut self,
        message: ServerMessage,
        shared: &mut SharedState,
    ) -> Result<(), CloseReason> {
        match message {
            ServerMessage::Connected { socket_id } if self.stage == Stage::Greeting => {
                self.stage = Stage::Subscribing;
                let request = SubscribeRequest {
                    channel: &shared.channel_names[self.channel],
                    socket_id: &socket_id,
                    member: shared.is_presence.then_some(self.index),
                    member_changes: self.members.is_follower(),
                    recover: self.position,
                };
                return self
                    .send_frame(frame::TEXT, shared.codec.subscribe_message(&request).as_bytes());
            }
            ServerMessage::Subscribed { position, recovery, members, has_member_changes } => {
                self.stage = Stage::Live;
                self.record_subscription(position, recovery, &mut shared.counts);
                let count = members.map(MemberMessage::Count);
                count.and_then(|count| self.members.apply(count, &mut shared.membership));
                if has_member_changes && let Some(request) = self.members.start_fetch() {
                    return self.request_members_page(request, shared);
                }
            }
            ServerMessage::Members(message) => {
                if let Some(request) = self.members.apply(message, &mut shared.membership) {
                    return self.request_members_page(request, shared);
                }
            }
            ServerMessage::Ping => {
                return self.send_frame(frame::TEXT, shared.codec.pong().as_bytes());
            }
            // A close frame with a code follows.
            ServerMessage::Rejected(text) if self.stage == Stage::Live => {
                shared.counts.errors += 1;
                shared.counts.first_error.get_or_insert(text);
            }
            ServerMessage::Rejected(text) if !text.contains("\"code\":4") => {
                return Err(CloseReason::Rejected(text));
            }
            ServerMessage::Rejected(_) | ServerMessage::Connected { .. } | ServerMessage::Other => {
            }
        }
        Ok(())
    }

    /// After a recovery the missed events follow, so the position does not change yet.
    fn record_subscription(
        &mut self,
        at: Option<Position>,
        recovery: Option<Recovery>,
        counts: &mut Counts,
    ) {
        match recovery {
            Some(Recovery::Recovered) => counts.recovered += 1,
            Some(Recovery::Gap) => counts.gaps += 1,
            None => {}
        }
        if recovery != Some(Recovery::Recovered) {
            self.position = at;
        }
    }

    fn request_members_page(
        &mut self,
        request: PageRequest,
        shared: &SharedState,
    ) -> Result<(), CloseReason> {
        let text = shared.codec.members_request(&shared.channel_names[self.channel], request);
        self.send_frame(frame::TEXT, text.as_bytes())
    }

    fn send_frame(&mut self, opcode: u8, payload: &[u8]) -> Result<(), CloseReason> {
        let mut bytes = Vec::with_capacity(payload.len() + 14);
        frame::append(opcode, payload, &mut bytes);
        self.send(&bytes)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), CloseReason> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        let sent = match self.unsent.is_empty() {
            false => 0,
            true => match socket::write(socket, bytes) {
                IoOutcome::Bytes(count) => count,
                IoOutcome::WouldBlock => 0,
                IoOutcome::Closed => return Err(CloseReason::ConnectionLost),
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
    fn events_beside_the_subscribe_reply_are_recorded_once() {
        let settings = LoadSettings::parsed(&["--scenario", "storm"], 1);
        let target = Target::of("ws://127.0.0.1:1", Protocol::Centrifugo);
        let mut shared = SharedState::new(&target, &settings).expect("valid");
        shared.ledger.add_subscriber(0);
        let data: Vec<String> = (0..3)
            .map(|_| {
                let number = shared.ledger.add_event(0);
                shared.ledger.mark_sent(number, now());
                shared.data.of(number)
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
        client.process_text(frame.as_bytes(), &mut shared, now()).expect("understood");
        assert_eq!(client.stage, Stage::Live);
        assert_eq!(shared.ledger.deliveries.received.operations, 2);
        client.process_text(push(three, 3).as_bytes(), &mut shared, now()).expect("understood");
        assert_eq!(
            (shared.ledger.deliveries.received.operations, shared.ledger.outstanding()),
            (3, 0)
        );
        assert_eq!((shared.ledger.deliveries.duplicated, shared.counts.offset_jumps), (0, 0));
    }
}
