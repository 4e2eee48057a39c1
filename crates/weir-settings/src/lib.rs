//! Settings, each defined once: as a field of a struct with `#[derive(Section)]`.
//!
//! ```
//! use std::time::Duration;
//! use weir_settings::{DAY, SECOND, Section};
//!
//! /// Limits of the example.
//! #[derive(Debug, Section)]
//! #[section(reload, path = "example.limits")]
//! pub struct Limits {
//!     /// Connections at once; one more gets 503.
//!     #[setting(range = 1..=100_000, default = 1_000)]
//!     pub connections_max: usize,
//!     /// Bytes of one request.
//!     #[setting(size, range = 1..=1 << 30, default = 1 << 20)]
//!     pub request_bytes_max: usize,
//!     /// A request must arrive within this long.
//!     #[setting(restart, range = SECOND..=DAY, default = Duration::from_secs(10))]
//!     pub request_timeout: Duration,
//! }
//! ```
//!
//! From this come the field's default, the reading of `weir.toml` with a range and errors that have
//! a line, `weir check`, `weir init`, the reference, the schema for editors, the views of the admin
//! API, and a constant (`Limits::CONNECTIONS_MAX`) for the names in metrics and messages.
//!
//! Of a field, `#[setting(..)]` says:
//! - its kind, where the type alone does not (`size`, `percent`, `fraction`, `choice`, `parsed` ..): a method of
//!   [`TableReader`]; or `section` (a table), `flatten` (keys of the same table), `skip`;
//! - `range`, `default` (otherwise that of the type), `key` (otherwise the field's name);
//! - what a change takes, if it is not what `#[section(..)]` says: `reload`, `restart`, `upgrade`, `stop`;
//! - `advanced`: the key is under `[..advanced]`, and `weir init` leaves it out; outside of that table it works
//!   with a warning;
//! - `formerly`: its old name in the same table, which works for one release, with a warning;
//! - `with`: a function that reads the field from its table.
//!
//! Of a struct, `#[section(..)]` also says `path = "realtime.limits"`, so that the constants show their whole
//! names, `check = METHOD`, run when all fields were read, `removed = "KEY"` for a key that no longer has an effect
//! (a warning; may be repeated), and `own_default` where `Default` is written by hand or makes no sense.

pub mod change;
mod convert;
mod environment;
pub mod error;
mod kinds;
mod ranges;
pub mod renamed;
mod report;
pub mod secrets;
mod setting;
mod table_reader;
pub mod units;

pub use weir_settings_derive::{Choice, Section};

pub use self::change::Change;
pub use self::convert::suggestion;
pub use self::error::{SettingError, SettingErrors};
pub use self::kinds::TextOrSecret;
pub use self::ranges::{COUNT, WAIT};
pub use self::renamed::{Removed, Renamed};
pub use self::report::{Allowed, Report, SettingValue};
pub use self::setting::Setting;
pub use self::table_reader::{Context, TableReader};
pub use self::units::{DAY, HOUR, MILLISECOND, SECOND};

/// The settings of one table.
pub trait Section {
    /// Reads the keys that `table` has. Other fields keep their values.
    fn read(&mut self, table: &mut TableReader<'_>);
}

/// A setting that takes one of a few words.
pub trait Choice: Copy + PartialEq + 'static {
    const CHOICES: &'static [(&'static str, Self)];

    /// Returns the word of the choice.
    fn word(self) -> &'static str {
        let choice = Self::CHOICES.iter().find(|(_, choice)| *choice == self);
        choice.map_or("", |(word, _)| word)
    }
}

/// Returns the effective settings of `section`. Their paths begin with `path`.
pub fn values<S: Section + Clone>(section: &S, path: &str) -> Vec<SettingValue> {
    let mut report = Report::default();
    let mut table = TableReader::without_file(path, &mut report);
    section.clone().read(&mut table);
    report.values
}
