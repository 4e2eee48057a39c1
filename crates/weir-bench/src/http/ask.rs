//! One request on a connection of its own: before a run, so that a server that isn't there is told as such and not as a
//! million errors, and for what a run must know.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::answer;
use super::url::HttpUrl;

const READ_BYTES: usize = 64 << 10;

/// An answer as a whole.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// `path` is appended to the URL's own; `fields`: header fields, each with its end of line. A chunked body is as it came.
pub(crate) fn get(url: &HttpUrl, path: &str, fields: &str, timeout: Duration) -> Result<Whole> {
    get_once(url, path, fields, timeout).with_context(|| format!("asking {url}{path}"))
}

fn get_once(url: &HttpUrl, path: &str, fields: &str, timeout: Duration) -> Result<Whole> {
    let mut stream = TcpStream::connect_timeout(&url.address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    let HttpUrl { host, path: base, .. } = url;
    write!(
        stream,
        "GET {base}{path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n"
    )?;
    let mut input = Vec::new();
    let mut chunk = vec![0; READ_BYTES];
    loop {
        let bytes = stream.read(&mut chunk).context("no answer")?;
        input.extend_from_slice(&chunk[..bytes]);
        if let Some(answer) = answer::parse(&input, bytes == 0).map_err(|text| anyhow!(text))? {
            let (status, head) = (answer.status, answer.length - answer.body_bytes);
            let length = answer.length;
            input.truncate(length);
            return Ok(Whole { status, body: input.split_off(head) });
        }
        if bytes == 0 {
            bail!("the connection was closed without an answer");
        }
    }
}
