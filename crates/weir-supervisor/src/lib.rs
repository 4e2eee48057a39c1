//! The parent: holds the listening sockets, starts and replaces child processes.
