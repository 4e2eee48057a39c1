//! Sends one request on a new connection: before a run, so that an unreachable server is one error and not a million,
//! and to learn what a run needs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::response;
use super::url::HttpUrl;

const READ_BYTES: usize = 64 << 10;

/// A response with its body.
#[derive(Debug)]
pub(crate) struct FullResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Sends a GET request. `path` is appended to the URL's path; `fields` are header fields with line ends. A chunked
/// body is returned with its framing.
pub(crate) fn get(
    url: &HttpUrl,
    path: &str,
    fields: &str,
    timeout: Duration,
) -> Result<FullResponse> {
    get_once(url, path, fields, timeout).with_context(|| format!("asking {url}{path}"))
}

fn get_once(url: &HttpUrl, path: &str, fields: &str, timeout: Duration) -> Result<FullResponse> {
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
        if let Some(response) = response::parse(&input, bytes == 0).map_err(|text| anyhow!(text))? {
            let (status, head) = (response.status, response.length - response.body_bytes);
            let length = response.length;
            input.truncate(length);
            return Ok(FullResponse { status, body: input.split_off(head) });
        }
        if bytes == 0 {
            bail!("the connection was closed without an answer");
        }
    }
}
