//! A Faktory client, as small as can be, and what a job goes through.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use crate::process::{PATIENCE, is_timeout};
use crate::weir::Weir;

/// One connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    pub(crate) greeting: String,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let mut client = Self::dial(address);
        assert_eq!(client.ask("HELLO {\"v\":2,\"wid\":\"it-worker\"}"), "+OK");
        client
    }

    /// Connected and greeted, nothing said.
    pub(crate) fn dial(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut client = Self { stream: BufReader::new(stream), greeting: String::new() };
        client.greeting = client.line();
        client
    }

    pub(crate) fn send(&mut self, command: &str) {
        let line = format!("{command}\r\n");
        self.stream.get_mut().write_all(line.as_bytes()).expect("written");
    }

    /// The next reply: a simple string or error as it is, a bulk's text, `nil`; empty: closed.
    pub(crate) fn reply(&mut self) -> String {
        let line = self.line();
        match line.strip_prefix('$') {
            Some("-1") => "nil".to_owned(),
            Some(_) => self.line(),
            None => line,
        }
    }

    /// None: the connection is closed.
    pub(crate) fn try_ask(&mut self, command: &str) -> Option<String> {
        self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).ok()?;
        Some(self.reply())
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.reply()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        if let Err(error) = self.stream.read_line(&mut line) {
            // Closed is an answer, silence is none.
            assert!(!is_timeout(&error), "no answer in {PATIENCE:?}");
        }
        line.trim_end().to_owned()
    }
}

#[test]
fn a_job_goes_from_push_to_ack() {
    let weir = Weir::start();
    let mut client = Client::connect(weir.jobs());
    let job = r#"{"jid":"it-job-0001","jobtype":"Hello","args":[109326485893512345]}"#;
    assert_eq!(client.ask(&format!("PUSH {job}")), "+OK");
    let fetched = client.ask("FETCH default");
    assert!(fetched.contains("109326485893512345"), "{fetched}");
    assert_eq!(client.ask(r#"ACK {"jid":"it-job-0001"}"#), "+OK");
    let status: serde_json::Value =
        serde_json::from_str(&weir.site.ok(&["status", "--json"])).expect("JSON");
    assert_eq!(status["jobs"]["processed_total"], 1);
    assert!(weir.stop().success());
}
