//! Opens a connection: greeting, password, HELLO. Blocking, with a timeout. This is not part of any measured time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::push::describe;
use super::reply::{self, Reply};
use super::server_url::{Password, ServerUrl};

/// Most rounds of hashing that a server may request (Faktory requests 4,000 - 8,095).
const HASH_ROUNDS_MAX: u32 = 1_000_000;

/// The server's greeting, `+HI {"v":2,"i":5012,"s":"a1b2"}`.
#[derive(Debug, Deserialize)]
struct Greeting {
    v: u32,
    #[serde(rename = "i", default)]
    rounds: u32,
    #[serde(rename = "s")]
    salt: Option<String>,
}

/// Opens a connection. With `wid` it is a worker's, and may FETCH; without it is a producer's.
pub(crate) fn open(server: &ServerUrl, wid: Option<&str>, timeout: Duration) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server.address, timeout)
        .with_context(|| format!("connecting to {server}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut control = Control { stream, input: Vec::new() };
    control.handshake(server, wid).with_context(|| format!("greeting {server}"))?;
    Ok(control.stream)
}

/// A blocking connection for commands before and after a run.
#[derive(Debug)]
pub(crate) struct Control {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Control {
    pub(crate) fn open(server: &ServerUrl, timeout: Duration) -> Result<Self> {
        Ok(Self { stream: open(server, None, timeout)?, input: Vec::new() })
    }

    /// A connection of a worker, which may FETCH.
    pub(crate) fn open_worker(server: &ServerUrl, wid: &str, timeout: Duration) -> Result<Self> {
        Ok(Self { stream: open(server, Some(wid), timeout)?, input: Vec::new() })
    }

    /// Sends one command and returns the text of its reply. An error reply is an error.
    pub(crate) fn command(&mut self, line: &str) -> Result<Vec<u8>> {
        self.stream.write_all(format!("{line}\r\n").as_bytes())?;
        self.read_reply()
            .with_context(|| format!("command {}", line.split(' ').next().unwrap_or(line)))
    }

    fn handshake(&mut self, server: &ServerUrl, wid: Option<&str>) -> Result<()> {
        let greeting = self.read_reply().context("waiting for the greeting")?;
        let greeting = greeting.strip_prefix(b"HI ").context("the greeting is not +HI {..}")?;
        let greeting: Greeting =
            serde_json::from_slice(greeting).context("reading the greeting")?;
        ensure!(greeting.v == 2, "the server speaks protocol version {}, not 2", greeting.v);
        let mut hello =
            serde_json::json!({ "v": 2, "hostname": "weir-bench", "labels": ["bench"] });
        hello["pid"] = std::process::id().into();
        if let Some(wid) = wid {
            hello["wid"] = wid.into();
        }
        if let Some(salt) = &greeting.salt {
            let Some(password) = &server.password else {
                bail!("the server wants a password: tcp://:PASSWORD@{}", server.address);
            };
            hello["pwdhash"] = password_hash(password, salt, greeting.rounds)?.into();
        }
        self.command(&format!("HELLO {hello}"))?;
        Ok(())
    }

    fn read_reply(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some((reply, length)) = reply::parse(&self.input)? {
                let text = match reply {
                    Reply::Status(text) | Reply::Bulk(text) => Ok(text.to_vec()),
                    Reply::Null => Ok(Vec::new()),
                    Reply::Error(_) | Reply::Array(_) => {
                        Err(anyhow!("the server answered {}", describe(&reply)))
                    }
                };
                self.input.drain(..length);
                return text;
            }
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk).context("reading the reply")?;
            ensure!(count > 0, "the server closed the connection");
            self.input.extend_from_slice(&chunk[..count]);
        }
    }
}

/// Hexadecimal SHA-256 over password and salt, hashed `rounds` times: the first round hashes the text, later
/// rounds the 32 bytes of the round before.
fn password_hash(password: &Password, salt: &str, rounds: u32) -> Result<String> {
    ensure!(rounds <= HASH_ROUNDS_MAX, "the server asks for {rounds} rounds of hashing");
    let mut digest = Sha256::digest(format!("{}{salt}", password.0));
    for _ in 1..rounds {
        digest = Sha256::digest(digest);
    }
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_reply_after_an_error_is_that_of_the_next_command() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            (&stream).write_all(b"+HI {\"v\":2}\r\n").unwrap();
            let lines = BufReader::new(&stream).lines();
            for (_, reply) in lines.zip(["+OK\r\n", "-NOTUNIQUE locked\r\n", "+OK\r\n"]) {
                (&stream).write_all(reply.as_bytes()).unwrap();
            }
        });
        let url = ServerUrl { address, password: None };
        let mut control = Control::open(&url, Duration::from_secs(30)).unwrap();
        assert!(format!("{:#}", control.command("PUSH {}").unwrap_err()).contains("NOTUNIQUE"));
        assert_eq!(control.command("PUSH {}").unwrap(), b"OK");
        drop(control);
        server.join().unwrap();
    }

    #[test]
    fn password_hash_matches_independent_vectors() {
        let password = Password("password".to_owned());
        let hash =
            |rounds| password_hash(&password, "55104dc76695721d", rounds).expect("few rounds");
        assert_eq!(hash(1), ONE_ROUND);
        assert_eq!(hash(1545), MANY_ROUNDS);
    }

    const ONE_ROUND: &str = "136f7da6ed90e68d75490167200602b8460f3c0e84b59246b7158494fe1551e1";
    const MANY_ROUNDS: &str = "9bf0dff8aa6b4ac3f1199cc8159b25d08e4b945ea6c37671c5a1774603041edc";

    #[test]
    fn excessive_hash_rounds_are_rejected() {
        assert!(password_hash(&Password("x".to_owned()), "s", u32::MAX).is_err());
    }
}
