//! The WebSocket protocol, RFC 6455: handshake, frames, messages. No sockets, no timers.
//!
//! Designed for a thread that owns thousands of sessions and one read buffer for all of them. The
//! bytes of each `read` pass through the session's [`Decoder`], which takes [72 bytes](Decoder),
//! and uses no heap unless a message is incomplete:
//!
//! ```
//! use weir_realtime::websocket::{Decoder, WebsocketLimits, Message, ProtocolError, Role};
//!
//! fn answer(
//!     decoder: &mut Decoder,
//!     input: &mut [u8],
//!     output: &mut Vec<u8>,
//! ) -> Result<(), ProtocolError> {
//!     let limits = WebsocketLimits::default();
//!     let mut messages = decoder.messages(input, Role::Server, &limits);
//!     while let Some(message) = messages.next()? {
//!         match message {
//!             Message::Text(text) => Message::Text(text).encode(output, None),
//!             Message::Ping(payload) => Message::Pong(payload).encode(output, None),
//!             // The side that did not begin the closing answers with the same code.
//!             Message::Close(frame) => Message::Close(frame).encode(output, None),
//!             Message::Binary(_) | Message::Pong(_) => {}
//!         }
//!     }
//!     Ok(())
//! }
//! # let mut frame = Vec::new();
//! # Message::Text("hello").encode(&mut frame, Some(weir_realtime::websocket::MaskKey::new([1, 2, 3, 4])));
//! # let mut output = Vec::new();
//! # answer(&mut Decoder::default(), &mut frame, &mut output).unwrap();
//! # assert_eq!(output, b"\x81\x05hello");
//! ```
//!
//! - A message that arrives complete, in one frame and one read, is delivered from the read buffer.
//! - A message to many sessions is encoded once: [`FrameHeader::encode`] and the payload, in shared
//!   bytes.
//! - [`handshake`] checks a request that an HTTP parser has read, and writes the response.
//!
//! No extension is negotiated. In particular, `permessage-deflate` is declined, as RFC 6455 allows,
//! and frames marked as compressed are rejected: a deflate context takes up to hundreds of KiB per
//! connection.

mod close;
mod decoder;
mod error;
pub mod handshake;
mod header;
mod limits;
mod mask;
mod message;

pub use close::{CloseCode, CloseFrame};
pub use decoder::{Decoder, Messages};
pub use error::ProtocolError;
pub use header::{EncodedHeader, FrameHeader, HEADER_BYTES_MAX, Opcode};
pub use limits::{Role, WebsocketLimits};
pub use mask::MaskKey;
pub use message::{CONTROL_BYTES_MAX, Message};
