//! The web app behind the front: a process that serves HTTP/1.1 on a unix socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use weir_base::shutdown::ShutdownToken;

use crate::traffic::PAGES;

/// Limit of a request with its body.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Limit of header fields.
const HEADERS_MAX: usize = 64;
const NOT_FOUND: &str = "There is no such page; there are /, /slow and /inbox.\n";

/// Serves the app until the process is stopped.
///
/// # Errors
/// The socket cannot be bound.
pub async fn serve(socket: &Path) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let connections = ShutdownToken::new();
    loop {
        let (stream, _) = listener.accept().await?;
        connections.spawn(async move {
            // The front reports connections that end early.
            let _ = serve_connection(stream).await;
        });
    }
}

async fn serve_connection(mut stream: UnixStream) -> io::Result<()> {
    let mut input = Vec::new();
    loop {
        match parse(&input)? {
            Some(request) => {
                let (response, run_time) = respond(&request.method, &request.path);
                input.drain(..request.bytes);
                tokio::time::sleep(run_time).await;
                stream.write_all(response.as_bytes()).await?;
            }
            None if input.len() >= REQUEST_BYTES_MAX => return Err(invalid()),
            None if stream.read_buf(&mut input).await? == 0 => return Ok(()),
            None => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct AppRequest {
    method: String,
    path: String,
    /// Head and body.
    bytes: usize,
}

/// Returns the first request of `input`, once it is complete. The front sends bodies with their length.
fn parse(input: &[u8]) -> io::Result<Option<AppRequest>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(status) = request.parse(input) else { return Err(invalid()) };
    let httparse::Status::Complete(head) = status else { return Ok(None) };
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let mut body = 0;
    for header in &*request.headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(header.value).ok().and_then(|text| text.parse().ok());
            body = length.filter(|length| *length < REQUEST_BYTES_MAX).ok_or_else(invalid)?;
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(invalid());
        }
    }
    let bytes = head + body;
    let request = AppRequest { method: method.to_owned(), path, bytes };
    Ok((input.len() >= bytes).then_some(request))
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a request that the demo understands")
}

/// Returns the response to a request, and how long the app takes for it.
fn respond(method: &str, path: &str) -> (String, Duration) {
    let page = PAGES.into_iter().find(|page| page.path == path);
    let Some(page) = page else {
        return (response("404 Not Found", "text/plain", NOT_FOUND), Duration::ZERO);
    };
    let text = match (path, method) {
        ("/inbox", "POST") => response("202 Accepted", "text/plain", "Received.\n"),
        ("/inbox", _) => response("200 OK", "text/plain", "POST something here.\n"),
        _ => response("200 OK", "text/html; charset=utf-8", &welcome()),
    };
    (text, page.run_time)
}

fn response(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn welcome() -> String {
    let pid = std::process::id();
    format!(
        "<!doctype html><html lang=\"en\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>weir demo</title>\
         <body style=\"font: 1.1em/1.6 sans-serif; max-width: 40em; margin: 2em auto; padding: 0 1em\">\
         <h1>The app of weir demo</h1><p>Process {pid} responded. Reload: each request goes to a process with a free slot.</p>\
         <p><a href=\"/slow\">A slow page</a> takes 400 ms. During a flood (<code>weir demo flood</code>) \
         some requests are rejected with 503, and the others are served.</p>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_when_complete() {
        let get = b"GET /slow?x=1 HTTP/1.1\r\nHost: a\r\n\r\nGET";
        let request = parse(get).unwrap().unwrap();
        assert_eq!((&*request.method, &*request.path, request.bytes), ("GET", "/slow", 35));
        assert_eq!(parse(&get[..20]).unwrap(), None);
        let post = b"POST /inbox HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(parse(post).unwrap().unwrap().bytes, post.len());
        assert_eq!(parse(&post[..post.len() - 1]).unwrap(), None);
    }

    #[test]
    fn what_the_app_does_not_understand_is_rejected() {
        let chunked: &[u8] = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let long = b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n";
        for input in [chunked, long, b"\x16\x03\x01 tls"] {
            assert!(parse(input).is_err());
        }
    }

    #[test]
    fn pages_have_their_status() {
        for (method, path, status) in
            [("GET", "/", " 200 "), ("POST", "/inbox", " 202 "), ("GET", "/other", " 404 ")]
        {
            assert!(respond(method, path).0.lines().next().unwrap().contains(status), "{path}");
        }
    }
}
