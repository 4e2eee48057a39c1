//! Signatures: HMAC-SHA256 with the app's secret, as hexadecimal digits.
//!
//! Comparisons take constant time. Errors contain the signed text, so that developers can sign it
//! and compare. They never contain the secret or the correct signature.

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

/// An app's key, which is public, and its secret, which only its servers know.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// The key, which is in every client's settings.
    pub key: &'a str,
    /// The secret, which signs.
    pub secret: &'a Secret,
}

/// Why a subscription or a sign-in was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A required signature is missing.
    #[error("Auth info required to {purpose}")]
    Missing { purpose: String },
    /// The text is not a key and a signature.
    #[error(
        "Invalid auth '{}': it must be KEY:SIGNATURE, as the server library returns it in auth",
        Excerpt(.given)
    )]
    Malformed { given: String },
    /// The text was signed for another app.
    #[error("Invalid key in auth: '{}'; this connection's app has the key '{key}'", Excerpt(.given))]
    WrongKey { given: String, key: String },
    /// Another secret was used, or another text was signed.
    #[error(
        "Invalid signature: expected the HMAC SHA256 hex digest, made with the secret of the app with the key '{key}', of '{}', but got '{}'",
        Excerpt(.signed),
        Excerpt(.given)
    )]
    Mismatch { key: String, signed: String, given: String },
}

impl Token<'_> {
    /// Returns the signature of `text`: 64 hexadecimal digits.
    #[must_use]
    pub fn sign(&self, text: &[u8]) -> String {
        hex::encode(self.mac(text).finalize().into_bytes())
    }

    /// Returns whether `signature` is that of `text`.
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

    /// Verifies that the application's server allows `socket_id` to subscribe to `channel`.
    ///
    /// # Errors
    /// Returns why the signature is rejected.
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

    /// Verifies that the application's server signed `user_data` for `socket_id`.
    ///
    /// # Errors
    /// Returns why the signature is rejected.
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

/// Returns the text that is signed for a subscription.
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

/// Returns the text that is signed for a sign-in.
#[must_use]
pub fn sign_in_text(socket_id: SocketId, user_data: &str) -> String {
    format!("{socket_id}::user::{user_data}")
}
