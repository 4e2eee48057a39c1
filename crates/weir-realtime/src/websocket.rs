//! The WebSocket protocol, RFC 6455: handshake, frames, messages.
