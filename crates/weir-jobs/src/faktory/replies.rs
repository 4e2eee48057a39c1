//! Encodes replies in the protocol's subset of RESP, to be sent with one write.

use std::io::Write as _;
use std::rc::Rc;

use serde_json::Value;

use super::buffers::{Buffer, Buffers};
use super::error::FaktoryError;

/// If pending replies exceed this size, they are sent before the next command runs.
pub(crate) const SEND_BYTES: usize = 64 << 10;

/// Maximum size of the frame of a bulk: `$`, the digits of a length and two line ends.
const BULK_FRAME_BYTES_MAX: usize = 25;

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaktoryReply {
    /// Encoded as `+OK`.
    Ok,
    /// Encoded as `$-1`: no job.
    Null,
    /// Encoded as `$length` and the bytes.
    Bulk(Vec<u8>),
    /// Encoded as `*count` and a bulk for each element.
    Array(Vec<Vec<u8>>),
}

impl FaktoryReply {
    /// Returns whether the reply means that there was no job.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Array(bulks) => bulks.is_empty(),
            Self::Ok | Self::Bulk(_) => false,
        }
    }

    /// Returns a bulk `{jid: error}` for the jobs of a batch that failed.
    pub(crate) fn errors(errors: impl Iterator<Item = (String, String)>) -> Self {
        let errors = errors.map(|(jid, error)| (jid, Value::String(error))).collect();
        Self::Bulk(Value::Object(errors).to_string().into_bytes())
    }
}

/// The replies of one connection that are not yet sent.
#[derive(Debug)]
pub(crate) struct Replies {
    buffer: Option<Buffer>,
    buffers: Rc<Buffers>,
}

impl Replies {
    pub(crate) const fn new(buffers: Rc<Buffers>) -> Self {
        Self { buffer: None, buffers }
    }

    /// Returns the bytes to send.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| buffer.as_slice())
    }

    /// Clears the replies after all of [`Replies::bytes`] was sent.
    pub(crate) fn sent(&mut self) {
        self.buffer = None;
    }

    pub(crate) fn reply(&mut self, reply: &FaktoryReply) {
        match reply {
            FaktoryReply::Ok => self.simple("OK"),
            FaktoryReply::Null => self.write(b"$-1\r\n"),
            FaktoryReply::Bulk(bytes) => self.bulk(bytes),
            FaktoryReply::Array(bulks) => self.array(bulks),
        }
    }

    /// Appends `+text`.
    pub(crate) fn simple(&mut self, text: &str) {
        let buffer = self.open();
        for part in [b"+", text.as_bytes(), b"\r\n"] {
            buffer.extend_from_slice(part);
        }
        buffer.count();
    }

    /// Appends `-ERR text`, or the error's own code, on one line: control characters are replaced by spaces.
    pub(crate) fn error(&mut self, error: &FaktoryError) {
        let text = error.to_string();
        let code = error.code();
        let buffer = self.open();
        for part in [b"-", code.as_bytes(), b" "] {
            buffer.extend_from_slice(part);
        }
        let start = buffer.len();
        buffer.extend_from_slice(text.as_bytes());
        for byte in &mut buffer[start..] {
            if byte.is_ascii_control() {
                *byte = b' ';
            }
        }
        buffer.extend_from_slice(b"\r\n");
        buffer.count();
    }

    fn bulk(&mut self, bytes: &[u8]) {
        let buffer = self.open();
        // Writing to a Vec can't fail.
        let _ = write!(**buffer, "${}\r\n", bytes.len());
        if bytes.len() > SEND_BYTES {
            // Doubling the buffer would waste memory for a large job.
            buffer.reserve_exact(bytes.len() + 2);
        }
        buffer.extend_from_slice(bytes);
        buffer.extend_from_slice(b"\r\n");
        buffer.count();
    }

    fn array(&mut self, bulks: &[Vec<u8>]) {
        let buffer = self.open();
        // Writing to a Vec can't fail.
        let _ = write!(**buffer, "*{}\r\n", bulks.len());
        let bytes: usize = bulks.iter().map(|bulk| bulk.len() + BULK_FRAME_BYTES_MAX).sum();
        buffer.reserve(bytes);
        bulks.iter().for_each(|bulk| self.bulk(bulk));
    }

    fn write(&mut self, bytes: &[u8]) {
        let buffer = self.open();
        buffer.extend_from_slice(bytes);
        buffer.count();
    }

    fn open(&mut self) -> &mut Buffer {
        self.buffer.get_or_insert_with(|| self.buffers.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_resp() {
        let mut replies = Replies::new(Rc::default());
        replies.reply(&FaktoryReply::Ok);
        replies.reply(&FaktoryReply::Null);
        replies.reply(&FaktoryReply::Bulk("ä".into()));
        replies.reply(&FaktoryReply::Array(vec![b"a".to_vec(), b"bc".to_vec()]));
        replies.reply(&FaktoryReply::Array(Vec::new()));
        replies.error(&FaktoryError::InvalidPassword);
        let text = String::from_utf8_lossy(replies.bytes());
        let array = "*2\r\n$1\r\na\r\n$2\r\nbc\r\n*0\r\n";
        assert_eq!(text, format!("+OK\r\n$-1\r\n$2\r\nä\r\n{array}-ERR Invalid password\r\n"));
        replies.sent();
        assert_eq!(replies.bytes(), b"");
    }

    #[test]
    fn errors_have_one_line() {
        let mut replies = Replies::new(Rc::default());
        replies.error(&FaktoryError::unknown_command(b"A\r\n+OK\xFF"));
        let text = String::from_utf8_lossy(replies.bytes());
        assert_eq!(text, "-ERR unknown command A  +OK\u{FFFD}\r\n");
    }
}
