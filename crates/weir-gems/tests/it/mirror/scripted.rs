//! An upstream with scripted responses, which records its requests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use weir_gems::index::digest::Digests;

/// A response for a path.
#[derive(Clone)]
pub(crate) enum Reply {
    /// 200 with digests of the body; supports ranges.
    Text(Vec<u8>),
    /// Raw bytes of a response, after which the connection is closed.
    Raw(Vec<u8>),
    /// Like [`Reply::Text`], after the test has reached the barrier.
    Held(Arc<Barrier>, Vec<u8>),
    /// No response while the client waits.
    Silence,
}

#[derive(Default)]
struct Script {
    replies: HashMap<String, Reply>,
    otherwise: Option<Reply>,
    /// Requested paths with their request heads.
    asked: Vec<(String, String)>,
}

#[derive(Clone)]
pub(crate) struct Scripted {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
}

impl Scripted {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scripted = Self { address: listener.local_addr().unwrap(), script: Arc::default() };
        let script = Arc::clone(&scripted.script);
        // The thread ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), script) = (stream, Arc::clone(&script)) else { return };
                thread::spawn(move || serve(&stream, &script));
            }
        });
        scripted
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn on(&self, path: &str, reply: Reply) {
        self.script.lock().unwrap().replies.insert(path.to_owned(), reply);
    }

    pub(crate) fn text(&self, path: &str, text: impl Into<Vec<u8>>) {
        self.on(path, Reply::Text(text.into()));
    }

    /// Sets the reply for all other paths.
    pub(crate) fn otherwise(&self, reply: Reply) {
        self.script.lock().unwrap().otherwise = Some(reply);
    }

    /// Adds a gem with these releases: sets its `/info`, and returns its line of `/versions`.
    pub(crate) fn gem(&self, name: &str, releases: &[(&str, [u8; 32])]) -> String {
        let rows = releases
            .iter()
            .map(|(version, sum)| format!("{version} |checksum:{}\n", hex::encode(sum)));
        let info = format!("---\n{}", rows.collect::<String>());
        let md5 = hex::encode(Digests::of(info.as_bytes()).md5);
        self.text(&format!("/info/{name}"), info);
        let versions: Vec<_> = releases.iter().map(|(version, _)| *version).collect();
        format!("{name} {} {md5}\n", versions.join(","))
    }

    pub(crate) fn versions(&self, lines: &[String]) {
        self.text("/versions", format!("created_at: x\n---\n{}", lines.concat()));
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.script.lock().unwrap().asked.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Returns the head of the last request for a path.
    pub(crate) fn head_of(&self, path: &str) -> String {
        let script = self.script.lock().unwrap();
        let found = script.asked.iter().rev().find(|(asked, _)| asked == path);
        found.map(|(_, head)| head.clone()).unwrap_or_default()
    }

    pub(crate) fn forget(&self) {
        self.script.lock().unwrap().asked.clear();
    }
}

fn serve(stream: &TcpStream, script: &Mutex<Script>) {
    let mut input = BufReader::new(stream);
    let mut output = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match input.read_line(&mut head) {
                Ok(1..) => {}
                _ => return,
            }
        }
        let head = head.to_ascii_lowercase();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let reply = {
            let mut script = script.lock().unwrap();
            script.asked.push((path.clone(), head.clone()));
            script.replies.get(&path).or(script.otherwise.as_ref()).cloned()
        };
        let sent = match reply {
            None => output.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
            Some(Reply::Text(text)) => output.write_all(&answer(&head, &text)),
            Some(Reply::Held(barrier, text)) => {
                barrier.wait();
                output.write_all(&answer(&head, &text))
            }
            Some(Reply::Raw(bytes)) => {
                let _ = output.write_all(&bytes);
                return;
            }
            Some(Reply::Silence) => {
                // Wait until the client disconnects.
                let _ = input.read(&mut [0]);
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn answer(head: &str, text: &[u8]) -> Vec<u8> {
    let digests = Digests::of(text);
    let headers = format!("etag: {}\r\nrepr-digest: {}\r\n", digests.etag(), digests.repr_digest());
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    if header("if-none-match: ") == Some(&digests.etag()) {
        return format!("HTTP/1.1 304 Not Modified\r\n{headers}\r\n").into_bytes();
    }
    let from = header("range: bytes=").and_then(|range| range.strip_suffix('-')?.parse().ok());
    let (status, body) = match from {
        None => ("200 OK".to_owned(), text),
        Some(from) if from < text.len() => {
            let range = format!("{from}-{}/{}", text.len() - 1, text.len());
            (format!("206 Partial Content\r\ncontent-range: bytes {range}"), &text[from..])
        }
        Some(_) => ("416 Range Not Satisfiable".to_owned(), &b""[..]),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}
