//! Runs the program against small servers that can misbehave, and looks at what it reports.

mod exodus;
mod fake_app;
mod fake_index;
mod fake_realtime;
mod fake_server;
mod forecasts;
mod front;
mod front_worker;
mod gems;
mod jobs;
mod realtime;
