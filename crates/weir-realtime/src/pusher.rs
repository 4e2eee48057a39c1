//! Pusher Channels protocol 7, as text: no sockets, no state.
