//! Signatures: HMAC-SHA256 with the app's secret, as hexadecimal digits.
//!
//! Comparison takes the same time wherever the difference is. Errors name what was signed, so that
//! a developer can sign the same and compare; they never hold the secret or the right signature.

mod query;
mod request;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use weir_base::secret::Secret;

use super::channel::ChannelName;
use super::excerpt::Excerpt;
use super::socket_id::SocketId;

pub use query::{QueryError, SignedQuery};
pub use request::{RequestError, SignedRequest, check_body, request_text};

/// An app's key, which everybody knows, and its secret, which its servers know.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// In every client's settings.
    pub key: &'a str,
    /// Signs.
    pub secret: &'a Secret,
}

/// Why a subscription or a sign-in was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No signature where one is needed.
    #[error("Auth info required to {purpose}")]
    Missing { purpose: String },
    /// Not key and signature.
    #[error(
        "Invalid auth '{}': it must be KEY:SIGNATURE, as the server library returns it in auth",
        Excerpt(.given)
    )]
    Malformed { given: String },
    /// Signed for another app.
    #[error("Invalid key in auth: '{}'; this connection's app has the key '{key}'", Excerpt(.given))]
    WrongKey { given: String, key: String },
    /// Another secret, or another text.
    #[error(
        "Invalid signature: expected the HMAC SHA256 hex digest, made with the secret of the app with the key '{key}', of '{}', but got '{}'",
        Excerpt(.signed),
        Excerpt(.given)
    )]
    Mismatch { key: String, signed: String, given: String },
}

impl Token<'_> {
    /// Signs `text`: 64 hexadecimal digits.
    #[must_use]
    pub fn sign(&self, text: &[u8]) -> String {
        hex::encode(self.mac(text).finalize().into_bytes())
    }

    /// Whether `signature` is that of `text`.
    #[must_use]
    pub fn is_signature(&self, text: &[u8], signature: &str) -> bool {
        let mut given = [0_u8; 32];
        hex::decode_to_slice(signature, &mut given).is_ok()
            && self.mac(text).verify_slice(&given).is_ok()
    }

    fn mac(&self, text: &[u8]) -> Hmac<Sha256> {
        let secret = self.secret.expose().as_bytes();
        Hmac::new_from_slice(secret).expect("HMAC takes keys of any length").chain_update(text)
    }

    /// Checks that the application's server lets `socket_id` subscribe to `channel`.
    ///
    /// # Errors
    /// Why not.
    pub fn verify_subscription(
        &self,
        auth: Option<&str>,
        socket_id: SocketId,
        channel: &ChannelName,
        channel_data: Option<&str>,
    ) -> Result<(), AuthError> {
        let signed = subscription_text(socket_id, channel, channel_data);
        self.verify_auth(auth, signed, || format!("subscribe to {channel}"))
    }

    /// Checks that the application's server says that `socket_id` is the user in `user_data`.
    ///
    /// # Errors
    /// Why not.
    pub fn verify_sign_in(
        &self,
        auth: &str,
        socket_id: SocketId,
        user_data: &str,
    ) -> Result<(), AuthError> {
        self.verify_auth(Some(auth), sign_in_text(socket_id, user_data), || "sign in".to_owned())
    }

    fn verify_auth(
        &self,
        auth: Option<&str>,
        signed: String,
        purpose: impl Fn() -> String,
    ) -> Result<(), AuthError> {
        let auth = match auth {
            None | Some("") => return Err(AuthError::Missing { purpose: purpose() }),
            Some(auth) => auth,
        };
        let Some((key, signature)) = auth.split_once(':') else {
            return Err(AuthError::Malformed { given: auth.to_owned() });
        };
        if key != self.key {
            return Err(AuthError::WrongKey { given: key.to_owned(), key: self.key.to_owned() });
        }
        if !self.is_signature(signed.as_bytes(), signature) {
            let (key, given) = (self.key.to_owned(), signature.to_owned());
            return Err(AuthError::Mismatch { key, signed, given });
        }
        Ok(())
    }
}

/// What is signed for a subscription.
#[must_use]
pub fn subscription_text(
    socket_id: SocketId,
    channel: &ChannelName,
    channel_data: Option<&str>,
) -> String {
    match channel_data {
        Some(data) => format!("{socket_id}:{channel}:{data}"),
        None => format!("{socket_id}:{channel}"),
    }
}

/// What is signed for a sign-in.
#[must_use]
pub fn sign_in_text(socket_id: SocketId, user_data: &str) -> String {
    format!("{socket_id}::user::{user_data}")
}
