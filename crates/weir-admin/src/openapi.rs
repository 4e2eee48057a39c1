//! The admin API as an OpenAPI document: `GET openapi.json`, docs/reference/openapi.json and the page
//! docs/reference/admin-api.md.
//!
//! The document is generated from the routes (`api_routes`), from the types of their handlers
//! (`handler`) and from the texts of `admin-api.txt` beside this file, by
//! `cargo run -p xtask -- openapi write` (`make docs`). The binary contains the result (`embedded`).

#[cfg(feature = "openapi")]
mod document;
pub(crate) mod embedded;
#[cfg(feature = "openapi")]
pub(crate) mod handler;
#[cfg(feature = "openapi")]
mod page;
#[cfg(feature = "openapi")]
mod texts;

#[cfg(feature = "openapi")]
pub use self::document::document;
#[cfg(feature = "openapi")]
pub use self::page::page;
