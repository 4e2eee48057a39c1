//! Below every service: bound and inherited sockets, TLS, connection limits.
