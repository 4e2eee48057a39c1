//! One request before the run, so that a server that isn't there is told as such, and not as a million errors.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::answer;
use super::url::AppUrl;

const READ_BYTES: usize = 16 * 1024;

/// Fails unless the app answers with 200.
pub(crate) fn ask(url: &AppUrl, timeout: Duration) -> Result<()> {
    ask_once(url, timeout).with_context(|| format!("asking {url}"))
}

fn ask_once(url: &AppUrl, timeout: Duration) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&url.address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    let AppUrl { host, path, .. } = url;
    write!(stream, "GET {path}?us=0 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut input = Vec::new();
    let mut chunk = vec![0; READ_BYTES];
    loop {
        let bytes = stream.read(&mut chunk).context("no answer")?;
        input.extend_from_slice(&chunk[..bytes]);
        if let Some(answer) = answer::parse(&input, bytes == 0).map_err(|text| anyhow!(text))? {
            ensure!(answer.status == 200, "the answer is {}, not 200", answer.status);
            return Ok(());
        }
        if bytes == 0 {
            bail!("the connection was closed without an answer");
        }
    }
}
