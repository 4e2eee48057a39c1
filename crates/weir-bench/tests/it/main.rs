//! Runs the program against a small Faktory server that can misbehave, and looks at what it reports.

mod fake_server;
mod jobs;
