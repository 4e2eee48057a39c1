//! Formats the record of a request as a line of text.

use std::io::Write;
use std::net::IpAddr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};

use super::LogFormat;

/// A finished request, as it is logged.
#[derive(Debug, Default, Serialize)]
pub(super) struct AccessLogRecord {
    #[serde(serialize_with = "as_text")]
    pub(super) time: Timestamp,
    pub(super) client: Option<IpAddr>,
    pub(super) method: String,
    pub(super) host: String,
    pub(super) target: String,
    pub(super) protocol: &'static str,
    pub(super) status: u16,
    /// Bytes of the response's body that were sent.
    pub(super) bytes: u64,
    /// False: the client disconnected or the worker broke off.
    pub(super) complete: bool,
    /// From the request's head to the end of the response.
    pub(super) seconds: f64,
    /// The wait for a worker. None: no worker was needed.
    pub(super) queue_seconds: Option<f64>,
    /// From the slot to the head of the worker's response. None: there was no response.
    pub(super) service_seconds: Option<f64>,
    pub(super) app: Option<String>,
    pub(super) worker: Option<String>,
    pub(super) request_id: Option<String>,
    pub(super) referer: Option<String>,
    pub(super) user_agent: Option<String>,
}

/// Serializes a time as in RFC 3339.
fn as_text<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

impl AccessLogRecord {
    pub(super) fn write(&self, format: LogFormat, into: &mut Vec<u8>) {
        // Writing to memory can't fail.
        let _ = match format {
            LogFormat::Json => serde_json::to_writer(&mut *into, self).map_err(Into::into),
            LogFormat::Common => self.write_common(into),
            LogFormat::Combined => self.write_common(into).and_then(|()| {
                let (referer, agent) = (quoted(&self.referer), quoted(&self.user_agent));
                write!(into, " \"{referer}\" \"{agent}\"")
            }),
        };
        into.push(b'\n');
    }

    /// Writes `HOST - - [TIME] "REQUEST" STATUS BYTES`.
    fn write_common(&self, into: &mut Vec<u8>) -> std::io::Result<()> {
        let client = self.client.map_or_else(|| "-".to_owned(), |client| client.to_string());
        let time = self.time.to_zoned(TimeZone::UTC).strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
        let request = format!("{} {} {}", self.method, self.target, self.protocol);
        let request = escaped(&request);
        write!(into, "{client} - - [{time}] \"{request}\" {} {}", self.status, self.bytes)
    }
}

fn quoted(text: &Option<String>) -> String {
    text.as_ref().map_or_else(|| "-".to_owned(), |text| escaped(text))
}

/// Escapes text as Apache does: a quote, backslash, control or non-ASCII byte becomes `\"`, `\\` or
/// `\xHH`, so that no text ends the field or the line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            ' '..='~' => escaped.push(character),
            other => {
                let mut bytes = [0; 4];
                for byte in other.encode_utf8(&mut bytes).bytes() {
                    escaped.push_str(&format!("\\x{byte:02x}"));
                }
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> AccessLogRecord {
        AccessLogRecord {
            time: Timestamp::from_second(971_211_336).expect("a time"),
            client: "192.0.2.7".parse().ok(),
            method: "GET".to_owned(),
            host: "shop.example".to_owned(),
            target: "/cart?x=1".to_owned(),
            protocol: "HTTP/1.1",
            status: 200,
            bytes: 2_326,
            complete: true,
            seconds: 0.25,
            user_agent: Some("a \"browser\"\n\u{e9}".to_owned()),
            ..AccessLogRecord::default()
        }
    }

    fn line(format: LogFormat) -> String {
        let mut text = Vec::new();
        record().write(format, &mut text);
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn log_lines_match_the_common_and_combined_formats() {
        let common =
            "192.0.2.7 - - [10/Oct/2000:20:55:36 +0000] \"GET /cart?x=1 HTTP/1.1\" 200 2326";
        assert_eq!(line(LogFormat::Common), format!("{common}\n"));
        let agent = r#" "-" "a \"browser\"\x0a\xc3\xa9""#;
        assert_eq!(line(LogFormat::Combined), format!("{common}{agent}\n"));
    }

    #[test]
    fn json_lines_have_all_known_fields() {
        let text = line(LogFormat::Json);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON on one line");
        assert_eq!(value["time"], "2000-10-10T20:55:36Z");
        assert_eq!((&value["status"], &value["seconds"]), (&200.into(), &0.25.into()));
        assert_eq!(value["worker"], serde_json::Value::Null);
    }
}
