//! An index of three gems in a few lines, a thread for each connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What this index does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Answers ranges with the whole.
    IgnoresRanges,
    /// Acknowledges pushes and shows none.
    Forgets,
    /// Pushes and what is asked of names get 503.
    Refuses,
}

pub(crate) struct FakeIndex {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

struct State {
    fault: Fault,
    versions: Mutex<String>,
    /// Paths.
    requests: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Request {
    path: String,
    range_start: Option<usize>,
    body: Vec<u8>,
    key: String,
}

impl FakeIndex {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let versions = "created_at: 2026-01-01\n---\n".to_owned() + &"rack 1.0 0123\n".repeat(20);
        let state = State { fault, versions: Mutex::new(versions), requests: Mutex::default() };
        let state = Arc::new(state);
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                // A client that hangs up ends its thread; there is nobody to tell.
                std::thread::spawn(move || drop(state.serve(&stream)));
            }
        });
        Self { address, state }
    }

    /// Paths of all requests, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().expect("no panic in the index").clone()
    }
}

impl State {
    fn serve(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut input = BufReader::new(stream);
        while let Some(request) = Request::read(&mut input)? {
            self.requests.lock().expect("no panic in the index").push(request.path.clone());
            let (status, body) = self.respond(&request);
            write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        }
        Ok(())
    }

    fn respond(&self, request: &Request) -> (u16, String) {
        let mut versions = self.versions.lock().expect("no panic in the index");
        let refuses = self.fault == Fault::Refuses;
        match (request.path.as_str(), request.range_start) {
            ("/names", _) => (200, "---\nrack\nrails\nrake\n".to_owned()),
            ("/versions", Some(start)) if self.fault != Fault::IgnoresRanges => {
                (206, versions[start..].to_owned())
            }
            ("/versions", _) => (200, versions.clone()),
            _ if refuses => (503, String::new()),
            ("/api/v1/gems", _) if request.key != "key" => (401, String::new()),
            ("/api/v1/gems", _) => {
                if self.fault != Fault::Forgets {
                    *versions += &format!("{} 1.0.0 0123\n", request.gem_name());
                }
                (200, String::new())
            }
            _ => (200, "text".to_owned()),
        }
    }
}

impl Request {
    fn read(input: &mut impl BufRead) -> std::io::Result<Option<Self>> {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut request = Self { path, ..Self::default() };
        loop {
            line.clear();
            input.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name {
                "Range" => {
                    let start = value.trim_start_matches("bytes=").trim_end_matches('-');
                    request.range_start = start.parse().ok();
                }
                "Content-Length" => request.body = vec![0; value.parse().expect("a length")],
                "Authorization" => value.clone_into(&mut request.key),
                _ => {}
            }
        }
        input.read_exact(&mut request.body)?;
        Ok(Some(request))
    }

    fn gem_name(&self) -> String {
        let mut archive = tar::Archive::new(&self.body[..]);
        let first = archive.entries().expect("an archive").next();
        let member = first.expect("a member").expect("whole");
        let mut metadata = String::new();
        flate2::read::GzDecoder::new(member).read_to_string(&mut metadata).expect("gzip");
        let line = metadata.lines().find_map(|line| line.strip_prefix("name: "));
        line.expect("a name").to_owned()
    }
}
