//! Processing what clients send.

use super::Shard;
use super::close_reason::CloseReason;
use super::state::ShardState;
use crate::cores::SessionKey;
use crate::frame::append_text;
use crate::pusher::client_message::ClientMessage;
use crate::pusher::server_message;
use crate::session::{ConnectionState, Postponed};
use crate::settings::Settings;
use crate::websocket::{Decoder, Message, ProtocolError, Role};

/// Whether to process the rest of a client's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Go,
    Stop,
}

/// Responses to one read are limited to these bytes, roughly: further requests wait until they are
/// written. A short request may have a whole history or a page of members as its response.
const RESPONSE_BYTES: usize = 64 << 10;

impl Shard {
    /// Processes the first `bytes` of the core's input buffer, received from one connection. Sends
    /// all responses in one write. Requests beyond [`RESPONSE_BYTES`] of responses wait until that
    /// is written.
    pub(super) fn on_input(&self, state: &mut ShardState, key: SessionKey, bytes: usize) {
        let mut input = std::mem::take(&mut state.input);
        let mut output = std::mem::take(&mut state.output);
        let session = state.session(key);
        session.received_at = self.hub.clock.now();
        if matches!(session.state, ConnectionState::Pinged { .. }) {
            session.state = ConnectionState::Open;
        }
        let mut decoder = std::mem::take(&mut session.decoder);
        let result = self.take_all(state, key, &mut decoder, &mut input[..bytes], &mut output);
        let (unprocessed, error) = match result {
            Ok(unprocessed) => (unprocessed, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        if let Some(session) = state.sessions.get_mut(key as usize) {
            (session.decoder, session.unprocessed) = (decoder, unprocessed);
            if !output.is_empty() {
                self.send(state, key, &output);
            }
        }
        if let Some(error) = error.filter(|_| state.sessions.contains(key as usize)) {
            self.close(state, key, CloseReason::Protocol(error));
        }
        output.clear();
        // Large responses are rare, so release their memory.
        output.shrink_to(super::state::BUFFER_BYTES);
        (state.input, state.output) = (input, output);
    }

    /// Processes messages of `input` and appends the responses to `output`. Returns the input that
    /// must wait until they are written.
    fn take_all(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        decoder: &mut Decoder,
        input: &mut [u8],
        output: &mut Vec<u8>,
    ) -> Result<Vec<u8>, ProtocolError> {
        let settings = self.hub.settings();
        let mut messages = decoder.messages(input, Role::Server, &settings.limits.websocket);
        while let Some(message) = messages.next()? {
            if self.take(state, key, &message, &settings, output) == Flow::Stop {
                break;
            }
            let is_postponed =
                state.sessions.get(key as usize).is_some_and(|one| one.postponed.is_some());
            if is_postponed || output.len() >= RESPONSE_BYTES {
                return Ok(messages.rest().to_vec());
            }
        }
        Ok(Vec::new())
    }

    /// Retries the connection's postponed request.
    pub(super) fn take_postponed(&self, state: &mut ShardState, key: SessionKey) {
        let mut output = std::mem::take(&mut state.output);
        match state.session(key).postponed.take().map(|postponed| *postponed) {
            Some(Postponed::Subscribe(request)) => self.subscribe(state, key, request, &mut output),
            Some(Postponed::SignIn(request)) => self.sign_in(state, key, request, &mut output),
            Some(Postponed::Stream(request)) => self.subscribe_stream(state, key, request),
            None => {}
        }
        if !output.is_empty() && state.sessions.contains(key as usize) {
            self.send(state, key, &output);
        }
        output.clear();
        state.output = output;
    }

    /// Processes input that had to wait.
    pub(super) fn resume_input(&self, state: &mut ShardState, key: SessionKey) {
        let unprocessed = std::mem::take(&mut state.session(key).unprocessed);
        self.read_rest(state, key, &unprocessed);
    }

    fn take(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        message: &Message<'_>,
        settings: &Settings,
        output: &mut Vec<u8>,
    ) -> Flow {
        let is_closing = state.session(key).is_closing();
        match message {
            Message::Text(_) | Message::Binary(_) | Message::Ping(_) if is_closing => {}
            Message::Text(text) => self.take_text(state, key, text, settings, output),
            // Messages of the Pusher protocol are text; Pusher also accepts them as binary.
            Message::Binary(bytes) => match str::from_utf8(bytes) {
                Ok(text) => self.take_text(state, key, text, settings, output),
                Err(_) => write_error(output, "a message must be text: JSON in UTF-8"),
            },
            Message::Ping(payload) => Message::Pong(payload).encode(output, None),
            Message::Pong(_) => {}
            Message::Close(frame) => {
                // Send the responses to earlier messages first.
                self.send(state, key, output);
                output.clear();
                if state.sessions.contains(key as usize) {
                    self.reply_to_close(state, key, *frame);
                }
                return Flow::Stop;
            }
        }
        // A message may have closed its own connection.
        if state.sessions.contains(key as usize) { Flow::Go } else { Flow::Stop }
    }

    fn take_text(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        text: &str,
        settings: &Settings,
        output: &mut Vec<u8>,
    ) {
        match ClientMessage::parse(text, &settings.limits.pusher) {
            Ok(ClientMessage::Subscribe(request)) => self.subscribe(state, key, request, output),
            Ok(ClientMessage::Unsubscribe { channel }) => self.unsubscribe(state, key, &channel),
            Ok(ClientMessage::Ping) => append_text(output, server_message::pong),
            Ok(ClientMessage::Pong) => {}
            Ok(ClientMessage::Members(request)) => self.list_members(state, key, &request, output),
            Ok(ClientMessage::SignIn(request)) => self.sign_in(state, key, request, output),
            Ok(ClientMessage::ClientEvent(event)) => {
                self.client_event(state, key, &event, output);
            }
            Err(error) => write_error(output, &error.to_string()),
        }
    }
}

/// Appends an error without a code, which leaves the connection open.
pub(super) fn write_error(output: &mut Vec<u8>, message: &str) {
    append_text(output, |out| server_message::error(out, None, message));
}
