//! What hostile clients send. A request for `/smuggled` is in it only where no correct reading sees
//! a request there: it is within a body, or behind what must be refused.

/// How it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    AtOnce,
    InPieces,
    /// A byte now and then, and never all of it.
    Dripping,
    /// The client says that it is done.
    HalfClosed,
    Reset,
}

#[derive(Debug)]
pub(super) struct Attack {
    pub(super) bytes: Vec<u8>,
    pub(super) how: How,
}

/// The end of a body with bytes that are changed in targets.
pub(super) const KEPT: &str = "/\"<>`# end";
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Ways to say `Transfer-Encoding` that somebody might understand otherwise.
const CODINGS: [&str; 16] = [
    "Transfer-Encoding: chunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding:\tchunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: \u{b}chunked",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding\r\n : chunked",
    "X: y\rTransfer-Encoding: chunked",
    "X: y\nTransfer-Encoding : chunked",
    "transfer_encoding: chunked",
    "Transfer-Encoding: chunked;q=1",
    " Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip",
];

/// Lengths that are none, or two.
const LENGTHS: [&str; 12] = [
    "Content-Length: +6",
    "Content-Length: -6",
    "Content-Length: 0x6",
    "Content-Length: 6 6",
    "Content-Length: 6, 7",
    "Content-Length: 6\r\nContent-Length: 7",
    "Content-Length: ",
    "Content-Length: 99999999999999999999999",
    "Content-Length: 6\r\n 7",
    "Content-Length : 6",
    "Content-Length: 6;",
    "Content_Length: 6\r\nContent-Length: six",
];

/// Chunk sizes that are none.
const SIZES: [&str; 13] = [
    "0x5",
    "-5",
    "+5",
    "5 5",
    " 5",
    "5\n",
    "FFFFFFFFFFFFFFFFF",
    "ffffffffffffffff",
    "8000000000000000",
    "7fffffffffffffff",
    "",
    "g",
    "5\u{0}",
];

/// Pieces of targets: bytes that are passed on as they are, and some that would end a line if they were.
const TARGETS: [&[u8]; 12] = [
    b"\"",
    b"<",
    b">",
    b"`",
    b"#",
    b"\xff\xfe",
    b"\xc3\xa9",
    b"?{\"a\":1}",
    b"\xe5\x98\x8a\xe5\x98\x8d",
    b"%0d%0a",
    b"/../",
    b"\\",
];

/// First lines that are none, or mean somebody else.
const LINES: [&str; 14] = [
    "GET  /probe HTTP/1.1",
    "GET /probe HTTP/1.1 x",
    "GET /probe\tHTTP/1.1",
    "GET /pro be HTTP/1.1",
    "GET /probe HTTP/0.9",
    "GET /probe HTTP/1.2",
    "GET /probe HTTP/3.0",
    "GET /probe http/1.1",
    "G\u{0}T /probe HTTP/1.1",
    "GET /pro\u{0}be HTTP/1.1",
    "CONNECT /probe HTTP/1.1",
    "CONNECT inside:25 HTTP/1.1",
    " GET /probe HTTP/1.1",
    "/probe",
];

const FIELDS: [&str; 10] = [
    "X_Forwarded_For: 6.6.6.6",
    "X-Forwarded-For: 6.6.6.6",
    "Host: other",
    "Connection: host, content-length, x-request-id",
    "X: a\u{0}b",
    "X: a\rb",
    "X y: z",
    "Expect: 100-continue",
    "Upgrade: h2c\r\nConnection: upgrade, http2-settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
    "Upgrade: websocket\r\nConnection: upgrade",
];

pub(super) fn next(random: &mut fastrand::Rng) -> Attack {
    let mut bytes = random_message(random);
    if random.u8(..) < 50 {
        bytes = mutated_message(random);
    }
    let how = match random.u8(0..100) {
        0..50 => How::AtOnce,
        50..80 => How::InPieces,
        80..82 => How::Dripping,
        82..92 => How::HalfClosed,
        _ => How::Reset,
    };
    Attack { bytes, how }
}

