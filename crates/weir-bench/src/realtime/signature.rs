//! Pusher's signatures: HMAC-SHA256 with the app's secret, in hexadecimal.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use sha2::Sha256;

use super::target::App;

/// Returns `KEY:SIGNATURE`, which authorizes one socket to subscribe to a private or presence channel.
pub(crate) fn channel_auth(
    app: &App,
    socket_id: &str,
    channel: &str,
    data: Option<&str>,
) -> String {
    let mut text = format!("{socket_id}:{channel}");
    if let Some(data) = data {
        // Writing to a String cannot fail.
        let _ = write!(text, ":{data}");
    }
    format!("{}:{}", app.key, hmac_hex(&app.secret, &text))
}

/// Returns the signed query of a POST request to the HTTP API.
pub(crate) fn request_query(app: &App, method: &str, path: &str, body: &[u8], at: u64) -> String {
    let body_md5 = hex::encode(Md5::digest(body));
    let key = &app.key;
    let query = format!("auth_key={key}&auth_timestamp={at}&auth_version=1.0&body_md5={body_md5}");
    let signature = hmac_hex(&app.secret, &format!("{method}\n{path}\n{query}"));
    format!("{query}&auth_signature={signature}")
}

fn hmac_hex(secret: &str, text: &str) -> String {
    let hmac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
    let mut hmac = hmac.expect("HMAC takes a key of any length");
    hmac.update(text.as_bytes());
    hex::encode(hmac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the protocol's documentation.
    fn app() -> App {
        "3:278d425bdf160c739803:7ad3773142a6692b25b8".parse().expect("valid")
    }

    #[test]
    fn channel_signature_matches_the_documentation() {
        let expected =
            "278d425bdf160c739803:58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4";
        assert_eq!(channel_auth(&app(), "1234.1234", "private-foobar", None), expected);
    }

    #[test]
    fn request_signature_matches_the_documentation() {
        let body = br#"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#;
        let query = request_query(&app(), "POST", "/apps/3/events", body, 1_353_088_179);
        let expected = "auth_key=278d425bdf160c739803&auth_timestamp=1353088179&auth_version=1.0\
            &body_md5=ec365a775a4cd0599faeb73354201b6f\
            &auth_signature=da454824c97ba181a32ccc17a72625ba02771f50b50e1e7430e47a1f3f457e6c";
        assert_eq!(query, expected);
    }
}
