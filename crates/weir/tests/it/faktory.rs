//! A Faktory client, as small as can be, and what a job goes through.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use crate::process::{TEST_TIMEOUT, is_timeout};
use crate::weir::Weir;

/// One connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    pub(crate) greeting: String,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let mut client = Self::connect_without_command(address);
        assert_eq!(client.run_command("HELLO {\"v\":2,\"wid\":\"it-worker\"}"), "+OK");
        client
    }

    /// Connects and reads the greeting, but sends no command.
    pub(crate) fn connect_without_command(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let mut client = Self { stream: BufReader::new(stream), greeting: String::new() };
        client.greeting = client.line();
        client
    }

    pub(crate) fn send(&mut self, command: &str) {
        let line = format!("{command}\r\n");
        self.stream.get_mut().write_all(line.as_bytes()).expect("written");
    }

    /// Returns the next reply: a simple string or error as it is, the text of a bulk, or `nil`; empty if the
    /// connection is closed.
    pub(crate) fn reply(&mut self) -> String {
        let line = self.line();
        match line.strip_prefix('$') {
            Some("-1") => "nil".to_owned(),
            Some(_) => self.line(),
            None => line,
        }
    }

    /// None: the connection is closed.
    pub(crate) fn try_run_command(&mut self, command: &str) -> Option<String> {
        self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).ok()?;
        Some(self.reply())
    }

    pub(crate) fn run_command(&mut self, command: &str) -> String {
        self.send(command);
        self.reply()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        if let Err(error) = self.stream.read_line(&mut line) {
            // Closed is an answer, silence is none.
            assert!(!is_timeout(&error), "no answer in {TEST_TIMEOUT:?}");
        }
        line.trim_end().to_owned()
    }
}

#[test]
fn job_is_pushed_fetched_and_acknowledged() {
    let weir = Weir::start();
    let mut client = Client::connect(weir.jobs());
    let job = r#"{"jid":"it-job-0001","jobtype":"Hello","args":[109326485893512345]}"#;
    assert_eq!(client.run_command(&format!("PUSH {job}")), "+OK");
    let fetched = client.run_command("FETCH default");
    assert!(fetched.contains("109326485893512345"), "{fetched}");
    assert_eq!(client.run_command(r#"ACK {"jid":"it-job-0001"}"#), "+OK");
    let status: serde_json::Value =
        serde_json::from_str(&weir.site.ok(&["status", "--json"])).expect("JSON");
    assert_eq!(status["jobs"]["processed_total"], 1);
    assert!(weir.stop().success());
}