fn choose<'a>(random: &mut fastrand::Rng, choices: &[&'a str]) -> &'a str {
    choices[random.usize(..choices.len())]
}

fn random_message(random: &mut fastrand::Rng) -> Vec<u8> {
    let hidden = format!("0\r\n\r\n{SMUGGLED}");
    let text = match random.u8(0..10) {
        9 => return unusual_message(random),
        // All of it is the body, if it is anything.
        0 => {
            let (coding, length) = (choose(random, &CODINGS), hidden.len());
            match random.bool() {
                true => format!(
                    "POST /probe HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{coding}\r\n\r\n{hidden}"
                ),
                false => format!(
                    "POST /probe HTTP/1.1\r\nHost: a\r\n{coding}\r\nContent-Length: {length}\r\n\r\n{hidden}"
                ),
            }
        }
        1 => {
            let length = choose(random, &LENGTHS);
            format!("POST /probe HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n{SMUGGLED}")
        }
        2 => {
            let size = choose(random, &SIZES);
            format!(
                "POST /probe HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\n{SMUGGLED}"
            )
        }
        // A chunk that holds it, and one that is cut short by what it holds.
        3 => {
            let size = SMUGGLED.len();
            let end =
                choose(random, &["\r\n0\r\n\r\n", "0\r\n\r\n", "\n0\n\n", "\r\n0\r\nX: 1\n\r\n"]);
            format!(
                "POST /probe HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{SMUGGLED}{end}"
            )
        }
        4 => format!("{}\r\nHost: a\r\n{}", choose(random, &LINES), "\r\n"),
        5 => {
            let (field, length) = (choose(random, &FIELDS), SMUGGLED.len());
            format!(
                "GET /probe HTTP/1.1\r\nHost: a\r\n{field}\r\nContent-Length: {length}\r\n\r\n{SMUGGLED}"
            )
        }
        6 => overlong_message(random),
        7 => "GET /fair HTTP/1.1\r\nHost: a\r\n\r\n".repeat(random.usize(1..60)),
        // A socket that the worker declines: what follows is for nobody.
        _ => format!(
            "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n{SMUGGLED}"
        ),
    };
    text.into_bytes()
}

/// Requests with unusual targets, behind one another. What looks like one more is the body of each, which must reach
/// the worker unchanged.
fn unusual_message(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.usize(1..4) {
        bytes.extend_from_slice(b"POST /probe");
        for _ in 0..random.usize(1..6) {
            bytes.extend_from_slice(TARGETS[random.usize(..TARGETS.len())]);
        }
        let body = format!("GET /smuggled\"<# HTTP/1.1\r\nHost: a\r\n\r\n{KEPT}");
        let framed = match random.bool() {
            true => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            false => {
                format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
            }
        };
        bytes.extend_from_slice(format!(" HTTP/1.1\r\nHost: a\r\n{framed}").as_bytes());
    }
    bytes
}

/// Returns a message that exceeds all limits.
fn overlong_message(random: &mut fastrand::Rng) -> String {
    let many = random.usize(1..200_000);
    match random.u8(0..4) {
        0 => format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(many)),
        1 => format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(many)),
        2 => format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(many / 6)),
        _ => format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {many}\r\n\r\n{}",
            "a".repeat(many / 2)
        ),
    }
}

/// Returns a valid message with a few bytes changed. It may be rejected or served.
fn mutated_message(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = random_message(random);
    let marker = b"GET /smuggled";
    while let Some(at) = bytes.windows(marker.len()).position(|part| part == marker) {
        // A changed length may make a request of it, which is none of the front's mistakes then.
        bytes[at..at + b"GET /smuggled".len()].copy_from_slice(b"GET /mutated!");
    }
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..bytes.len());
        match random.u8(0..3) {
            0 => bytes[at] = random.u8(..),
            1 => bytes.insert(at, random.u8(..)),
            _ => drop(bytes.remove(at)),
        }
        if bytes.is_empty() {
            bytes.push(b'\r');
        }
    }
    bytes
}
