//! An HTTP app in a few lines: a thread for each connection, which is the worker that its answers name.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// What this app does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Every 10th answer is 503.
    Refuses,
    /// Accepts requests and never answers, but for the first.
    NeverAnswers,
    /// Closes the connection instead of every 10th answer.
    Closes,
    /// Closes each connection after its 5th answer without having said so.
    ClosesIdle,
    /// No answer names its worker.
    HasNoNames,
    /// Answers nobody (but the first) until so many requests wait at once; then everybody.
    HoldsUntil(usize),
}

pub(crate) struct FakeApp {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

struct State {
    fault: Fault,
    log: Mutex<Log>,
    count: Condvar,
}

#[derive(Default)]
struct Log {
    connections: usize,
    /// First lines.
    requests: Vec<String>,
    held: usize,
}

impl FakeApp {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (log, count) = (Mutex::default(), Condvar::new());
        let state = Arc::new(State { fault, log, count });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                // A client that hangs up ends its thread; there is nobody to tell.
                std::thread::spawn(move || drop(state.serve(stream)));
            }
        });
        Self { address, state }
    }

    /// First lines of all requests but the probe before a run, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.log.lock().expect("no panic in the app").requests.split_off(1)
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.log.lock().expect("no panic in the app").connections - 1
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let worker = {
            let mut log = self.log.lock().expect("no panic in the app");
            log.connections += 1;
            log.connections
        };
        let mut answers = 0;
        let mut request = String::new();
        for line in BufReader::new(stream.try_clone()?).lines() {
            let line = line?;
            if request.is_empty() {
                request = line;
                continue;
            }
            if !line.is_empty() {
                continue;
            }
            let number = self.record_request(std::mem::take(&mut request));
            answers += 1;
            match self.respond(number, worker) {
                Some(answer) => stream.write_all(answer.as_bytes())?,
                None => return Ok(()),
            }
            if self.fault == Fault::ClosesIdle && answers == 5 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Its number, from 1: the probe.
    fn record_request(&self, request: String) -> usize {
        let mut log = self.log.lock().expect("no panic in the app");
        log.requests.push(request);
        log.requests.len()
    }

    /// `None`: the connection ends.
    fn respond(&self, number: usize, worker: usize) -> Option<String> {
        let tenth = number.is_multiple_of(10);
        let mut status = "200 OK";
        let mut name = format!("X-Worker: {worker}\r\n");
        match self.fault {
            Fault::Refuses if tenth => status = "503 Service Unavailable",
            Fault::Closes if tenth => return None,
            Fault::HasNoNames => name.clear(),
            Fault::NeverAnswers if number > 1 => self.wait_for_requests(usize::MAX),
            Fault::HoldsUntil(count) if number > 1 => self.wait_for_requests(count),
            _ => {}
        }
        Some(format!("HTTP/1.1 {status}\r\n{name}Content-Length: 2\r\n\r\nok"))
    }

    fn wait_for_requests(&self, count: usize) {
        let mut log = self.log.lock().expect("no panic in the app");
        log.held += 1;
        self.count.notify_all();
        while log.held < count {
            log = self.count.wait(log).expect("no panic in the app");
        }
    }
}
