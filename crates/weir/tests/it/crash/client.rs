//! A Faktory client of a few lines: blocking, and it says when the connection is gone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::process::{TEST_TIMEOUT, is_timeout};

pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    /// None: the server has ended.
    pub(crate) fn connect(address: SocketAddr, wid: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(TEST_TIMEOUT)).ok()?;
        stream.set_nodelay(true).ok()?;
        let mut client = Self { reader: BufReader::new(stream) };
        client.read_line()?;
        let hello = format!(r#"HELLO {{"v":2,"wid":"{wid}","pid":1,"hostname":"h","labels":[]}}"#);
        (client.try_send_command(&hello)? == "OK").then_some(client)
    }

    /// Sends a command and returns its reply; None: the connection broke before it.
    pub(crate) fn try_send_command(&mut self, command: &str) -> Option<String> {
        let line = format!("{command}\r\n");
        self.reader.get_mut().write_all(line.as_bytes()).ok()?;
        let answer = self.read_line()?;
        match answer.split_at(1) {
            ("+", simple) => Some(simple.to_owned()),
            ("$", "-1") => Some(String::new()),
            ("$", length) => self.read_bulk(length.parse().ok()?),
            _ => Some(answer),
        }
    }

    pub(crate) fn ack(&mut self, jid: &str) -> Option<String> {
        self.try_send_command(&format!(r#"ACK {{"jid":"{jid}"}}"#))
    }

    fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = none_if_disconnected(self.reader.read_line(&mut line))?;
        // A line that was cut off by the kill says nothing.
        (read > 0 && line.ends_with('\n')).then(|| line.trim_end().to_owned())
    }

    fn read_bulk(&mut self, length: usize) -> Option<String> {
        let mut bytes = vec![0; length + 2];
        none_if_disconnected(self.reader.read_exact(&mut bytes))?;
        bytes.truncate(length);
        String::from_utf8(bytes).ok()
    }
}

/// Returns the result of a read. A server that has ended closes the connection; one that hangs is a failure.
fn none_if_disconnected<T>(read: std::io::Result<T>) -> Option<T> {
    assert!(!read.as_ref().is_err_and(is_timeout), "no answer in {TEST_TIMEOUT:?}");
    read.ok()
}

/// Returns the jid in the reply to a FETCH; None: there was no job.
pub(crate) fn jid_in_reply(answer: &str) -> Option<String> {
    if answer.is_empty() {
        return None;
    }
    let job: serde_json::Value = serde_json::from_str(answer).expect("a job is JSON");
    Some(job["jid"].as_str().expect("a job has a jid").to_owned())
}
