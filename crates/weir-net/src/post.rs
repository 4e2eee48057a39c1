//! Requests to somebody else's server: a URL that was checked, trust in its certificate, one
//! connection that is kept, and attempts that end by themselves.

mod connection;
mod error;
mod trust;
mod url;

pub use connection::{Post, PostSettings, Poster};
pub use error::PostError;
pub use trust::{CaError, ReadTrust, Trust};
pub use url::{EndpointUrl, EndpointUrlError};
