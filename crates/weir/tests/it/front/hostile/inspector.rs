//! A worker that takes nothing for granted: it reads each message as strictly as it can be read, and
//! complains about all that could be read in two ways.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::attacks::KEPT;

pub(super) struct Inspector {
    pub(super) address: SocketAddr,
    notes: Arc<Notes>,
}

#[derive(Default)]
struct Notes {
    seen: AtomicU64,
    complaints: Mutex<Vec<String>>,
}

impl Inspector {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let notes = Arc::<Notes>::default();
        let shared = Arc::clone(&notes);
        // Starts it; it ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                shared.inspect(stream);
            }
        });
        Self { address, notes }
    }

    pub(super) fn request_count(&self) -> u64 {
        self.notes.seen.load(Ordering::Relaxed)
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.notes.complaints.lock().expect("no panic").clone()
    }
}

impl Notes {
    fn inspect(&self, mut stream: TcpStream) {
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        let mut bytes = Vec::new();
        let Ok(Some(head_length)) = read_until_head(&mut stream, &mut bytes) else {
            // Cut off before its end: nobody's request.
            return;
        };
        self.seen.fetch_add(1, Ordering::Relaxed);
        let head = String::from_utf8_lossy(&bytes[..head_length]).into_owned();
        let problem = match length_of(&head) {
            Err(problem) => Some(problem),
            Ok(length) => {
                while bytes.len() < head_length + length {
                    if !matches!(read_more(&mut stream, &mut bytes), Ok(1..)) {
                        // A body that breaks off is whole to nobody.
                        return;
                    }
                }
                let answered =
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen");
                // The front may have given up meanwhile.
                drop(answered);
                // One request for each connection: nothing may follow.
                let _ = stream.read_to_end(&mut bytes);
                let (body, rest) = bytes[head_length..].split_at(length);
                if body.starts_with(b"GET /smuggled\"") && !body.ends_with(KEPT.as_bytes()) {
                    let body = String::from_utf8_lossy(body);
                    return self
                        .report_problem(format!("the body {body:?} is changed in {head:?}"));
                }
                (!rest.is_empty()).then(|| format!("{:?} follows", String::from_utf8_lossy(rest)))
            }
        };
        if let Some(problem) = problem {
            self.report_problem(format!("{problem} in {head:?}"));
        }
    }

    fn report_problem(&self, problem: String) {
        self.complaints.lock().expect("no panic").push(problem);
    }
}

fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = [0; 16 << 10];
    let count = stream.read(&mut chunk)?;
    bytes.extend_from_slice(&chunk[..count]);
    Ok(count)
}

fn read_until_head(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<Option<usize>> {
    loop {
        if let Some(at) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            return Ok(Some(at + 4));
        }
        if read_more(stream, bytes)? == 0 {
            return Ok(None);
        }
    }
}

/// Returns the length of the body, if the head is unambiguous.
fn length_of(head: &str) -> Result<usize, String> {
    let mut lines = head.trim_end_matches("\r\n").split("\r\n");
    let first = lines.next().unwrap_or_default();
    let words: Vec<&str> = first.split(' ').collect();
    let [_, target, "HTTP/1.1"] = words[..] else { return Err("a first line".to_owned()) };
    if target.contains("smuggled") {
        return Err("a smuggled request".to_owned());
    }
    if head.bytes().any(|byte| byte == 0) || head.replace("\r\n", "").contains(['\r', '\n']) {
        return Err("a control character".to_owned());
    }
    let (mut hosts, mut ids, mut lengths) = (0, 0, Vec::new());
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("the field {line:?}"))?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'_') {
            return Err(format!("the name {name:?}"));
        }
        match name.to_ascii_lowercase().as_str() {
            "host" => hosts += 1,
            "x-request-id" => ids += 1,
            "content-length" => lengths.push(value),
            "transfer-encoding" => return Err("a transfer coding".to_owned()),
            "x-forwarded-for" if value != "127.0.0.1" => return Err(format!("forged: {value}")),
            _ => {}
        }
    }
    match (hosts, ids, &lengths[..]) {
        (1, 1, []) => Ok(0),
        (1, 1, [length]) => length.parse().map_err(|_| format!("the length {length:?}")),
        _ => Err(format!("{hosts} hosts, {ids} ids, lengths {lengths:?}")),
    }
}
